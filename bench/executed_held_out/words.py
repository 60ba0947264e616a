"""Texts in plain Python: cleaned, cut into words, counted, looked up in a vocabulary."""

import random
import re
from collections import Counter

DRAW = random.Random(0)
WORDS = ["".join(DRAW.choices("abcdefghijklmnopqrstuvwxyz", k=DRAW.randint(2, 9))) for _ in range(3000)]
TEXTS = [" ".join(DRAW.choices(WORDS, k=4000)).capitalize() + ".  " for _ in range(8)]
KNOWN = {word: number for number, word in enumerate(sorted(set(WORDS)))}
SPACES = re.compile(r"\s+")


def prepared(text):
    clean = SPACES.sub(" ", text.lower().replace(".", " ")).strip()
    words = clean.split(" ")
    numbers = list(map(KNOWN.get, words))
    return Counter(words).most_common(20), numbers


def main():
    return sum(len(prepared(TEXTS[index % 8])[1]) for index in range(80))


if __name__ == "__main__":
    main()
