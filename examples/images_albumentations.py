"""Image classification with albumentations: the pipeline of half of all notebooks.

Makes its own pictures (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import time

os.environ.setdefault("NO_ALBUMENTATIONS_UPDATE", "1")

import albumentations as A
import cv2
import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


def make_pictures(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(13)
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
    def __init__(self, folder, transform):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jpg"))
        self.transform = transform

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
        image = self.transform(image=image)["image"]
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))), int(path[-5])


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
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-albu"))
    parser.add_argument("--count", type=int, default=192)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch and cv2")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    torch.manual_seed(1)
    if args.threads:
        torch.set_num_threads(args.threads)
        cv2.setNumThreads(args.threads)
    make_pictures(args.data, args.count)

    transform = A.Compose(
        [
            A.Resize(args.size, args.size),
            A.HorizontalFlip(p=0.5),
            A.RandomBrightnessContrast(p=0.5),
            A.Normalize(),
        ],
        seed=1,
    )
    loader = DataLoader(Photos(args.data, transform), batch_size=args.batch, shuffle=True)
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
