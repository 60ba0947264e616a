"""Pictures of cv2: another size, another order of channels, blurred, edges."""

import cv2
import numpy as np

PICTURES = [np.random.default_rng(seed).integers(0, 256, (480, 640, 3), np.uint8) for seed in range(6)]


def prepared(picture):
    small = cv2.resize(picture, (256, 256), interpolation=cv2.INTER_AREA)
    right = cv2.cvtColor(small, cv2.COLOR_BGR2RGB)
    soft = cv2.GaussianBlur(right, (5, 5), 0)
    grey = cv2.cvtColor(soft, cv2.COLOR_RGB2GRAY)
    return cv2.Canny(cv2.flip(grey, 1), 50, 150)


def main():
    return sum(int(prepared(PICTURES[index % 6])[7, 7]) for index in range(120))


if __name__ == "__main__":
    main()
