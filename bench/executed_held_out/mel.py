"""Sounds by librosa: a spectrogram on the mel scale, in decibels, coefficients."""

import librosa
import numpy as np

SOUNDS = [np.random.default_rng(seed).standard_normal(22_050).astype(np.float32) for seed in range(4)]


def prepared(sound):
    levels = librosa.feature.melspectrogram(y=sound, sr=22_050, n_fft=1024, hop_length=256, n_mels=64)
    decibels = librosa.power_to_db(levels, ref=np.max)
    return librosa.feature.mfcc(S=decibels, n_mfcc=20)


def main():
    return sum(float(prepared(SOUNDS[index % 4])[2, 2]) for index in range(40))


if __name__ == "__main__":
    main()
