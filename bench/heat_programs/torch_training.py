"""A training with deep stacks: nested modules, a DataLoader with transforms, Adam."""

import sys
import time

import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset


class Pictures(Dataset):
    def __len__(self):
        return 512

    def __getitem__(self, index):
        generator = torch.Generator().manual_seed(index)
        picture = torch.rand(3, 16, 16, generator=generator)
        return self.augment(picture), index % 10

    def augment(self, picture):
        picture = torch.flip(picture, (2,))
        return (picture - picture.mean()) / (picture.std() + 1e-6)


class Block(nn.Module):
    def __init__(self, width, depth):
        super().__init__()
        self.convolution = nn.Conv2d(width, width, 3, padding=1)
        self.norm = nn.BatchNorm2d(width)
        self.inner = Block(width, depth - 1) if depth else nn.Identity()

    def forward(self, x):
        return x + self.inner(torch.relu(self.norm(self.convolution(x))))


def train_one_epoch(model, loader, optimizer, until):
    for pictures, labels in loader:
        loss = nn.functional.cross_entropy(model(pictures), labels)
        optimizer.zero_grad()
        loss.backward()
        optimizer.step()
        if time.process_time() > until:
            return


def main(seconds):
    torch.manual_seed(0)
    torch.set_num_threads(1)
    model = nn.Sequential(nn.Conv2d(3, 8, 3), Block(8, 14), nn.Flatten(), nn.Linear(8 * 14 * 14, 10))
    optimizer = torch.optim.Adam(model.parameters())
    loader = DataLoader(Pictures(), batch_size=32, shuffle=True)
    until = time.process_time() + seconds
    while time.process_time() < until:
        train_one_epoch(model, loader, optimizer, until)


if __name__ == "__main__":
    main(float(sys.argv[1]))
