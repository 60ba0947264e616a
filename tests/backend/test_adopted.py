"""Substitutes as code that stands by itself: what is emitted works without CodeDAG, the rest says why not."""

from __future__ import annotations

import random
import sys
import types

import pytest

from codedag.autopilot.standalone import standalone
from codedag.backends.proof import near
from codedag.backends.registry import all_substitutions
from codedag.devices.present import present

CALLS = 12
ON_CPU = [one for one in all_substitutions() if one.pu == "cpu"]


@pytest.mark.long
@pytest.mark.parametrize("substitution", ON_CPU, ids=lambda one: one.name.replace(" ", ""))
@pytest.mark.filterwarnings("ignore")
def test_what_is_emitted_gives_the_same(substitution, monkeypatch):
    if not substitution.available() or not present(substitution.pu):
        pytest.skip("not installed, or its device is not here")
    try:
        text = standalone(substitution.run, "adopted")
    except LookupError:
        return  # a part of it is no source of its own
    assert "codedag" not in text
    module = types.ModuleType("adopted")
    monkeypatch.setitem(sys.modules, "adopted", module)
    exec(compile(text, "adopted.py", "exec", dont_inherit=True), module.__dict__)
    rng, taken = random.Random(5), 0
    for _ in range(CALLS):
        number = rng.getrandbits(64)
        theirs, ours = (substitution.random_call(random.Random(number)) for _ in range(2))
        if substitution.accepts(theirs.args, theirs.kwargs):
            expected = substitution.original()(*theirs.args, **theirs.kwargs)
            assert near(expected, module.adopted(*ours.args, **ours.kwargs), substitution.equivalence)
            taken += 1
    assert taken


@pytest.mark.slow
def test_some_are_emitted():
    made = []
    for substitution in all_substitutions():
        try:
            made.append(standalone(substitution.run, "adopted"))
        except LookupError:
            continue
    assert len(made) >= 20


def test_names_that_a_module_unpacks_are_source():
    """`_BILINEAR, _BICUBIC = 2, 3` was "not source", which hid why resizing by PIL has no patch."""
    (resize,) = [one for one in ON_CPU if one.source == "PIL.Image.Image.resize" and one.into == "codedag"]
    with pytest.raises(LookupError, match=r"it uses a part of CodeDAG \(codedag.backends._pixels\)"):
        standalone(resize.run, "adopted")
