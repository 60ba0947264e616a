"""A trace function counts lines and calls of a hot function, as coverage does."""

import sys

counts = {}


def tracer(frame, event, _argument):
    if frame.f_code.co_filename != __file__:
        return None
    key = frame.f_code.co_name, event, frame.f_lineno - frame.f_code.co_firstlineno
    counts[key] = counts.get(key, 0) + 1
    return tracer


def collatz(n):
    steps = 0
    while n != 1:
        n = n // 2 if n % 2 == 0 else 3 * n + 1
        steps += 1
    return steps


def main():
    total = 0
    for n in range(1, 9000):
        if n == 500:
            sys.settrace(tracer)
        if n == 1500:
            sys.settrace(None)
        total += collatz(n)
    for n in range(1, 120_000):
        total += collatz(n)
    return total


print(main())
print(sorted(counts.items()))
print(sys.gettrace())
