"""A small convolutional network trained on tensors in memory; writes its checkpoint."""

import sys

import torch
from torch import nn
from torch.utils.data import DataLoader, TensorDataset

torch.manual_seed(1)
images = torch.randn(256, 3, 32, 32)
labels = torch.randint(0, 10, (256,))
model = nn.Sequential(
    nn.Conv2d(3, 16, 3, padding=1), nn.BatchNorm2d(16), nn.ReLU(), nn.MaxPool2d(2), nn.Conv2d(16, 32, 3, padding=1),
    nn.ReLU(), nn.AdaptiveAvgPool2d(4), nn.Flatten(), nn.Linear(512, 10),
)  # fmt: skip
optimiser = torch.optim.SGD(model.parameters(), lr=0.01, momentum=0.9)
criterion = nn.CrossEntropyLoss()
for epoch in range(int(sys.argv[1])):
    total = 0.0
    for x, y in DataLoader(TensorDataset(images, labels), batch_size=32, shuffle=True):
        optimiser.zero_grad()
        loss = criterion(model(x), y)
        loss.backward()
        optimiser.step()
        total += loss.item()
    if epoch % 10 == 0:
        print(epoch, total)
torch.save({"model": model.state_dict(), "optimiser": optimiser.state_dict()}, "checkpoint.pt")
