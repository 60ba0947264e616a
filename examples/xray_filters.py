"""Chest X-rays: denoise, sharpen and equalise with scipy.ndimage and scikit-image before a small model.

Makes its own pictures (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import time

import cv2
import numpy as np
import torch
from scipy import ndimage
from skimage import exposure, transform
from torch import nn
from torch.utils.data import DataLoader, Dataset


def make_xrays(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(19)
    y, x = np.mgrid[0:320, 0:320] / 320.0
    for i in range(count):
        path = os.path.join(folder, f"{i:05d}_{i % 2}.png")
        if os.path.exists(path):
            continue
        picture = (
            60
            + 80 * np.exp(-((x - 0.3) ** 2 + (y - 0.5) ** 2) * 14)
            + 80 * np.exp(-((x - 0.7) ** 2 + (y - 0.5) ** 2) * 14)
        )
        picture += 15 * np.sin(40 * y + rng.uniform(0, 6))
        if i % 2:
            cx, cy = rng.uniform(0.25, 0.75, 2)
            picture += 60 * np.exp(-((x - cx) ** 2 + (y - cy) ** 2) * 400)
        picture += rng.normal(0, 8, picture.shape)
        speckle = rng.random(picture.shape)
        picture[speckle < 0.01], picture[speckle > 0.99] = 0, 255
        cv2.imwrite(path, np.clip(picture, 0, 255).astype(np.uint8))


def clean(image):
    image = ndimage.median_filter(image, size=3)
    background = ndimage.minimum_filter(image, size=9)
    image = np.maximum(image, background)
    edges = ndimage.morphological_gradient(image, size=(3, 3))
    blurred = ndimage.gaussian_filter(image, sigma=1.0)
    return np.clip(blurred.astype(np.int16) + edges // 4, 0, 255).astype(np.uint8)


class Xrays(Dataset):
    def __init__(self, folder, size):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".png"))
        self.size = size

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        image = clean(cv2.imread(path, cv2.IMREAD_GRAYSCALE))
        image = exposure.rescale_intensity(image)
        image = transform.resize(image, (self.size, self.size), anti_aliasing=False)
        image = (image - 0.5) / 0.25
        return torch.from_numpy(image[None]).float(), int(path[-5])


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.conv(x[:, :, ::8, ::8]))
        return self.head(x.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-xrays"))
    parser.add_argument("--count", type=int, default=96)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--size", type=int, default=224)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch and cv2")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    torch.manual_seed(1)
    if args.threads:
        torch.set_num_threads(args.threads)
        cv2.setNumThreads(args.threads)
    make_xrays(args.data, args.count)

    loader = DataLoader(Xrays(args.data, args.size), batch_size=args.batch, shuffle=True)
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
