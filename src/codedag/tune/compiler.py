"""The C compiler of this machine, and for each candidate that was passed over, why."""

from __future__ import annotations

import importlib.util
import os
import shlex
import shutil
import signal
import subprocess
import sys
import tempfile
import threading
from collections.abc import Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from codedag.instrument.hidden_thread import HiddenThread
from codedag.ir.verdict import No

FLAGS = ("-O3", "-march=native", "-ffp-contract=off", "-fPIC", "-shared")
WITHOUT_C = ("none", "numba", "numpy")  # values of $CODEDAG_COMPILER that switch C off
TRIAL = "int codedag_trial(int x) { return x + 1; }\n"
SECONDS = 120  # of a compilation; ziglang fills its own caches for 12 s at its first use
TRIAL_SECONDS = 30  # of a trial by another compiler than ziglang
Tried = tuple[tuple[str, str], ...]


@dataclass(frozen=True, slots=True)
class Compiler:
    """A C compiler that made a shared library here, with the flags that it took."""

    name: str
    command: tuple[str, ...]
    flags: tuple[str, ...]
    version: str
    tried: Tried = ()  # candidates before this one, and why they were passed over


@dataclass(frozen=True, slots=True)
class Search:
    """What looking for a compiler gave: the first that works or why there is none, and all that failed."""

    found: Compiler | No
    tried: Tried


def find_compiler() -> Compiler | No:
    """The first of $CC, cc, gcc, clang and ziglang that makes a shared library, or why none does."""
    return search_compilers().found


def search_compilers() -> Search:
    """The search behind `find_compiler`, remembered while $CC, $PATH and $CODEDAG_COMPILER stay."""
    setting = tuple(os.environ.get(name, "") for name in ("CODEDAG_COMPILER", "CC", "PATH"))
    if setting not in _searches:  # no lock: searching twice is harmless, a lock held over a fork is not
        _searches[setting] = _search()
    return _searches[setting]


class TooSlow(No, frozen=True):
    """A child that was stopped since it did not finish in time."""


def run_compiler(compiler: Compiler, source: Path, target: Path, seconds: float | None = None) -> No | None:
    """None once `target` is the shared library of `source`, else what the compiler said."""
    command = (*compiler.command, *compiler.flags, str(source), "-o", str(target))
    done = run_quietly(command, seconds or SECONDS)
    if isinstance(done, No):
        return done
    if done.returncode != 0:
        return No(f"{compiler.name} failed with exit code {done.returncode}: {_last_line(done.stderr)}")
    return None if target.stat().st_size else No(f"{compiler.name} wrote an empty file")


def run_quietly(
    command: tuple[str, ...], seconds: float, extra: dict[str, str] | None = None
) -> subprocess.CompletedProcess[str] | No:
    """A finished child of its own session (the terminal's Ctrl-C is not for it), or why it did not finish.

    The time is measured by a thread: subprocess would ask the clocks that a program may have put into `time`.
    """
    late, ended = threading.Event(), threading.Event()

    def watch(child: subprocess.Popen[str]) -> None:
        if not ended.wait(seconds):
            late.set()
            _kill_session(child)

    try:
        with subprocess.Popen(
            command,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
            errors="replace",
            start_new_session=True,
            env={**os.environ, "LC_ALL": "C", **(extra or {})},
        ) as child:
            HiddenThread(partial(watch, child)).start()
            try:
                said, complained = child.communicate()
            finally:
                ended.set()
    except (OSError, ValueError) as error:
        return No(f"{command[0]} cannot be started: {error}")
    if late.is_set():
        return TooSlow(f"{command[0]} did not finish within {seconds:g} s")
    return subprocess.CompletedProcess(command, child.returncode, said, complained)


def _kill_session(child: subprocess.Popen[str]) -> None:
    """Ends a child and the processes that it started, which hold its pipes open (cc starts cc1)."""
    try:
        os.killpg(child.pid, signal.SIGKILL)
    except OSError:
        child.kill()


_searches: dict[tuple[str, ...], Search] = {}


def _search() -> Search:
    setting = os.environ.get("CODEDAG_COMPILER", "")
    if setting in WITHOUT_C:
        return Search(No(f"CODEDAG_COMPILER={setting} switches C off"), ())
    if os.name != "posix":
        return Search(No("C kernels are built on POSIX systems only"), ())
    tried: list[tuple[str, str]] = []
    if setting:
        tried.append((f"CODEDAG_COMPILER={setting}", f"not one of {', '.join(WITHOUT_C)}; ignored"))
    for name, command in _candidates(tried):
        found = _try(name, command)
        if isinstance(found, Compiler):
            return Search(Compiler(found.name, found.command, found.flags, found.version, tuple(tried)), tuple(tried))
        tried.append((name, found.reason))
    reasons = "; ".join(f"{name}: {reason}" for name, reason in tried)
    return Search(No(f"no C compiler works here ({reasons})"), tuple(tried))


def _candidates(tried: list[tuple[str, str]]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """Names and commands to try; what is not there at all goes straight to `tried`."""
    wanted = os.environ.get("CC", "").strip()
    if wanted:
        yield f"$CC={wanted}", _words(wanted)
    for name in ("cc", "gcc", "clang"):
        path = shutil.which(name)
        if path:
            yield name, (path,)
        else:
            tried.append((name, "not on PATH"))
    if importlib.util.find_spec("ziglang"):
        yield "ziglang", (sys.executable, "-m", "ziglang", "cc")
    else:
        tried.append(("ziglang", "not installed"))


def _words(command: str) -> tuple[str, ...]:
    try:
        return tuple(shlex.split(command))
    except ValueError:  # an open quote: let the start fail and say so
        return (command,)


def _try(name: str, command: tuple[str, ...]) -> Compiler | No:
    """The compiler if it makes a shared library of a trial text, with or without -march=native."""
    seconds = SECONDS if name == "ziglang" else min(SECONDS, TRIAL_SECONDS)
    version = run_quietly((*command, "--version"), seconds)
    if isinstance(version, No):
        return version
    if version.returncode != 0 or not version.stdout.strip():
        return No(f"--version gave exit code {version.returncode}: {_last_line(version.stderr) or 'no text'}")
    extra = ("-fno-sanitize=undefined",) if name == "ziglang" else ()
    failure = No("not tried")
    for flags in (FLAGS, tuple(flag for flag in FLAGS if flag != "-march=native")):
        compiler = Compiler(name, command, flags + extra, version.stdout.strip())
        refused = _trial(compiler, seconds)
        if refused is None:
            return compiler
        failure = refused
        if isinstance(refused, TooSlow):
            break
    return failure


def _trial(compiler: Compiler, seconds: float) -> No | None:
    try:
        with tempfile.TemporaryDirectory(prefix="codedag-trial-") as folder:
            source = Path(folder) / "trial.c"
            source.write_text(TRIAL)
            return run_compiler(compiler, source, Path(folder) / "trial.so", seconds)
    except OSError as error:
        return No(f"no result: {error}")


def _last_line(text: str) -> str:
    """The first line that names an error, or the last one: what a compiler wanted to say."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    errors = [line for line in lines if "error" in line]
    return (errors or lines[-1:] or [""])[0][:300]
