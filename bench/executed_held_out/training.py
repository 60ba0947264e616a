"""Steps of training in torch: forward, a loss, back, an optimiser."""

import torch
from torch import nn

torch.manual_seed(0)
MODEL = nn.Sequential(nn.Linear(128, 256), nn.ReLU(), nn.LayerNorm(256), nn.Linear(256, 10))
STEPS = torch.optim.SGD(MODEL.parameters(), lr=0.01, momentum=0.9)
BATCHES = [(torch.rand(256, 128), torch.randint(0, 10, (256,))) for _ in range(4)]


def trained(values, labels):
    STEPS.zero_grad()
    loss = nn.functional.cross_entropy(MODEL(values), labels)
    loss.backward()
    STEPS.step()
    return loss.item()


def main():
    return sum(trained(*BATCHES[index % 4]) for index in range(60))


if __name__ == "__main__":
    main()
