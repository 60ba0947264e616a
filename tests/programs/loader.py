"""A DataLoader over pictures in memory: workers, start method and misbehaviour by name."""
import argparse
import os
import signal
import time

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset, IterableDataset


def wait_until_kept():
    """Waits, for two minutes at most, until what this process has recorded by now is in its file."""
    file, now = os.path.join(os.environ.get("RECORDS", ""), f"{os.getpid()}.json"), time.time()
    for _ in range(2400 if os.environ.get("RECORDS") else 0):
        if os.path.exists(file) and os.path.getmtime(file) > now + 0.05:
            break
        time.sleep(0.05)


class Photos(Dataset):
    def __init__(self, count, killed_at=-1, raises_at=-1):
        self.count, self.killed_at, self.raises_at = count, killed_at, raises_at
        self.base = np.random.default_rng(0).integers(0, 200, (64, 64, 3), dtype=np.uint8) + np.uint8(1)

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        if index == self.killed_at:
            time.sleep(0.5)
            wait_until_kept()
            os.kill(os.getpid(), signal.SIGKILL)
        if index == self.raises_at:
            raise ValueError(f"picture {index} is broken")
        return self.prepare(cv2.resize(self.base, (32, 32))), index

    def prepare(self, image):
        scaled = image.astype(np.float32) / 255.0
        return torch.from_numpy(np.ascontiguousarray(scaled.transpose(2, 0, 1)))


class Stream(IterableDataset):
    def __init__(self, count):
        self.count = count

    def __iter__(self):
        worker = torch.utils.data.get_worker_info()
        first, step = (worker.id, worker.num_workers) if worker else (0, 1)
        for index in range(first, self.count, step):
            yield torch.from_numpy(np.full((4, 4), index, dtype=np.float32) * 2.0)


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--workers", type=int, default=0)
    parser.add_argument("--method", default=None)
    parser.add_argument("--persistent", action="store_true")
    parser.add_argument("--stream", action="store_true")
    parser.add_argument("--unordered", action="store_true")
    parser.add_argument("--break-at", type=int, default=-1)
    parser.add_argument("--killed-at", type=int, default=-1)
    parser.add_argument("--raises-at", type=int, default=-1)
    options = parser.parse_args()
    data = Stream(24) if options.stream else Photos(24, options.killed_at, options.raises_at)
    loader = DataLoader(
        data,
        batch_size=4,
        num_workers=options.workers,
        multiprocessing_context=options.method if options.workers else None,
        persistent_workers=options.persistent,
        in_order=not options.unordered,
    )
    total = 0.0
    for epoch in range(2):
        for number, batch in enumerate(loader):
            images = batch if options.stream else batch[0]
            total += float(images.mean())
            if number == options.break_at and epoch == 0:
                break
    print(f"{total:.4f}")


if __name__ == "__main__":
    main()
