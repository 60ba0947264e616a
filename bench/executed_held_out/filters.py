"""Signals of several channels by scipy.signal: filtered, their envelope, fewer samples, a spectrum."""

import numpy as np
from scipy import signal

SIGNALS = [np.random.default_rng(seed).standard_normal((8, 8192)) for seed in range(4)]
SECTIONS = signal.butter(4, [0.05, 0.4], "bandpass", output="sos")


def prepared(wave):
    passed = signal.sosfiltfilt(SECTIONS, wave, axis=1)
    envelope = np.abs(signal.hilbert(passed, axis=1))
    fewer = signal.resample_poly(envelope, 1, 4, axis=1)
    _, power = signal.welch(fewer, nperseg=256, axis=1)
    return np.log(power + 1e-12)


def main():
    return sum(float(prepared(SIGNALS[index % 4])[1, 5]) for index in range(40))


if __name__ == "__main__":
    main()
