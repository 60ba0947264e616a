"""What a kept result depends on beside its arguments: code of libraries that the program may replace."""

from __future__ import annotations

import types

import pytest

from codedag.migrate import _no_patch
from codedag.migrate.memo.ambient import LibraryCode, settings_now
from codedag.migrate.patches import proxies


@pytest.fixture
def library(monkeypatch):
    """A module with a function, a class and a base class of another module."""
    import sys

    base, module = types.ModuleType("toy_base"), types.ModuleType("toy_library")
    exec("class Base:\n    def load(self): return 1\n", vars(base))
    source = (
        "class Reader(Base):\n    def read(self): return self.load()\ndef read(): return helper()\ndef helper(): pass\n"
    )
    module.Base = base.Base
    exec(source, vars(module))
    for each in (base, module):
        monkeypatch.setitem(sys.modules, each.__name__, each)
    return module


def replaced():
    """A function of the program."""


@pytest.mark.parametrize("owner", ["toy_library", "Reader", "Base"])
@pytest.mark.parametrize("step", ["read", "Reader"])
def test_replacing_what_a_step_can_look_up_is_noticed(library, owner, step, monkeypatch):
    code = LibraryCode()
    code.note(getattr(library, step))
    assert code.heed()
    place, name = {
        "toy_library": (library, "helper"),
        "Reader": (library.Reader, "read"),
        "Base": (library.Base, "load"),
    }[owner]
    before = code.names()
    if (step, owner) == ("read", "Base"):
        code.note(library.Reader)  # a value of that class has been seen
        before = code.names()
    monkeypatch.setattr(place, name, replaced)
    assert not code.heed()
    assert code.heed()  # from now on that is how it is
    assert code.names() != before


def test_what_is_built_in_cannot_be_replaced():
    code = LibraryCode()
    code.note(len)
    code.note(bytes)
    assert code.heed()
    assert not code._seen


def test_the_floating_point_mode_is_a_setting():
    torch = pytest.importorskip("torch")
    before = settings_now()
    if not torch.set_flush_denormal(True):
        pytest.skip("this processor does not flush")
    try:
        assert settings_now() != before
    finally:
        torch.set_flush_denormal(False)


def test_only_functions_that_are_replaced_are_other_code(library, monkeypatch):
    code = LibraryCode()
    code.note(library.Reader)
    assert not code.is_replaced()
    monkeypatch.setattr(library, "count", 1, raising=False)
    assert not code.is_replaced()  # a new name that hides nothing
    monkeypatch.setattr(library, "count", 2)
    assert not code.is_replaced()
    monkeypatch.setattr(library, "open", replaced, raising=False)
    assert code.is_replaced()  # it hides the builtin
    assert not code.is_replaced()
    monkeypatch.setattr(library.Reader, "load", replaced, raising=False)
    assert code.is_replaced()  # it hides that of the base class
    monkeypatch.delattr(library.Reader, "load")
    assert code.is_replaced()
    monkeypatch.setattr(library, "helper", proxies.make(library.helper))
    assert not code.is_replaced()  # a patch of ours runs what is behind it


@pytest.mark.parametrize("native", [proxies.native, _no_patch], ids=["c", "python"])
def test_values_are_compared_by_identity_and_order(native):
    one, other = [1], [1]
    space = {"a": one, "b": other}
    assert native.same_values((), ())
    assert native.same_values((space, {}), ((one, other), ()))
    assert not native.same_values((space, {}), ((one, other),))
    assert not native.same_values((space, {}), ((one, other), (one,)))
    assert not native.same_values((space,), ((other, one),))
    assert not native.same_values((space,), ((one,),))
    assert not native.same_values((space,), ((one, other, one),))
