"""A stream: an IterableDataset that walks through shards, decodes, and keeps a shuffle buffer.

Makes its own shards (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import random
import struct
import time

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, IterableDataset


def make_shards(folder, count, per_shard=64):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(41)
    for first in range(0, count, per_shard):
        path = os.path.join(folder, f"shard_{first // per_shard:03d}.bin")
        if os.path.exists(path):
            continue
        with open(path, "wb") as file:
            for i in range(first, min(count, first + per_shard)):
                picture = cv2.resize(
                    rng.integers(0, 256, (9, 12, 3), dtype=np.uint8), (400, 300), interpolation=cv2.INTER_CUBIC
                )
                shape, size = (cv2.circle, 60) if i % 2 else (cv2.rectangle, (300, 220))
                shape(picture, (200, 150), size, (240, 240, 240), -1)
                data = cv2.imencode(".jpg", picture, [cv2.IMWRITE_JPEG_QUALITY, 90])[1].tobytes()
                file.write(struct.pack("<II", len(data), i % 2) + data)


class Stream(IterableDataset):
    def __init__(self, folder, size, buffer):
        self.shards = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".bin"))
        self.size, self.buffer = size, buffer

    def samples(self):
        for path in self.shards:
            with open(path, "rb") as file:
                while header := file.read(8):
                    length, label = struct.unpack("<II", header)
                    yield self.decode(file.read(length)), label

    def decode(self, data):
        image = cv2.imdecode(np.frombuffer(data, np.uint8), cv2.IMREAD_COLOR)
        image = cv2.resize(image, (self.size, self.size))
        image = image[:, :, ::-1].astype(np.float32)
        image = (image / 255.0 - 0.5) / 0.25
        return torch.from_numpy(image.transpose(2, 0, 1).copy())

    def __iter__(self):
        held = []
        for sample in self.samples():
            held.append(sample)
            if len(held) >= self.buffer:
                yield held.pop(random.randrange(len(held)))
        random.shuffle(held)
        yield from held


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(3, 8, 3, stride=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.conv(x[:, :, ::8, ::8]))
        return self.head(x.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-shards"))
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=192)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch and cv2")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    random.seed(1)
    torch.manual_seed(1)
    if args.threads:
        torch.set_num_threads(args.threads)
        cv2.setNumThreads(args.threads)
    make_shards(args.data, args.count)

    loader = DataLoader(Stream(args.data, args.size, 48), batch_size=args.batch)
    model = SmallNet()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    digests = []
    for epoch in range(args.epochs):
        started, seen, total = time.perf_counter(), 0, 0.0
        for images, labels in loader:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(labels)
            seen += len(labels)
            if args.digest:
                digests.append(hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes()).hexdigest())
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: loss {total / seen:.6f}, {seen / seconds:.1f} items/s", flush=True)
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
