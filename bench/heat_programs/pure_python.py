"""A simulation in plain Python: short functions, dictionaries, recursion."""

import sys
import time


def collatz(number, known):
    if number not in known:
        known[number] = 1 + collatz(number // 2 if number % 2 == 0 else 3 * number + 1, known)
    return known[number]


def words(text):
    counts = {}
    for word in text.split():
        counts[word] = counts.get(word, 0) + len(word)
    return sorted(counts.items(), key=lambda item: (-item[1], item[0]))


def sieve(limit):
    flags = [True] * limit
    for number in range(2, int(limit**0.5) + 1):
        if flags[number]:
            for multiple in range(number * number, limit, number):
                flags[multiple] = False
    return sum(flags)


def main(seconds):
    text = " ".join(f"word{number % 977}" for number in range(20_000))
    until = time.process_time() + seconds
    while time.process_time() < until:
        known = {1: 0}
        max(collatz(number, known) for number in range(1, 6000))
        words(text)
        sieve(60_000)


if __name__ == "__main__":
    main(float(sys.argv[1]))
