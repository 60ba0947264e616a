"""A script that waits for nothing: the data is a tensor in memory and all time is spent in the model.

There is nothing to gain here, and a tool that says so costs nothing.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", help="for the other examples' sake; nothing is stored")
    parser.add_argument("--count", type=int, default=512)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=32)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    torch.manual_seed(1)
    if args.threads:
        torch.set_num_threads(args.threads)
    images = torch.randn(args.count, 3, 32, 32)
    labels = (images.mean(dim=(1, 2, 3)) > 0).long()
    loader = DataLoader(TensorDataset(images, labels), batch_size=args.batch, shuffle=True)
    model = nn.Sequential(
        nn.Conv2d(3, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, padding=1),
        nn.ReLU(),
        nn.Conv2d(32, 32, 3, stride=2),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(32, 2),
    )
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    digests = []
    for epoch in range(args.epochs):
        started, seen, total = time.perf_counter(), 0, 0.0
        for batch, wanted in loader:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(batch), wanted)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(wanted)
            seen += len(wanted)
            if args.digest:
                digests.append(hashlib.sha256(batch.numpy().tobytes() + wanted.numpy().tobytes()).hexdigest())
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: loss {total / seen:.6f}, {seen / seconds:.1f} items/s", flush=True)
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
