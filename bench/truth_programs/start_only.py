"""A program that imports large packages, prints a version and ends at once."""

import albumentations
import librosa
import pandas
import torch

print(albumentations.__version__, librosa.__version__, pandas.__version__, torch.__version__)
