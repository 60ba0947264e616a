"""Spectrograms in decibels, standardised, as a sound classifier wants them."""

import hashlib

import numpy as np

BANDS, FRAMES, CLIPS = 128, 500, 20000


def decibel(power):
    db = 10.0 * np.log10(np.maximum(power, 1e-10))
    db = np.maximum(db, db.max() - 80.0)
    return (db - db.mean()) / (db.std() + 1e-6)


def main():
    draw = np.random.default_rng(5)
    clips = [draw.exponential(1.0, (BANDS, FRAMES)).astype(np.float32) ** 3 for _ in range(12)]
    seen = hashlib.sha256()
    for number in range(CLIPS):
        ready = decibel(clips[number % 12])
        seen.update(ready[number % BANDS].tobytes())
    print(seen.hexdigest())


main()
