"""An albumentations Dataset behind a DataLoader: `albumentations_loader.py TURNS FOLDER WORKERS`; a turn is a pass."""

import hashlib
import sys
from pathlib import Path

import albumentations as A  # noqa: N812
import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __init__(self, folder, count=64):
        folder.mkdir(parents=True, exist_ok=True)
        self.paths = [str(folder / f"{i:03d}.png") for i in range(count)]
        for i, path in enumerate(self.paths):
            if not Path(path).exists():
                small = np.random.default_rng(i).integers(0, 256, (24, 32, 3)).astype(np.uint8)
                cv2.imwrite(path, cv2.resize(small, (320, 240), interpolation=cv2.INTER_CUBIC))
        self.transform = A.Compose(
            [
                A.RandomCrop(192, 192), A.HorizontalFlip(p=0.5), A.RandomBrightnessContrast(p=0.5),
                A.GaussianBlur(blur_limit=(3, 5), p=0.3), A.Normalize(),
            ],
            seed=11,
        )  # fmt: skip

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        image = cv2.cvtColor(cv2.imread(self.paths[index]), cv2.COLOR_BGR2RGB)
        image = self.transform(image=image)["image"]
        return torch.from_numpy(np.ascontiguousarray(image.transpose(2, 0, 1))), index % 5


def main():
    torch.manual_seed(0)
    data, digest = Pictures(Path(sys.argv[2])), hashlib.sha256()
    loader = DataLoader(data, batch_size=16, shuffle=True, num_workers=int(sys.argv[3]))
    for _ in range(int(sys.argv[1])):
        for images, labels in loader:
            digest.update(images.numpy()[:, :, ::11, ::11].tobytes() + labels.numpy().tobytes())
    print("batches", digest.hexdigest())


if __name__ == "__main__":
    main()
