"""Whether programs give the same whatever `codedag run` decides, and whenever it does: decisions are made at random.

    python bench/chaos.py                          every program, seeds 0 to 9
    python bench/chaos.py --seeds 100 120 --only "list of images"      some programs, some seeds
    python bench/chaos.py --minutes 30             random pairs of program and seed for so long

What depends on time in a run (is it faster, when is a function planned, when is a value kept, is this call compared)
is drawn from a generator with the seed instead, by changing CodeDAG's own functions from outside before the program
starts.  A round is the program as it is, and then three runs of it with one folder of what was proven.  Each must print
the same, on both streams, and end with the same exit code.
"""

from __future__ import annotations

import argparse
import os
import random
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from chaos_programs import SOURCES

RUNS, SECONDS = 3, 300
#: What is put before the program: the decisions of a run, at random.  No product code knows of this.
CHAOS = """
import os, random as _random, sys, time as _time
chance = _random.Random(os.environ["CHAOS"])
sys.setswitchinterval(chance.choice([1e-5, 1e-4, 5e-3]))
import codedag.autopilot.background as background
import codedag.autopilot.observing as observing
import codedag.migrate.memo.call_memo as recall, codedag.migrate.memo.prefix as remember
import codedag.autopilot.planning as planning, codedag.migrate.trial as trial

GAINS = chance.choice([(0.1, 0.3, 0.9, 2.0), (0.3, 2.0, 2.0, 2.0), (2.0,), (0.3, 0.3, 2.0)])
trial.Trial.gain = lambda self: chance.choice(GAINS)
trial.FIRST, trial.EVERY = chance.choice([2, 8]), chance.choice([3, 50])
observing.GRACE, remember.LEARN, recall.MOST_ALIKE = 1e9, chance.choice([1, 4, 16]), chance.choice([0, 32])
observing.OBSERVE, observing.FEW = chance.choice([3, 12, 40]), chance.choice([2, 6])
background.TICK = chance.choice([0.02, 0.2])

def late(kind, name, most):
    usual = getattr(kind, name)
    def changed(self, *args):
        _time.sleep(chance.random() * most)
        return usual(self, *args)
    setattr(kind, name, changed)
late(planning.Planning, "plan", 0.02)
"""


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--seeds", type=int, nargs=2, default=(0, 10), metavar=("FIRST", "END"))
    parser.add_argument("--only", nargs="*", choices=sorted(SOURCES), default=None)
    parser.add_argument("--minutes", type=float, default=0.0)
    options = parser.parse_args()
    names, failed, done = options.only or list(SOURCES), 0, 0
    with tempfile.TemporaryDirectory(prefix="codedag-chaos-") as folder:
        chaos = Chaos(Path(folder))
        for name, seed in pairs(names, range(*options.seeds), options.minutes):
            wrong = chaos.differs(name, seed)
            failed, done = failed + bool(wrong), done + 1
            print(f"{name}, seed {seed}: {wrong or 'the same'}", flush=True)
    print(f"{failed} of {done} pairs of program and seed differed")
    sys.exit(bool(failed))


def pairs(names: list[str], seeds: range, minutes: float) -> Iterator[tuple[str, int]]:
    """Every program with every seed; for so many minutes, random ones."""
    end, chance = time.monotonic() + 60 * minutes, random.Random(time.time_ns())
    if minutes <= 0:
        yield from ((name, seed) for seed in seeds for name in names)
    while time.monotonic() < end:
        yield chance.choice(names), chance.randrange(1_000_000)


class Chaos:
    """A folder in which programs run, and what they print as they are."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self._expected: dict[str, tuple[int, str, str]] = {}
        (folder / "sitecustomize.py").write_text(CHAOS)

    def differs(self, name: str, seed: int) -> str:
        """How the runs of a program differ from it as it is; "" if they do not."""
        script = self.folder / f"{''.join(c if c.isalnum() else '_' for c in name)}.py"
        script.write_text(SOURCES[name])
        if name not in self._expected:
            self._expected[name] = self._run([str(script)], dict(os.environ))
        with tempfile.TemporaryDirectory(dir=self.folder) as home:
            for number in range(RUNS):
                got = self._run(["-m", "codedag", "-q", "run", str(script)], self._environment(home, seed, number))
                if got != self._expected[name]:
                    return f"run {number + 1} gave {got}, not {self._expected[name]}"
        return ""

    def _environment(self, home: str, seed: int, number: int) -> dict[str, str]:
        path = os.pathsep.join([str(self.folder), os.environ.get("PYTHONPATH", "")])
        own = {"CODEDAG_HOME": home, "CHAOS": f"{seed}.{number}", "PYTHONPATH": path}
        if random.Random(seed + number).random() < 0.5:
            own["CODEDAG_SYNCHRONOUS"] = "1"
        return {**os.environ, **own}

    def _run(self, arguments: list[str], environment: dict[str, str]) -> tuple[int, str, str]:
        try:
            got = subprocess.run(
                [sys.executable, *arguments], env=environment, cwd=self.folder, capture_output=True, text=True,
                timeout=SECONDS, check=False,
            )  # fmt: skip
        except subprocess.TimeoutExpired:
            return 0, "it did not end", ""
        return got.returncode, got.stdout, got.stderr[-2000:]


if __name__ == "__main__":
    main()
