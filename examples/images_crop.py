"""Image classification with random crops: JPEG, cv2, random-resized-crop, flip, jitter, normalise, DataLoader.

Makes its own pictures (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import math
import os
import random
import time

import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN = [0.485, 0.456, 0.406]
STD = [0.229, 0.224, 0.225]


def make_pictures(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(7)
    for i in range(count):
        path = os.path.join(folder, f"{i:05d}_{i % 2}.jpg")
        if os.path.exists(path):
            continue
        height, width = int(rng.integers(330, 420)), int(rng.integers(440, 560))
        picture = np.zeros((height, width, 3), np.float32)
        for octave in range(2, 7):
            noise = rng.normal(0, 1, (2**octave, 2**octave, 3)).astype(np.float32)
            picture += cv2.resize(noise, (width, height), interpolation=cv2.INTER_CUBIC) * (140 / 1.75**octave)
        picture += 120
        for _ in range(10):
            center = (int(rng.integers(0, width)), int(rng.integers(0, height)))
            colour = tuple(float(c) for c in rng.integers(10, 245, 3))
            if i % 2:
                cv2.circle(picture, center, int(rng.integers(6, 70)), colour, -1, cv2.LINE_AA)
            else:
                cv2.rectangle(picture, center, (center[0] + 60, center[1] + 40), colour, -1)
        picture += rng.normal(0, 4, picture.shape).astype(np.float32)
        cv2.imwrite(path, np.clip(picture, 0, 255).astype(np.uint8), [cv2.IMWRITE_JPEG_QUALITY, 88])


def random_box(width, height):
    area = width * height
    for _ in range(10):
        wanted = area * random.uniform(0.08, 1.0)
        ratio = math.exp(random.uniform(math.log(3 / 4), math.log(4 / 3)))
        w, h = round(math.sqrt(wanted * ratio)), round(math.sqrt(wanted / ratio))
        if 0 < w <= width and 0 < h <= height:
            return random.randint(0, width - w), random.randint(0, height - h), w, h
    side = min(width, height)
    return (width - side) // 2, (height - side) // 2, side, side


def load(path, size):
    image = cv2.imread(path)
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    height, width = image.shape[:2]
    x, y, w, h = random_box(width, height)
    image = cv2.resize(image[y : y + h, x : x + w], (size, size))
    if random.random() < 0.5:
        image = cv2.flip(image, 1)
    image = np.clip(image.astype(np.float32) * random.uniform(0.8, 1.2) + random.uniform(-0.2, 0.2) * 255, 0, 255)
    image = (image / 255.0 - np.array(MEAN)) / np.array(STD)
    return torch.from_numpy(image.transpose(2, 0, 1)).float()


class Photos(Dataset):
    def __init__(self, folder, size):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jpg"))
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        return load(self.paths[index], self.size), int(self.paths[index][-5])


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
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-crops"))
    parser.add_argument("--count", type=int, default=256)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch and cv2")
    parser.add_argument("--load-only", action="store_true", help="go through the batches without training, to time it")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    random.seed(1)
    torch.manual_seed(1)
    if args.threads:
        torch.set_num_threads(args.threads)
        cv2.setNumThreads(args.threads)
    make_pictures(args.data, args.count)

    loader = DataLoader(Photos(args.data, args.size), batch_size=args.batch, shuffle=True, num_workers=args.workers)
    model = SmallNet()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    digests = []
    for epoch in range(args.epochs):
        started, seen, total = time.perf_counter(), 0, 0.0
        for images, labels in loader:
            seen += len(labels)
            if not args.load_only:
                optimiser.zero_grad()
                loss = nn.functional.cross_entropy(model(images), labels)
                loss.backward()
                optimiser.step()
                total += loss.item() * len(labels)
            if args.digest:
                digests.append(hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes()).hexdigest())
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: loss {total / seen:.6f}, {seen / seconds:.1f} items/s", flush=True)
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
