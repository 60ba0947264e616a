"""A small ResNet for `codedag stages`: convolutions with skips, cut into stages by itself.

codedag stages show examples/stages_cnn.py:resnet
codedag stages profile examples/stages_cnn.py:resnet -o RESNET
"""

import torch
from torch import nn


class Block(nn.Module):
    """Two convolutions and the skip around them."""

    def __init__(self, inputs, outputs, stride):
        super().__init__()
        self.conv1 = nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False)
        self.norm1 = nn.BatchNorm2d(outputs)
        self.conv2 = nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False)
        self.norm2 = nn.BatchNorm2d(outputs)
        self.relu = nn.ReLU(inplace=True)
        self.skip = nn.Identity()
        if stride != 1 or inputs != outputs:
            self.skip = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x):
        y = self.relu(self.norm1(self.conv1(x)))
        return self.relu(self.norm2(self.conv2(y)) + self.skip(x))


class ResNet(nn.Module):
    """A stem, pairs of blocks, and a head."""

    def __init__(self, widths=(64, 128, 256, 512), classes=1000):
        super().__init__()
        self.stem = nn.Sequential(
            nn.Conv2d(3, widths[0], 7, 2, 3, bias=False), nn.BatchNorm2d(widths[0]), nn.ReLU(), nn.MaxPool2d(3, 2, 1)
        )
        pairs, inputs = [], widths[0]
        for at, width in enumerate(widths):
            pairs.append(nn.Sequential(Block(inputs, width, 1 if at == 0 else 2), Block(width, width, 1)))
            inputs = width
        self.layers = nn.ModuleList(pairs)
        self.head = nn.Sequential(nn.AdaptiveAvgPool2d(1), nn.Flatten(), nn.Linear(inputs, classes))

    def forward(self, images):
        x = self.stem(images)
        for layer in self.layers:
            x = layer(x)
        return self.head(x)


def resnet():
    """ResNet-18 with weights from a seed, for images of 224 x 224."""
    torch.manual_seed(0)
    return ResNet().eval(), torch.randn(1, 3, 224, 224)


def small():
    """A narrow one for images of 32 x 32."""
    torch.manual_seed(0)
    return ResNet((16, 32), 10).eval(), torch.randn(2, 3, 32, 32)
