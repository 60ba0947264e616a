"""One process with all of its descendants, measured from outside: wall, CPU, peak memory, output and files."""

from __future__ import annotations

import ctypes
import hashlib
import os
import re
import signal
import subprocess
import threading
import time
import zipfile
from dataclasses import dataclass, field
from pathlib import Path

PR_SET_CHILD_SUBREAPER = 36
SAMPLE_SECONDS = 0.4  # between two looks at memory: a look at a torch process takes about 5 ms
ORPHAN_SECONDS = 20.0  # that processes which outlive the program may still take
TIMEOUT_SECONDS = 400.0  # a program that hangs is a result, and the next one waits for it
STDERR_KEPT = 3000  # characters of a failed run's last words
TORCH_FILES = (".pt", ".pth", ".tar", ".ckpt")
#: Files that hold clocks or paths: event logs of tensorboard, and the profiles of a run.
NEVER_COMPARED = re.compile(r"events\.out\.tfevents|\.log$|args\.yaml$|opt\.yaml$|__pycache__")


@dataclass
class Run:
    """What one run of a command took and gave."""

    wall: float
    cpu: float
    peak_bytes: int
    code: int
    printed: str
    said: str  # on stderr
    orphans: int = 0  # processes that were still there when the program had ended
    orphan_seconds: float = 0.0
    files: dict[str, str] = field(default_factory=dict)

    def result(self, timing: tuple[str, ...]) -> tuple[object, ...]:
        """What two runs must have in common: exit code, output without its clocks, digests of files."""
        printed = self.printed
        for pattern in timing:
            printed = re.sub(pattern, "", printed)
        return self.code, printed, self.files


class Sampler(threading.Thread):
    """The largest sum of proportional memory over this process's descendants, looked at now and then."""

    def __init__(self) -> None:
        super().__init__(daemon=True)
        self.peak_bytes, self.ended = 0, threading.Event()

    def run(self) -> None:
        """Looks until the program has ended."""
        while not self.ended.wait(SAMPLE_SECONDS):
            self.peak_bytes = max(self.peak_bytes, sum(map(proportional_bytes, descendants(os.getpid()))))


def descendants(process: int) -> list[int]:
    """The children of a process, their children, and so on."""
    children: list[int] = []
    try:
        for task in Path(f"/proc/{process}/task").iterdir():
            children += map(int, (task / "children").read_text().split())
    except OSError:  # it has ended meanwhile
        pass
    return children + [each for child in children for each in descendants(child)]


def proportional_bytes(process: int) -> int:
    """Memory of a process in which shared pages count by their share."""
    try:
        text = Path(f"/proc/{process}/smaps_rollup").read_text()
    except OSError:
        return 0
    found = re.search(r"^Pss:\s+(\d+) kB", text, re.MULTILINE)
    return int(found.group(1)) * 1024 if found else 0


def measured(
    command: list[str], folder: Path, environment: dict[str, str], scratch: Path, timeout: float = TIMEOUT_SECONDS
) -> Run:
    """One run of a command in a folder; processes that it leaves behind are waited for, counted, and then ended."""
    ctypes.CDLL(None).prctl(PR_SET_CHILD_SUBREAPER, 1, 0, 0, 0)
    sampler = Sampler()
    with (scratch / "stdout").open("wb") as out, (scratch / "stderr").open("wb") as err:
        started = time.perf_counter()
        process = subprocess.Popen(
            command, cwd=folder, env=environment, stdin=subprocess.DEVNULL, stdout=out, stderr=err,
            start_new_session=True,
        )  # fmt: skip
        limit = threading.Timer(timeout, os.killpg, (process.pid, signal.SIGKILL))
        limit.start()
        sampler.start()
        cpu, peak, code = _waited_for(process.pid)
        wall = time.perf_counter() - started
        limit.cancel()
        process.returncode = code
        more, orphans = _orphans()
        ended = time.perf_counter() - started - wall
        sampler.ended.set()
        sampler.join()
    texts = [(scratch / name).read_text(errors="replace") for name in ("stdout", "stderr")]
    lingered = ended if orphans else 0.0
    return Run(wall, cpu + more, max(peak, sampler.peak_bytes), code, *texts, orphans, lingered, digests(folder))


def _waited_for(process: int) -> tuple[float, int, int]:
    """CPU seconds, largest memory and exit code of a child; orphans that end before it are counted with it."""
    cpu = 0.0
    while True:
        ended, status, usage = os.wait4(-1, 0)
        cpu += usage.ru_utime + usage.ru_stime
        if ended == process:
            return cpu, usage.ru_maxrss * 1024, os.waitstatus_to_exitcode(status)


def _orphans() -> tuple[float, int]:
    """CPU seconds and number of processes that outlived the program; those that stay too long are killed."""
    cpu, count, deadline = 0.0, 0, time.monotonic() + ORPHAN_SECONDS
    while True:
        try:
            ended, _, usage = os.wait4(-1, os.WNOHANG)
        except ChildProcessError:
            return cpu, count
        if ended:
            cpu, count = cpu + usage.ru_utime + usage.ru_stime, count + 1
            continue
        if time.monotonic() > deadline:
            for each in descendants(os.getpid()):
                os.kill(each, signal.SIGKILL)
        time.sleep(0.01)


def digests(folder: Path) -> dict[str, str]:
    """A digest of each file below a folder; of a torch checkpoint, of its tensors only."""
    files = sorted(each for each in folder.rglob("*") if each.is_file() and not each.is_symlink())
    names = {each: str(each.relative_to(folder)) for each in files}
    return {name: _digest(each) for each, name in names.items() if not NEVER_COMPARED.search(name)}


def _digest(path: Path) -> str:
    if path.suffix in TORCH_FILES and zipfile.is_zipfile(path):
        with zipfile.ZipFile(path) as archive:
            tensors = sorted(name for name in archive.namelist() if "/data/" in name)
            parts = [hashlib.sha256(archive.read(name)).hexdigest() for name in tensors]
        return f"{len(parts)} tensors {hashlib.sha256(''.join(parts).encode()).hexdigest()}"
    return hashlib.sha256(path.read_bytes()).hexdigest()
