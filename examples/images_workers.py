"""Image classification with two worker processes: cv2, numpy draws, a custom collate and a seeded worker_init_fn.

Makes its own pictures (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import random
import time

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN = np.array([0.485, 0.456, 0.406], dtype=np.float32)
STD = np.array([0.229, 0.224, 0.225], dtype=np.float32)


def make_pictures(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(29)
    for i in range(count):
        path = os.path.join(folder, f"{i:05d}_{i % 2}.jpg")
        if os.path.exists(path):
            continue
        height, width = int(rng.integers(330, 420)), int(rng.integers(440, 560))
        small = rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)
        picture = cv2.resize(small, (width, height), interpolation=cv2.INTER_CUBIC)
        for _ in range(10):
            center = (int(rng.integers(0, width)), int(rng.integers(0, height)))
            colour = tuple(int(c) for c in rng.integers(0, 256, 3))
            if i % 2:
                cv2.circle(picture, center, 40, colour, -1)
            else:
                cv2.rectangle(picture, center, (center[0] + 60, center[1] + 40), colour, -1)
        cv2.imwrite(path, picture, [cv2.IMWRITE_JPEG_QUALITY, 90])


class Photos(Dataset):
    def __init__(self, folder, size):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jpg"))
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
        height, width = image.shape[:2]
        side = int(min(height, width) * np.random.uniform(0.7, 1.0))
        top, left = np.random.randint(0, height - side + 1), np.random.randint(0, width - side + 1)
        image = cv2.resize(image[top : top + side, left : left + side], (self.size, self.size))
        if random.random() < 0.5:
            image = image[:, ::-1]
        image = (image.astype(np.float32) / 255.0 - MEAN) / STD
        return {"image": image.transpose(2, 0, 1).copy(), "label": int(path[-5]), "path": path}


def collate(items):
    images = torch.from_numpy(np.stack([item["image"] for item in items]))
    labels = torch.tensor([item["label"] for item in items])
    return images, labels, [item["path"] for item in items]


def seed_worker(number):
    random.seed(100 + number)
    np.random.seed(100 + number)


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
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-workers"))
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=2)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch and cv2")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    torch.manual_seed(1)
    seed_worker(0)
    if args.threads:
        torch.set_num_threads(args.threads)
        cv2.setNumThreads(args.threads)
    make_pictures(args.data, args.count)

    loader = DataLoader(
        Photos(args.data, args.size), batch_size=args.batch, shuffle=True, num_workers=args.workers,
        collate_fn=collate, worker_init_fn=seed_worker, persistent_workers=args.workers > 0,
    )  # fmt: skip
    model = SmallNet()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    digests = []
    for epoch in range(args.epochs):
        started, seen, total = time.perf_counter(), 0, 0.0
        for images, labels, _ in loader:
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
