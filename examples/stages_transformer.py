"""A transformer encoder for `codedag stages`: attention and feed-forward layers over token numbers.

codedag stages show examples/stages_transformer.py:encoder
codedag stages profile examples/stages_transformer.py:encoder -o ENCODER
"""

import torch
from torch import nn
from torch.nn.functional import scaled_dot_product_attention


class Layer(nn.Module):
    """Self-attention and a feed-forward part, each with a skip; norms come first."""

    def __init__(self, width, heads):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(width), nn.LayerNorm(width)
        self.qkv, self.out = nn.Linear(width, 3 * width), nn.Linear(width, width)
        self.up, self.down = nn.Linear(width, 4 * width), nn.Linear(4 * width, width)

    def forward(self, x):
        batch, tokens, width = x.shape
        qkv = self.qkv(self.norm1(x)).view(batch, tokens, 3, self.heads, width // self.heads)
        q, k, v = qkv.permute(2, 0, 3, 1, 4).unbind(0)
        mixed = scaled_dot_product_attention(q, k, v).transpose(1, 2).reshape(batch, tokens, width)
        x = x + self.out(mixed)
        return x + self.down(nn.functional.gelu(self.up(self.norm2(x))))


class Encoder(nn.Module):
    """Embeddings of tokens and places, layers, and a norm."""

    def __init__(self, words=8192, tokens=128, width=256, heads=8, layers=4):
        super().__init__()
        self.words, self.places = nn.Embedding(words, width), nn.Embedding(tokens, width)
        self.layers = nn.ModuleList(Layer(width, heads) for _ in range(layers))
        self.norm = nn.LayerNorm(width)

    def forward(self, tokens):
        x = self.words(tokens) + self.places.weight[: tokens.shape[1]]
        for layer in self.layers:
            x = layer(x)
        return self.norm(x)


def encoder():
    """Four layers of 256 with weights from a seed, for 128 tokens."""
    torch.manual_seed(0)
    return Encoder().eval(), torch.randint(0, 8192, (1, 128))


def small():
    """Two narrow layers for 16 tokens."""
    torch.manual_seed(0)
    return Encoder(words=50, tokens=16, width=32, heads=4, layers=2).eval(), torch.randint(0, 50, (2, 16))
