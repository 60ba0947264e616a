"""No framework at all: a generator of batches, numpy and cv2, and logistic regression written by hand.

Makes its own pictures (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import glob
import hashlib
import os
import random
import time

import cv2
import numpy as np


def make_pictures(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(31)
    for i in range(count):
        path = os.path.join(folder, f"{i:05d}_{i % 2}.jpg")
        if os.path.exists(path):
            continue
        picture = cv2.resize(
            rng.integers(0, 256, (9, 12, 3), dtype=np.uint8), (480, 360), interpolation=cv2.INTER_CUBIC
        )
        for _ in range(8):
            center = (int(rng.integers(0, 480)), int(rng.integers(0, 360)))
            colour = tuple(int(c) for c in rng.integers(0, 256, 3))
            if i % 2:
                cv2.circle(picture, center, 40, colour, -1)
            else:
                cv2.rectangle(picture, center, (center[0] + 60, center[1] + 40), colour, -1)
        cv2.imwrite(path, picture, [cv2.IMWRITE_JPEG_QUALITY, 90])


def load(path, size):
    image = cv2.imread(path)
    image = cv2.resize(image, (size, size), interpolation=cv2.INTER_AREA)
    grey = cv2.cvtColor(image, cv2.COLOR_BGR2GRAY)
    edges = cv2.Sobel(grey, cv2.CV_32F, 1, 0, ksize=3)
    image = image / 127.5 - 1.0
    return np.concatenate([image, edges[..., None] / 255.0], axis=2).astype(np.float32)


def batches(paths, size, batch):
    order = list(paths)
    random.shuffle(order)
    for start in range(0, len(order), batch):
        chosen = order[start : start + batch]
        images = [load(path, size) for path in chosen]
        images = [image[:, ::-1] if random.random() < 0.5 else image for image in images]
        yield np.stack(images), np.array([int(path[-5]) for path in chosen])


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-loop"))
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of cv2")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    random.seed(1)
    if args.threads:
        cv2.setNumThreads(args.threads)
    make_pictures(args.data, args.count)
    paths = sorted(glob.glob(os.path.join(args.data, "*.jpg")))
    weights, digests = np.zeros(8), []
    for epoch in range(args.epochs):
        started, seen, total = time.perf_counter(), 0, 0.0
        for images, labels in batches(paths, args.size, args.batch):
            x = np.concatenate([images.mean(axis=(1, 2)), images.std(axis=(1, 2))], axis=1)
            guess = 1.0 / (1.0 + np.exp(-(x * weights).sum(axis=1)))
            weights -= 0.1 * (x * (guess - labels)[:, None]).mean(axis=0)
            total += float(-np.log(np.where(labels == 1, guess, 1 - guess)).sum())
            seen += len(labels)
            if args.digest:
                digests.append(hashlib.sha256(images.tobytes() + labels.tobytes()).hexdigest())
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: loss {total / seen:.6f}, {seen / seconds:.1f} items/s", flush=True)
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
