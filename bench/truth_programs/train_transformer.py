"""A small transformer trained on text as characters; writes its checkpoint."""

import sys

import torch
from torch import nn

TEXT = "the quick brown fox jumps over the lazy dog and the dog sleeps on while the fox runs away again. " * 40
LETTERS = sorted(set(TEXT))
IDS = torch.tensor([LETTERS.index(c) for c in TEXT])


class Model(nn.Module):
    def __init__(self, width=64):
        super().__init__()
        self.letters, self.places = nn.Embedding(len(LETTERS), width), nn.Embedding(64, width)
        layer = nn.TransformerEncoderLayer(width, 4, 128, dropout=0.1, batch_first=True)
        self.layers, self.head = nn.TransformerEncoder(layer, 2), nn.Linear(width, len(LETTERS))

    def forward(self, x):
        mask = nn.Transformer.generate_square_subsequent_mask(x.shape[1])
        h = self.letters(x) + self.places(torch.arange(x.shape[1]))
        return self.head(self.layers(h, mask=mask, is_causal=True))


def get_batch():
    starts = torch.randint(len(IDS) - 65, (16,))
    return torch.stack([IDS[s : s + 64] for s in starts]), torch.stack([IDS[s + 1 : s + 65] for s in starts])


def train(model, steps):
    optimiser = torch.optim.AdamW(model.parameters(), lr=1e-3)
    for step in range(steps):
        x, y = get_batch()
        loss = nn.functional.cross_entropy(model(x).flatten(0, 1), y.flatten())
        optimiser.zero_grad(set_to_none=True)
        loss.backward()
        optimiser.step()
        if step % 50 == 0:
            print(step, loss.item())


if __name__ == "__main__":
    torch.manual_seed(2)
    network = Model()
    train(network, int(sys.argv[1]))
    torch.save(network.state_dict(), "model.pt")
