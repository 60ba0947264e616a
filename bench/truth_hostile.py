"""Programs that interfere with what runs them, as written and under `codedag run`: output and exit codes compared.

    python bench/truth_hostile.py                 all of bench/truth_programs/hostile, three runs with one folder each
    python bench/truth_hostile.py settrace execs  some of them
    python bench/truth_hostile.py FILE.py         a program from elsewhere

Standard output, standard error without CodeDAG's own lines, and the exit code must be those of the program as written.
A program that differs from itself when it is run twice as written is named, and decides nothing.  Then one program is
run with a folder of what is known that cannot be written, that is damaged or cut short, and that eight runs share.
"""

from __future__ import annotations

import difflib
import os
import shutil
import signal
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

sys.path.insert(0, str(Path(__file__).resolve().parent))
from truth_process import Run, measured

ROOT = Path(__file__).resolve().parent.parent
FOLDER, RUNS, TIMEOUT_SECONDS = ROOT / "bench" / "truth_programs" / "hostile", 3, 90.0


def main() -> None:
    signal.signal(signal.SIGINT, signal.default_int_handler)  # background jobs of a shell ignore it
    names = sys.argv[1:] or sorted(each.stem for each in FOLDER.glob("*.py"))
    failed = [name for name in names if not same(Path(name) if name.endswith(".py") else FOLDER / f"{name}.py")]
    if not sys.argv[1:]:
        failed += [name for name, spoil in SPOILED.items() if not same_with(name, spoil)]
        names += SPOILED
    print(f"{len(names) - len(failed)} of {len(names)} are the same{': not ' if failed else ''}{', '.join(failed)}")
    sys.exit(bool(failed))


def same(script: Path) -> bool:
    """Whether every run of a program under CodeDAG gives what it gives as written; prints what differs."""
    with tempfile.TemporaryDirectory(prefix="codedag-truth-") as folder:
        expected, again = (run(script, Path(folder), ours=False) for _ in range(2))
        if results(expected) != results(again):
            print(f"{script.stem:22} differs from itself")
            return True
        runs = [run(script, Path(folder), ours=True) for _ in range(RUNS)]
    bad = [(number, each) for number, each in enumerate(runs, 1) if results(each) != results(expected)]
    left = f", {max(each.orphans for each in runs)} processes outlived it" if any(each.orphans for each in runs) else ""
    times = " ".join(f"{each.wall:.1f}" for each in runs)
    print(
        f"{script.stem:22} {'DIFFERS' if bad else 'same'} (plain {expected.wall:.1f} s, runs {times} s{left})",
        flush=True,
    )
    for number, each in bad[:1]:
        changes = difflib.unified_diff(*map(lines, (expected, each)), "as written", f"run {number}", lineterm="", n=0)
        print("\n".join(f"    {line[:300]}" for line in list(changes)[:20]))
    return not bad


def same_with(name: str, spoil: Callable[[Path], None]) -> bool:
    """Whether a program gives the same when its folder of what is known has been spoiled between two runs."""
    script = FOLDER / "unlike_turns.py"
    with tempfile.TemporaryDirectory(prefix="codedag-truth-") as text:
        folder = Path(text)
        expected = run(script, folder, ours=False)
        run(script, folder, ours=True)
        spoil(folder / "home")
        found = at_once(script, folder) if spoil is shared else [run(script, folder, ours=True) for _ in range(2)]
    good = all(results(each) == results(expected) for each in found)
    print(f"{name:22} {'same' if good else 'DIFFERS'}", *[] if good else map(results, found), flush=True)
    return good


def at_once(script: Path, folder: Path) -> list[Run]:
    """Eight runs that share one folder of what is known, begun together."""
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CODEDAG_HOME": str(folder / "home")}
    command = [sys.executable, "-m", "codedag", "run", str(script)]
    pipes = {"stdout": subprocess.PIPE, "stderr": subprocess.PIPE, "text": True}
    begun = [subprocess.Popen(command, cwd=folder / "work", env=environment, **pipes) for _ in range(8)]  # type: ignore[call-overload]
    texts = [each.communicate() for each in begun]
    return [Run(0.0, 0.0, 0, each.returncode, *text) for each, text in zip(begun, texts, strict=True)]


def absent(home: Path) -> None:
    """Puts a file where the folder was: nothing can be written below it."""
    shutil.rmtree(home)
    home.write_text("no folder")


def damaged(home: Path) -> None:
    """Overwrites the middle of every file."""
    for each in (path for path in home.rglob("*") if path.is_file()):
        content = each.read_bytes()
        each.write_bytes(content[: len(content) // 3] + b"\0{damaged" + content[len(content) // 2 :])


def cut(home: Path) -> None:
    """Leaves the first half of every file."""
    for each in (path for path in home.rglob("*") if path.is_file()):
        each.write_bytes(each.read_bytes()[: each.stat().st_size // 2])


def shared(_home: Path) -> None:
    """Leaves everything as it is; the runs that follow begin together."""


SPOILED = {"home: absent": absent, "home: damaged": damaged, "home: cut short": cut, "home: eight at once": shared}


def run(script: Path, folder: Path, *, ours: bool) -> Run:
    """One run; its folder of what is known is the same for all of a program."""
    work = folder / "work"
    work.mkdir(exist_ok=True)
    environment = {**os.environ, "PYTHONPATH": str(ROOT / "src"), "CODEDAG_HOME": str(folder / "home")}
    command = [sys.executable, *(["-m", "codedag", "run"] if ours else []), str(script.resolve())]
    return measured(command, work, environment, folder, TIMEOUT_SECONDS)


def results(run: Run) -> tuple[int, str, str]:
    """Exit code, output, and what was said on stderr but for CodeDAG's own lines."""
    own = [line for line in run.said.splitlines() if not line.startswith("codedag: ")]
    return run.code, run.printed, "\n".join(own)


def lines(run: Run) -> list[str]:
    """A result as lines that can be compared."""
    code, printed, said = results(run)
    return [
        f"exit code {code}",
        *(f"out {line}" for line in printed.splitlines()),
        *(f"err {line}" for line in said.splitlines()),
    ]


if __name__ == "__main__":
    main()
