"""Image classification with Pillow: open, crop, resize, flip, jitter, tensor, normalise, as torchvision would.

Makes its own pictures (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import random
import time

import numpy as np
import torch
from PIL import Image, ImageDraw, ImageEnhance
from torch import nn
from torch.utils.data import DataLoader, Dataset

MEAN = torch.tensor([0.485, 0.456, 0.406]).view(3, 1, 1)
STD = torch.tensor([0.229, 0.224, 0.225]).view(3, 1, 1)


def make_pictures(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(11)
    for i in range(count):
        path = os.path.join(folder, f"{i:05d}_{i % 2}.jpg")
        if os.path.exists(path):
            continue
        size = int(rng.integers(440, 560)), int(rng.integers(330, 420))
        picture = Image.fromarray(rng.integers(0, 256, (12, 16, 3), dtype=np.uint8)).resize(size, Image.BICUBIC)
        draw = ImageDraw.Draw(picture)
        for _ in range(10):
            x, y = int(rng.integers(0, size[0])), int(rng.integers(0, size[1]))
            colour = tuple(int(c) for c in rng.integers(0, 256, 3))
            shape = draw.ellipse if i % 2 else draw.rectangle
            shape((x, y, x + 60, y + 50), fill=colour)
        picture.save(path, quality=90)


class Photos(Dataset):
    def __init__(self, folder, size):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".jpg"))
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image = Image.open(path).convert("RGB")
        width, height = image.size
        side = int(min(width, height) * random.uniform(0.7, 1.0))
        left, top = random.randint(0, width - side), random.randint(0, height - side)
        image = image.crop((left, top, left + side, top + side)).resize((self.size, self.size), Image.BILINEAR)
        if random.random() < 0.5:
            image = image.transpose(Image.FLIP_LEFT_RIGHT)
        image = ImageEnhance.Brightness(image).enhance(random.uniform(0.8, 1.2))
        image = ImageEnhance.Contrast(image).enhance(random.uniform(0.8, 1.2))
        tensor = torch.from_numpy(np.array(image)).permute(2, 0, 1).float() / 255.0
        return (tensor - MEAN) / STD, int(path[-5])


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
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-pil"))
    parser.add_argument("--count", type=int, default=192)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    random.seed(1)
    torch.manual_seed(1)
    if args.threads:
        torch.set_num_threads(args.threads)
    make_pictures(args.data, args.count)

    loader = DataLoader(Photos(args.data, args.size), batch_size=args.batch, shuffle=True)
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
