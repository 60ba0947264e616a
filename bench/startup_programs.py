"""Short programs of several kinds: each turns its loop as often as it is told, and prints a digest of its results."""

from __future__ import annotations

_PYTHON = """
import hashlib, json, random, re, sys

WORDS = "alpha beta gamma delta epsilon zeta eta theta iota kappa lambda mu nu xi".split()
TOKEN = re.compile(r"\\w+|[^\\w\\s]")

def make(seed, count):
    r = random.Random(seed)
    return [" ".join(r.choice(WORDS) + r.choice(["", ",", ".", "!"]) for _ in range(count)) for _ in range(40)]

def tokenise(line):
    out = []
    for match in TOKEN.finditer(line):
        word = match.group().lower()
        if word in ",.!":
            out.append("<p>")
        else:
            out.append(word)
    return out

def encode(tokens, vocabulary):
    ids = []
    for token in tokens:
        if token not in vocabulary:
            vocabulary[token] = len(vocabulary)
        ids.append(vocabulary[token])
    return ids

def pairs(ids):
    counts = {}
    for a, b in zip(ids, ids[1:]):
        counts[a, b] = counts.get((a, b), 0) + 1
    return counts

def main():
    digest, vocabulary = hashlib.sha256(), {}
    for turn in range(int(sys.argv[1])):
        for line in make(turn, 120):
            ids = encode(tokenise(line), vocabulary)
            best = max(pairs(ids).items(), key=lambda each: (each[1], each[0]))
            digest.update(json.dumps([ids[:20], best]).encode())
    print(len(vocabulary), digest.hexdigest())

main()
"""

_RECORDS = """
import csv, datetime, hashlib, io, random, sys
from dataclasses import dataclass
import numpy as np

@dataclass
class Row:
    when: datetime.date
    name: str
    value: float

def text(seed):
    r = random.Random(seed)
    return "\\n".join(
        f"2020-{r.randint(1, 12):02d}-{r.randint(1, 28):02d},n{r.randint(0, 99)},{r.random():.4f}" for _ in range(3000)
    )

def parse(source):
    rows = []
    for when, name, value in csv.reader(io.StringIO(source)):
        year, month, day = map(int, when.split("-"))
        rows.append(Row(datetime.date(year, month, day), name.strip().upper(), float(value)))
    return rows

def columns(rows):
    values, days = np.array([r.value for r in rows]), np.array([r.when.toordinal() for r in rows])
    order = np.argsort(days, kind="stable")
    return np.cumsum(values[order]), days[order]

digest = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    values, days = columns(parse(text(turn)))
    digest.update(values.tobytes() + days.tobytes())
print(digest.hexdigest())
"""

_ARRAYS = """
import hashlib, sys
import numpy as np

def step(a):
    b = np.sort(a)
    return b, np.abs(np.fft.rfft(b[: 1 << 16]))

rng, digest = np.random.default_rng(0), hashlib.sha256()
for turn in range(int(sys.argv[1])):
    b, c = step(rng.random(200_000))
    digest.update(b.tobytes() + c.tobytes())
print(digest.hexdigest())
"""

_TOKENS = """
import hashlib, re, sys
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

WORDS = [f"w{i}" for i in range(500)]
rng = np.random.default_rng(0)
LINES = [" ".join(WORDS[i] for i in rng.integers(0, 500, 150)) for _ in range(256)]
VOCABULARY = {word: i + 1 for i, word in enumerate(WORDS)}

class Lines(Dataset):
    def __len__(self):
        return len(LINES)

    def __getitem__(self, i):
        tokens = [t for t in re.split(r"\\s+", LINES[i].lower()) if t]
        ids = []
        for t in tokens:
            if t.startswith("w1"):
                continue
            ids.append(VOCABULARY.get(t, 0))
        count = min(len(ids), 128)
        row = np.zeros(128, np.int64)
        row[:count] = ids[:count]
        mask = np.arange(128) < count
        return torch.from_numpy(row), torch.from_numpy(mask), len(set(ids))

torch.manual_seed(0)
digest = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    for x, mask, different in DataLoader(Lines(), batch_size=16, shuffle=True):
        digest.update(x.numpy().tobytes() + mask.numpy().tobytes() + different.numpy().tobytes())
print(digest.hexdigest())
"""

_TABLE = """
import hashlib, sys
import numpy as np
import pandas as pd

N = 8000

def make(seed):
    r = np.random.default_rng(seed)
    v = np.where(r.random(N) < 0.1, np.nan, r.normal(5, 2, N))
    return pd.DataFrame({"a": r.choice(list("abcdefgh"), N), "b": r.choice(list("xyz"), N), "v": v,
                         "y": r.integers(0, 2, N)})

digest = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    df = make(turn)
    df["v"] = df.groupby("a")["v"].transform(lambda s: s.fillna(s.median()))
    df["te"] = df["a"].map(df.groupby("a")["y"].mean().to_dict())
    out = []
    for _, row in df.iterrows():
        out.append(row["v"] * 2 if row["b"] == "x" else row["v"] + row["te"])
    df["o"] = out
    total = 0
    for t in df.itertuples():
        total += t.v * t.y
    df["bf"] = df["b"].map(df["b"].value_counts(normalize=True))
    df["code"] = (df["a"].astype(str) + "_" + df["b"]).astype("category").cat.codes
    df["z"] = df["v"].apply(lambda v: np.log1p(abs(v)))
    x = df[["v", "te", "o", "bf", "code", "z"]].to_numpy(float)
    digest.update(x.tobytes() + repr(total).encode())
print(digest.hexdigest())
"""

_SOUND = """
import hashlib, os, sys
import librosa
import numpy as np
import soundfile
import torch
from torch.utils.data import DataLoader, Dataset

os.makedirs("sounds", exist_ok=True)
paths, rng = [f"sounds/{i:03d}.wav" for i in range(48)], np.random.default_rng(5)
for path in paths:
    if not os.path.exists(path):
        t = np.arange(48_000) / 16_000
        tone = np.sin(2 * np.pi * t * rng.uniform(300, 4000)) * np.exp(-((t - rng.uniform(0, 3)) ** 2) * 3)
        soundfile.write(path, (rng.normal(0, 0.05, t.size) + 0.4 * tone).astype(np.float32), 16_000)

class Sounds(Dataset):
    def __len__(self):
        return len(paths)

    def __getitem__(self, i):
        y, sr = librosa.load(paths[i], sr=16_000, mono=True)
        y = y[:48_000] + np.random.randn(48_000).astype(np.float32) * 0.001
        S = np.abs(librosa.stft(y, n_fft=1024, hop_length=256)) ** 2
        basis = librosa.filters.mel(sr=sr, n_fft=1024, n_mels=64)
        db = librosa.power_to_db(basis.dot(S), top_db=80)
        first = np.random.randint(0, 50)
        db[first : first + 8] = db.mean()
        db = (db - db.min()) / (db.max() - db.min() + 1e-6)
        return torch.tensor(db, dtype=torch.float32).unsqueeze(0), i % 4

np.random.seed(0)
torch.manual_seed(0)
digest = hashlib.sha256()
for turn in range(int(sys.argv[1])):
    for x, _ in DataLoader(Sounds(), batch_size=8, shuffle=True):
        digest.update(x.numpy().tobytes())
print(digest.hexdigest())
"""

_IMAGES = """
import hashlib, os, sys
import cv2
import numpy as np

os.makedirs("images", exist_ok=True)
paths = [f"images/{i:03d}.jpg" for i in range(48)]
for i, path in enumerate(paths):
    if not os.path.exists(path):
        y, x = np.mgrid[0:375, 0:500]
        waves = [128 + 60 * np.sin(x / (9 + i % 7) + k) * np.cos(y / 11) for k in range(3)]
        noise = np.random.default_rng(i).normal(0, 9, (375, 500, 3))
        cv2.imwrite(path, np.clip(np.stack(waves, -1) + noise, 0, 255).astype(np.uint8))
MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)

def load(path, rng):
    image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
    image = cv2.resize(image, (224, 224))
    if rng.random() < 0.5:
        image = image[:, ::-1]
    image = (image.astype(np.float32) / 255.0 - MEAN) / STD
    return image.transpose(2, 0, 1)

digest, rng = hashlib.sha256(), np.random.default_rng(1)
for turn in range(int(sys.argv[1])):
    for first in range(0, len(paths), 8):
        digest.update(np.stack([load(path, rng) for path in paths[first : first + 8]]).tobytes())
print(digest.hexdigest())
"""

#: Nothing to gain in the first four; the table, the sound and the images have something.
PROGRAMS = {
    "python": _PYTHON,
    "records": _RECORDS,
    "arrays": _ARRAYS,
    "tokens": _TOKENS,
    "table": _TABLE,
    "sound": _SOUND,
    "images": _IMAGES,
}
