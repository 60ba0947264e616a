"""Runs the features of tests/programs/semantics_*.py plain and rewritten, for both kinds of site and three modes."""

from __future__ import annotations

import importlib.util
import random
import sys
import types
from collections.abc import Callable
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from codedag.instrument import _site, _twin
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.instrument.sites import PASS, RECORD
from codedag.trace.recorder import Recorder

PROGRAMS = Path(__file__).resolve().parent.parent / "programs"
FILES = sorted(PROGRAMS.glob("semantics_*.py"))
SITES = {"c": _site, "twin": _twin}
MODES = ("pass", "record", "flip")


def features() -> list[tuple[str, str]]:
    """Every feature as (file, function)."""
    found = []
    for path in FILES:
        lines = path.read_text().splitlines()
        found += [(path.stem, line[4 : line.index("(")]) for line in lines if line.startswith("def s_")]
    return found


class Rewritten:
    """One program file, rewritten with one kind of site, with a switch for the mode of everything in it."""

    def __init__(self, stem: str, native: Any) -> None:
        self.native = native
        self.path = str(PROGRAMS / f"{stem}.py")
        before = site_module.native
        site_module.use(native)
        try:
            self.program = Program([PROGRAMS])
            self.code = self.program.load(self.path, Path(self.path).read_bytes())
        finally:
            site_module.use(before)
        self.file = self.program.files[self.path]
        self.module = _module(stem, self.path, self.code)

    def set(self, on: bool) -> None:
        """Makes every site record and every loop run the body with sites, or neither."""
        for site in self.file.sites:
            site.mode = RECORD if on else PASS
        for switch in self.file.switches:
            switch.on = on

    @contextmanager
    def running(self, mode: str) -> Any:
        """The sites in one mode, with a real recorder; `flip` changes the mode at every half_way() and now and then."""
        recorder = _Flipping(self) if mode == "flip" else Recorder({self.path})
        self.set(mode != "pass")
        self.module.half_way = recorder.flip if mode == "flip" else (lambda: None)
        self.native.start(recorder, {self.path})
        try:
            yield
        finally:
            self.native.stop()
            self.set(False)
            assert self.native.failure() is None, self.native.failure()


class _Flipping(Recorder):
    """A recorder that turns all sites off, or on again, in the middle of things."""

    def __init__(self, rewritten: Rewritten) -> None:
        super().__init__({rewritten.path})
        self._rewritten, self._on, self._random = rewritten, True, random.Random(3)

    def flip(self) -> None:
        self._on = not self._on
        self._rewritten.set(self._on)

    def path(self, parent: int, site: Any) -> int:
        if self._random.random() < 0.2:
            self.flip()
        return super().path(parent, site)


def _module(stem: str, path: str, code: types.CodeType) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(stem, path)
    assert spec is not None
    module = importlib.util.module_from_spec(spec)
    with _known_as(module):
        exec(code, module.__dict__)
    return module


@contextmanager
def _known_as(module: types.ModuleType) -> Any:
    before = sys.modules.get(module.__name__)
    sys.modules[module.__name__] = module
    try:
        yield
    finally:
        if before is None:
            del sys.modules[module.__name__]
        else:
            sys.modules[module.__name__] = before


def plain(stem: str) -> types.ModuleType:
    """The program file as Python itself would load it."""
    path = PROGRAMS / f"{stem}.py"
    return _module(stem, str(path), compile(path.read_bytes(), str(path), "exec", dont_inherit=True))


def result(module: types.ModuleType, name: str) -> str:
    """What a feature gives, as text without addresses."""
    feature: Callable[[], Any] = getattr(module, name)
    with _known_as(module):
        return repr(feature())
