"""A program with 300 modules of its own, imported at the start and called once; one function here is hot."""

import importlib
import sys
from pathlib import Path

MODULE = '''"""Part {i} of the program."""
import math

class Part{i}:
    def __init__(self, size):
        self.size, self.rows = size, [k * {i} for k in range(size)]

    def total(self):
        out = 0
        for row in self.rows:
            if row % 3 == 0:
                out += row
            elif row % 3 == 1:
                out -= math.floor(row / 2)
        return out

'''
FUNCTION = '''def step_{k}(values, scale={k}):
    """A step that is called once at most."""
    kept = []
    for value in values:
        try:
            kept.append(value * scale + {i})
        except TypeError:
            continue
    return [each for each in kept if each % 2]

'''


def write_modules(folder, count=300):
    (folder / "parts").mkdir(parents=True, exist_ok=True)
    for i in range(count):
        path = folder / "parts" / f"part_{i}.py"
        if not path.exists():
            path.write_text(MODULE.format(i=i) + "\n".join(FUNCTION.format(i=i, k=k) for k in range(20)))


def hot(seed):
    state, out = seed, 0
    for _ in range(20_000):
        state = (state * 1103515245 + 12345) % 2147483648
        out ^= state >> 7
    return out


write_modules(Path(__file__).resolve().parent)
importlib.invalidate_caches()
parts = [importlib.import_module(f"parts.part_{i}") for i in range(300)]
total = sum(getattr(part, f"Part{i}")(10).total() + len(part.step_1([1, 2, 3])) for i, part in enumerate(parts))
for turn in range(int(sys.argv[1])):
    total ^= hot(turn)
print(len(parts), total)
