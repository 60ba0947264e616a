"""Whoever asks who called is told the user's line, also where a variant stands in between."""

from __future__ import annotations

import logging
import warnings
from typing import Any

import numpy as np
import pytest
from fusing import PATH, fuse

from codedag.instrument.program import Program
from codedag.migrate.caller import Caller

SOURCE = """
import logging
import warnings
import numpy as np
log = logging.getLogger("chain.test")
def f(img, a):
    x = img.astype(np.float32) * a
    log.warning("between")
    x = x / a
    return x + 1
def g(img, a):
    x = img.astype(np.float32) * a
    return 3.0 / x
def old():
    warnings.warn("old", UserWarning, stacklevel=2)
    return 1.0
def h(img, a):
    return (img.astype(np.float32) * a) + old()
"""


@pytest.fixture
def img() -> Any:
    return np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)


@pytest.fixture
def module(img) -> Any:
    def warm(module: Any) -> None:
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            module.f(img | 1, 2.0), module.g(img | 1, 2.0), module.h(img, 2.0)

    made = fuse(SOURCE, warm)
    assert len(made.chains) == 3
    return made


def test_a_log_record_names_the_users_line(module, img, caplog):
    with caplog.at_level(logging.WARNING, "chain.test"):
        module.f(img, 2.0)
    (record,) = caplog.records
    assert (record.pathname, record.lineno, record.funcName) == (PATH, 8, "f")


@pytest.mark.parametrize(("function", "kind", "line"), [("g", RuntimeWarning, 13), ("h", UserWarning, 18)])
def test_a_warning_names_the_users_line(module, img, function, kind, line):
    with pytest.warns(kind) as caught:
        getattr(module, function)(img & 1, 2.0)
    assert [(w.filename, w.lineno) for w in caught] == [(PATH, line)]


def test_each_line_warns_once(module, img):
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("default")
        for _ in range(3):
            module.g(img & 1, 2.0)
            module.f(img & 1, 0.0)
    assert sorted((str(w.message).split()[0], w.lineno) for w in caught) == [("divide", 13), ("invalid", 9)]
    assert "__warningregistry__" in vars(module.module)


def test_what_stands_for_a_line_is_never_given_the_code_of_the_function_there(tmp_path):
    path = tmp_path / "one_line.py"
    path.write_text("def double(x): return abs(x) * 2\n")
    program = Program([tmp_path])
    space: dict[str, Any] = {}
    exec(program.load(str(path), path.read_bytes()), space)
    site = next(s for s in program.files[str(path)].sites if s.kind == 0)
    caller = Caller(site.info)
    variant = lambda function, *args: caller.in_module(space)(function, args, {})  # noqa: E731
    program.settle(str(path), "double")
    program.plan(str(path), "double", {site.info.index: variant})
    program.install(str(path), ["double"])
    assert space["double"](-3) == 6  # now the caller has a function of its own, at the same line, of the same name
    program.install(str(path), ["double"])
    program.retire(str(path), "double", [])
    assert space["double"](-3) == 6
    program.restore()
