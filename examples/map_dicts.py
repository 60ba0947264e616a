"""The way of Hugging Face's datasets: rows are dicts, `map` applies a function to batches of columns.

Makes its own rows, prints scores.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import time

import cv2
import numpy as np


def make_rows(count):
    rng = np.random.default_rng(37)
    rows = []
    for i in range(count):
        picture = cv2.resize(rng.integers(0, 256, (8, 8, 3), dtype=np.uint8), (320, 240), interpolation=cv2.INTER_CUBIC)
        shape = cv2.circle if i % 2 else cv2.rectangle
        size = 50 if i % 2 else (220, 170)
        shape(picture, (160, 120), size, (250, 250, 250), -1)
        encoded = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 92])[1]
        rows.append(
            {
                "image": encoded.tobytes(),
                "caption": f"A {'round' if i % 2 else 'square'} thing, number {i}.",
                "label": i % 2,
            }
        )
    return rows


class Rows:
    """What one needs of `datasets.Dataset`."""

    def __init__(self, rows):
        self.rows = rows

    def map(self, function, batch_size):
        mapped = []
        for start in range(0, len(self.rows), batch_size):
            chunk = self.rows[start : start + batch_size]
            columns = function({name: [row[name] for row in chunk] for name in chunk[0]})
            mapped += [dict(zip(columns, values, strict=True)) for values in zip(*columns.values(), strict=True)]
        return Rows(mapped)


def pixels(data, size):
    image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    image = cv2.resize(image, (size, size))
    image = image.astype(np.float32) / 255.0
    image = (image - np.array([0.5, 0.5, 0.5])) / np.array([0.25, 0.25, 0.25])
    return image.transpose(2, 0, 1).astype(np.float32)


def words(text):
    tokens = text.lower().replace(",", " ").replace(".", " ").split()
    return [sum(ord(c) * 31**k for k, c in enumerate(token)) % 997 for token in tokens]


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="for the other examples' sake; rows live in memory")
    parser.add_argument("--count", type=int, default=384)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=64)
    parser.add_argument("--size", type=int, default=160)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of cv2")
    parser.add_argument("--digest", help="write a digest of every row to this file")
    args = parser.parse_args()

    if args.threads:
        cv2.setNumThreads(args.threads)
    rows, digests = Rows(make_rows(args.count)), []

    def preprocess(batch):
        batch["pixels"] = [pixels(data, args.size) for data in batch.pop("image")]
        batch["tokens"] = [words(text) for text in batch["caption"]]
        return batch

    for epoch in range(args.epochs):
        started = time.perf_counter()
        ready = rows.map(preprocess, args.batch)
        means = np.array([row["pixels"].mean() for row in ready.rows])
        labels = np.array([row["label"] for row in ready.rows])
        score = abs(float(means[labels == 1].mean() - means[labels == 0].mean()))
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: distance {score:.6f}, {len(labels) / seconds:.1f} items/s", flush=True)
        if args.digest:
            digests += [
                hashlib.sha256(row["pixels"].tobytes() + bytes(str(row["tokens"]), "utf8")).hexdigest()
                for row in ready.rows
            ]
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
