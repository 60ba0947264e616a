"""A profile function counts calls of a hot function; cProfile follows."""

import cProfile
import pstats
import sys

calls = {}


def profiler(frame, event, _argument):
    if event == "call" and frame.f_code.co_filename == __file__:
        calls[frame.f_code.co_name] = calls.get(frame.f_code.co_name, 0) + 1


def fib(n):
    return n if n < 2 else fib(n - 1) + fib(n - 2)


def main():
    return [fib(18) for _ in range(500)]


print(sum(main()))
sys.setprofile(profiler)
print(sum(main()))
sys.setprofile(None)
print(sorted(calls.items()))
with cProfile.Profile() as profile:
    main()
rows = {key[2]: row[0] for key, row in pstats.Stats(profile).stats.items() if key[0] == __file__}
print(sorted(rows.items()))
