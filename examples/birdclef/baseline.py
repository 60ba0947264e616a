"""Bird calls to species, as one writes it for a competition: sound files, spectrograms as pictures, a small network.

Makes its own recordings (the folder is reused).  Nothing in here knows about CodeDAG; experiment.py wraps it.
"""

import os
import random
import wave

import numpy as np
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

CONFIG = {
    "seed": 42,
    "epochs": int(os.environ.get("BIRDCLEF_EPOCHS", "2")),
    "train_batch_size": 16,
    "learning_rate": 1e-2,
    "num_workers": 0,
    "sample_rate": 16000,
    "seconds": 2,
    "n_fft": 512,
    "hop": 256,
    "n_mels": 64,
    "recordings": int(os.environ.get("BIRDCLEF_RECORDINGS", "96")),
    "species": 4,
    "folder": os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-birdclef"),
}


def seed_everything(seed):
    random.seed(seed)
    np.random.seed(seed)
    torch.manual_seed(seed)


def make_recordings(config):
    """The table of recordings: file and species; each species sings in its own range."""
    os.makedirs(config["folder"], exist_ok=True)
    rng = np.random.default_rng(7)
    time = np.arange(config["sample_rate"] * config["seconds"]) / config["sample_rate"]
    table = []
    for i in range(config["recordings"]):
        species = i % config["species"]
        tone, wobble = 800 + 900 * species + rng.uniform(-150, 150), rng.uniform(3, 9)
        call = np.sin(2 * np.pi * (tone * time + 40 * np.sin(wobble * time))) * (np.sin(2 * np.pi * 2 * time) > 0)
        sound = 0.4 * call + 0.1 * rng.normal(size=time.size)
        path = os.path.join(config["folder"], f"{i:05d}.wav")
        table.append({"path": path, "species": species})
        if not os.path.exists(path):
            with wave.open(path, "wb") as file:
                file.setnchannels(1)
                file.setsampwidth(2)
                file.setframerate(config["sample_rate"])
                file.writeframes((np.clip(sound, -1, 1) * 32767).astype("<i2").tobytes())
    return table


def mel_filters(config):
    """Triangles on the mel scale, as rows over the bins of the spectrum."""
    top = 2595 * np.log10(1 + config["sample_rate"] / 2 / 700)
    points = 700 * (10 ** (np.linspace(0, top, config["n_mels"] + 2) / 2595) - 1)
    bins = np.fft.rfftfreq(config["n_fft"], 1 / config["sample_rate"])
    low, middle, high = points[:-2, None], points[1:-1, None], points[2:, None]
    return np.maximum(0, np.minimum((bins - low) / (middle - low), (high - bins) / (high - middle)))


class BirdCLEFDataset(Dataset):
    def __init__(self, df, config):
        self.df, self.config = df, config

    def __len__(self):
        return len(self.df)

    def __getitem__(self, index):
        row = self.df[index]
        picture = self.spectrogram(self.load(row["path"]))
        if random.random() < 0.5:
            picture = picture[:, ::-1]
        picture = (picture.astype(np.float32) / 255.0 - 0.45) / 0.225
        return torch.tensor(np.stack([picture] * 3)), row["species"]

    def load(self, path):
        with wave.open(path, "rb") as file:
            return np.frombuffer(file.readframes(file.getnframes()), "<i2").astype(np.float32) / 32768

    def spectrogram(self, sound):
        n_fft, hop = self.config["n_fft"], self.config["hop"]
        frames = np.lib.stride_tricks.sliding_window_view(sound, n_fft)[::hop] * np.hanning(n_fft)
        power = np.abs(np.fft.rfft(frames, axis=1)) ** 2
        decibel = 10 * np.log10(np.maximum(mel_filters(self.config) @ power.T, 1e-10))
        scaled = (decibel - decibel.min()) / (decibel.max() - decibel.min() + 1e-6)
        return (scaled * 255).astype(np.uint8)


class BirdCLEFModel(nn.Module):
    def __init__(self, config):
        super().__init__()
        self.features = nn.Sequential(
            nn.Conv2d(3, 16, 3, stride=2), nn.ReLU(), nn.Conv2d(16, 16, 3, stride=2), nn.ReLU()
        )
        self.head = nn.Linear(16 * 4, config["species"])

    def forward(self, x):
        x = nn.functional.adaptive_avg_pool2d(self.features(x), (4, 1))
        return self.head(x.flatten(1))


df_train = make_recordings(CONFIG)


def main():
    seed_everything(CONFIG["seed"])
    loader = DataLoader(
        BirdCLEFDataset(df_train, CONFIG),
        batch_size=CONFIG["train_batch_size"],
        shuffle=True,
        num_workers=CONFIG["num_workers"],
    )
    model = BirdCLEFModel(CONFIG)
    optimizer = torch.optim.Adam(model.parameters(), lr=CONFIG["learning_rate"])
    for epoch in range(CONFIG["epochs"]):
        total, correct = 0.0, 0
        for inputs, targets in loader:
            optimizer.zero_grad()
            outputs = model(inputs)
            loss = nn.functional.cross_entropy(outputs, targets)
            loss.backward()
            optimizer.step()
            total += loss.item()
            correct += outputs.argmax(1).eq(targets).sum().item()
        print(f"Epoch {epoch + 1}: Loss={total / len(loader):.4f}, Acc={correct / len(df_train):.4f}")


if __name__ == "__main__":
    main()
