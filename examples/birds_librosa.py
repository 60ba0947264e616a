"""Bird calls: five seconds of sound to a mel image, as in every BirdCLEF notebook.

Makes its own recordings (the folder is reused), trains, prints losses.  Nothing in here knows about CodeDAG.
"""

import argparse
import hashlib
import os
import random
import time

import librosa
import numpy as np
import soundfile
import torch
from torch import nn
from torch.utils.data import DataLoader, Dataset

RATE, TARGET, SECONDS = 32000, 16000, 5


def make_recordings(folder, count):
    os.makedirs(folder, exist_ok=True)
    rng = np.random.default_rng(17)
    t = np.arange(RATE * SECONDS) / RATE
    for i in range(count):
        path = os.path.join(folder, f"{i:05d}_{i % 2}.wav")
        if os.path.exists(path):
            continue
        sound = rng.normal(0, 0.02, t.size)
        for _ in range(int(rng.integers(4, 12))):
            start, length = rng.uniform(0, SECONDS - 0.5), rng.uniform(0.1, 0.4)
            inside = (t >= start) & (t < start + length)
            u = (t[inside] - start) / length
            pitch = rng.uniform(1500, 4000) + (2000 if i % 2 else 0) + rng.uniform(-800, 800) * u
            sound[inside] += rng.uniform(0.1, 0.4) * np.hanning(u.size) * np.sin(2 * np.pi * np.cumsum(pitch) / RATE)
        soundfile.write(path, (sound / np.abs(sound).max() * 0.9).astype(np.float32), RATE)


class Birds(Dataset):
    def __init__(self, folder):
        self.paths = sorted(os.path.join(folder, name) for name in os.listdir(folder) if name.endswith(".wav"))

    def __len__(self):
        return len(self.paths)

    def __getitem__(self, index):
        path = self.paths[index]
        sound, rate = librosa.load(path, sr=None)
        sound = librosa.resample(sound, orig_sr=rate, target_sr=TARGET)
        shift = random.randint(0, TARGET // 2)
        sound = np.roll(sound, shift)
        mel = librosa.feature.melspectrogram(y=sound, sr=TARGET, n_mels=128, n_fft=2048, hop_length=512)
        image = librosa.power_to_db(mel, ref=np.max)
        image = (image - image.mean()) / (image.std() + 1e-6)
        return torch.from_numpy(image[None].astype(np.float32)), int(path[-5])


class SmallNet(nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = nn.Conv2d(1, 8, 3, stride=2)
        self.head = nn.Linear(8, 2)

    def forward(self, x):
        x = torch.relu(self.conv(x[:, :, ::4, ::4]))
        return self.head(x.mean(dim=(2, 3)))


def main():
    parser = argparse.ArgumentParser()
    parser.add_argument("--data", default=os.path.join(os.path.expanduser("~"), ".cache", "codedag-example-birds"))
    parser.add_argument("--count", type=int, default=64)
    parser.add_argument("--epochs", type=int, default=4)
    parser.add_argument("--batch", type=int, default=16)
    parser.add_argument("--threads", type=int, default=0, help="cap the threads of torch")
    parser.add_argument("--digest", help="write a digest of every batch to this file")
    args = parser.parse_args()

    random.seed(1)
    torch.manual_seed(1)
    if args.threads:
        torch.set_num_threads(args.threads)
    make_recordings(args.data, args.count)

    loader = DataLoader(Birds(args.data), batch_size=args.batch, shuffle=True)
    model = SmallNet()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.05)
    digests = []
    for epoch in range(args.epochs):
        started, seen, total = time.perf_counter(), 0, 0.0
        for images, labels in loader:
            optimiser.zero_grad()
            loss = nn.functional.cross_entropy(model(images), labels)
            loss.backward()
            optimiser.step()
            total += loss.item() * len(labels)
            seen += len(labels)
            if args.digest:
                digests.append(hashlib.sha256(images.numpy().tobytes() + labels.numpy().tobytes()).hexdigest())
        seconds = time.perf_counter() - started
        print(f"epoch {epoch}: loss {total / seen:.6f}, {seen / seconds:.1f} items/s", flush=True)
    if args.digest:
        with open(args.digest, "w") as file:
            file.write("\n".join(digests) + "\n")


if __name__ == "__main__":
    main()
