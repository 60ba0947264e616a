"""Filters of scipy.signal over samples that never come twice, with settings that repeat: a memo would never hit."""

import hashlib
import sys

import numpy as np
from scipy import signal


def denoise(samples, cut):
    b, a = signal.butter(4, cut)
    low = signal.filtfilt(b, a, samples)
    peaks, _ = signal.find_peaks(low, height=0.5, distance=20)
    frequencies, power = signal.welch(low, nperseg=512)
    return low, peaks, frequencies[np.argmax(power)]


rng, digest, count = np.random.default_rng(7), hashlib.sha256(), 0
for turn in range(int(sys.argv[1])):
    samples = rng.standard_normal(20_000)
    low, peaks, frequency = denoise(samples, 0.1 + 0.05 * (turn % 3))
    count += len(peaks)
    digest.update(low.tobytes() + repr(float(frequency)).encode())
print(count, digest.hexdigest())
