"""A program that prepares pictures, on a machine with a torch device written in Python; it says what moved last."""

from __future__ import annotations

import sys
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
import numpy as np
import second_device
from torch.utils.data import DataLoader, Dataset

kept = second_device.start()
import cv2  # noqa: E402

if "--keep" in sys.argv:  # the device is not faster, and what is not faster is taken back
    from codedag.migrate import trial

    trial.SLOWER = trial.HOPELESS = 0.0


def prepare(image):
    """Three calls, each value used once."""
    small = cv2.resize(image, (40, 30))
    turned = cv2.flip(small, 1)
    return cv2.copyMakeBorder(turned, 2, 2, 3, 3, cv2.BORDER_REFLECT_101)


class Photos(Dataset):
    """Pictures of noise."""

    def __len__(self):
        """So many."""
        return 20

    def __getitem__(self, index):
        """A prepared picture, and what moved for it."""
        image = np.random.default_rng(index).integers(0, 256, (60, 80, 3)).astype(np.uint8)
        second_device.LOG.clear()
        made = prepare(image)
        assert type(made) is np.ndarray
        return made, second_device.LOG.count("to device"), second_device.LOG.count("to host")


there = back = total = 0
for made, sent, fetched in DataLoader(Photos(), batch_size=None, num_workers=1 if "--workers" in sys.argv else 0):
    total += int(made.sum())
    there, back = int(sent), int(fetched)
sys.stdout.write(f"{total}\n")
sys.stderr.write(f"moved {there} {back}\n")
