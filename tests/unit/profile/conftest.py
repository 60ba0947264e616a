"""Samples as `codedag trace` would keep them, and backends as a plug-in would bring them."""

from __future__ import annotations

import importlib
import json
import re
import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType, SimpleNamespace
from typing import Any

import numpy as np
import pytest

import codedag.backends
from codedag.instrument.sites import CALL, SiteInfo
from codedag.profile.sample import Sample, read
from codedag.trace.spool import Spool, key_of

Keep = Callable[..., Sample]


@pytest.fixture
def spool(tmp_path: Path) -> Spool:
    made = Spool(tmp_path / "run" / "samples")
    made.begin()
    assert made.failure == ""
    return made


@pytest.fixture
def keep(spool: Spool) -> Keep:
    """keep("numpy.sort", array, axis=0): the sample of that call."""

    def kept(name: str, *args: Any, line: int = 1, in_sig: str = "", **keywords: Any) -> Sample:
        info = SiteInfo(0, CALL, "", "/x/train.py", line, 0, line, 0, "")
        template = SimpleNamespace(name=name, in_sig=in_sig, site=SimpleNamespace(info=info))
        spool.take(template, CALL, None, args, keywords)
        assert not spool.failure, spool.failure
        key = key_of(name=name, file="/x/train.py", line=line, col=0, in_sig=in_sig)
        found = read(spool.folder / f"{key}.json")
        assert isinstance(found, Sample), found
        return found

    return kept


PLUGIN = """
import os, signal, time
import numpy as np
from codedag.backends.registry import EXACT, ULP, Call, substitutes
from codedag.ir.verdict import Yes, No

def register(source, into, run, pu="torch:cpu", gives=EXACT, accepts=Yes):
    made = substitutes(source, into=into, gives=gives, needs="numpy", pu=pu)(run)
    made.guard(lambda call: accepts)
    made.calls(lambda rng: Call.of(np.arange(float(rng.randint(1, 9)))))
    return made

def sort(a, axis=-1): return np.sort(a, axis)
register("numpy.sort", "good", sort)
def crash(a):
    return np.cumsum(a) if a.size < 100 else os.kill(os.getpid(), signal.SIGSEGV)
register("numpy.cumsum", "crash", crash)
register("numpy.cumprod", "hang", lambda a, axis=-1: np.cumprod(a, axis) if a.size < 100 else time.sleep(1000))
register("numpy.flip", "raise", lambda m: np.flip(m) if m.size < 100 else 1 / 0)
register("numpy.square", "wrong", lambda x: np.square(x) if x.size < 100 else np.square(x) + 1, pu="cpu")
register("numpy.sinh", "near", lambda x: np.sinh(x), gives=ULP)
register("numpy.argsort", "declines", lambda a: np.argsort(a), accepts=No("only on Sundays"))
"""


@pytest.fixture
def plugin(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Substitutions on another PU, found through an entry point by this process and by those that measure."""
    place = tmp_path / "plugged"
    (place / "plugged-1.0.dist-info").mkdir(parents=True)
    (place / "plugged_backend.py").write_text(PLUGIN)
    (place / "plugged-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: plugged\nVersion: 1.0\n")
    (place / "plugged-1.0.dist-info" / "entry_points.txt").write_text("[codedag.backends]\nplugged = plugged_backend\n")
    monkeypatch.syspath_prepend(str(place))
    monkeypatch.setenv("PYTHONPATH", str(place), prepend=":")
    from codedag.backends import registry

    monkeypatch.setattr(registry, "_table", registry._Table())
    before = _backends()
    for name in before:  # so that loading the table registers them again, in the new table
        monkeypatch.delitem(sys.modules, name)
    importlib.invalidate_caches()
    monkeypatch.delitem(sys.modules, "plugged_backend", raising=False)
    assert json.dumps(registry.problems()) == "{}"
    assert registry.find("numpy.sort")
    yield
    for name in _backends():  # what they have registered goes with the table: whoever needs them loads them again
        del sys.modules[name]
        delattr(codedag.backends, name.rpartition(".")[2])
    for name, module in before.items():
        setattr(codedag.backends, name.rpartition(".")[2], module)


def _backends() -> dict[str, ModuleType]:
    """The modules with substitutions of ours that are loaded."""
    loaded = dict(sys.modules)
    return {name: module for name, module in loaded.items() if re.fullmatch(r"codedag\.backends\.\w+_", name)}


@pytest.fixture
def numbers() -> np.ndarray:
    return np.random.default_rng(0).random(5_000)
