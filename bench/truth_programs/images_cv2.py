"""Pictures read, resized, flipped and normalised with cv2, epoch after epoch, in one plain loop."""

import hashlib
import sys
from pathlib import Path

import cv2
import numpy as np

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)


def pictures(folder, count=64):
    folder.mkdir(parents=True, exist_ok=True)
    paths = [folder / f"{i:03d}.jpg" for i in range(count)]
    for i, path in enumerate(paths):
        if not path.exists():
            y, x = np.mgrid[0:300, 0:400]
            waves = [128 + 60 * np.sin(x / (9 + i % 7) + k) * np.cos(y / 11) for k in range(3)]
            noise = np.random.default_rng(i).normal(0, 9, (300, 400, 3))
            cv2.imwrite(str(path), np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8))
    return paths


def load(path, rng):
    image = cv2.cvtColor(cv2.imread(str(path)), cv2.COLOR_BGR2RGB)
    image = cv2.resize(image, (224, 224))
    if rng.random() < 0.5:
        image = image[:, ::-1]
    image = (image.astype(np.float32) / 255.0 - MEAN) / STD
    return image.transpose(2, 0, 1)


paths = pictures(Path(sys.argv[2]))
digest, rng = hashlib.sha256(), np.random.default_rng(1)
for turn in range(int(sys.argv[1])):
    batch = np.stack([load(paths[(turn * 8 + i) % len(paths)], rng) for i in range(8)])
    digest.update(batch.mean((0, 2, 3)).tobytes() + batch[0, :, ::7, ::7].tobytes())
print("pictures", digest.hexdigest())
