"""Image classification with TensorFlow: tf.data, whose pictures are read by a Python function, and a small model.

Makes its own pictures (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import time

os.environ.setdefault("TF_CPP_MIN_LOG_LEVEL", "2")

import cv2
import numpy as np
import tensorflow as tf

MEAN = np.array([0.485, 0.456, 0.406])
STD = np.array([0.229, 0.224, 0.225])
SIZE = 224


def make_pictures(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(13)
    for i in range(count):
        path = os.path.join(folder, f"{i:05d}_{i % 2}.jpg")
        if os.path.exists(path):
            continue
        picture = cv2.resize(
            rng.integers(0, 256, (12, 16, 3), dtype=np.uint8), (512, 384), interpolation=cv2.INTER_CUBIC
        )
        for _ in range(10):
            center = (int(rng.integers(0, 512)), int(rng.integers(0, 384)))
            colour = tuple(int(c) for c in rng.integers(0, 256, 3))
            if i % 2:
                cv2.circle(picture, center, int(rng.integers(8, 60)), colour, -1, cv2.LINE_AA)
            else:
                cv2.rectangle(picture, center, (center[0] + 60, center[1] + 40), colour, -1)
        cv2.imwrite(path, picture, [cv2.IMWRITE_JPEG_QUALITY, 90])


def load(path):
    """Python: TensorFlow calls it for each picture, in threads of its own."""
    image = cv2.imread(path.decode())
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    image = cv2.resize(image, (SIZE, SIZE), interpolation=cv2.INTER_AREA)
    image = (image / 255.0 - MEAN) / STD
    return image.astype(np.float32)


def augment(image, label, seed):
    """TensorFlow's graph, with draws that depend on the seed alone."""
    image = tf.image.stateless_random_flip_left_right(image, seed)
    image = tf.image.stateless_random_contrast(image, 0.8, 1.2, seed)
    return image, label


def batches(paths, labels, args, epoch):
    def read(path, label, seed):
        """TensorFlow's graph: AutoGraph reads this function once."""
        image = tf.numpy_function(load, [path], tf.float32)
        image.set_shape([SIZE, SIZE, 3])
        return image, label, seed

    seeds = np.stack([np.arange(len(paths)), np.full(len(paths), epoch)], axis=1)
    dataset = tf.data.Dataset.from_tensor_slices((paths, labels, seeds)).shuffle(len(paths), seed=epoch)
    dataset = dataset.map(read, num_parallel_calls=2)
    dataset = dataset.map(augment, num_parallel_calls=tf.data.AUTOTUNE)
    return dataset.batch(args.batch).prefetch(2)


@tf.function
def train(weights, images, labels):
    with tf.GradientTape() as tape:
        x = tf.concat([tf.reduce_mean(images, [1, 2]), tf.math.reduce_std(images, [1, 2])], 1)
        logits = tf.linalg.matvec(x, weights)
        loss = tf.reduce_mean(tf.nn.sigmoid_cross_entropy_with_logits(labels, logits))
    weights.assign_sub(0.1 * tape.gradient(loss, weights))
    return loss


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-tfdata"))
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of TensorFlow and cv2")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    tf.random.set_seed(1)
    if args.threads:
        tf.config.threading.set_intra_op_parallelism_threads(args.threads)
        cv2.setNumThreads(args.threads)
    make_pictures(args.data, args.count)
    paths = sorted(os.path.join(args.data, name) for name in os.listdir(args.data) if name.endswith(".jpg"))
    labels = np.array([float(path[-5]) for path in paths], np.float32)
    weights, digests = tf.Variable(tf.zeros(6)), []
    for epoch in range(args.epochs):
        started, seen, total = time.perf_counter(), 0, 0.0
        for images, chosen in batches(paths, labels, args, epoch):
            total += float(train(weights, images, chosen)) * len(chosen)
            seen += len(chosen)
            if args.digest:
                digests.append(hashlib.sha256(images.numpy().tobytes() + chosen.numpy().tobytes()).hexdigest())
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: loss {total / seen:.6f}, {seen / seconds:.0f} images/s", flush=True)
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
