"""No value of a site reaches anyone but the sites that are named as its readers, however often it is read."""

from __future__ import annotations

from typing import Any

import pytest
import random_programs
from poison import Escaped, Method, Poison, Poisoned, no_poison

from codedag.instrument.program import InstrumentedFile
from codedag.instrument.sites import VARIANT

PER_TEST = 20


class PoisonedUses(Poisoned):
    """A program file in which every value with known readers is a poison that only these may take."""

    def __init__(self, source: str, *, main: bool = False) -> None:
        self.file = InstrumentedFile("poisoned.py", source.encode(), main=main)
        self.uses, self.links, self.taken = dict(self.file.uses), {}, 0
        for site in self.file.sites:
            site.variant, site.mode = self._poisoning(site), VARIANT
        for switch in self.file.switches:
            switch.on = True

    def _poisoning(self, site: Any) -> Any:
        run, index = self._variant(site, set()), site.info.index

        def poisoning(*args: Any, **keywords: Any) -> Any:
            result = run(*args, **keywords)
            return Poison(result, self.uses[index]) if index in self.uses else result

        return poisoning

    def _taken(self, value: Any, index: int, allowed: bool) -> Any:
        poison = value.poison if type(value) is Method else value
        if type(poison) is not Poison:
            return value
        if index not in poison.__dict__["target"]:
            raise Escaped(f"site {index} took what was meant for {poison.__dict__['target']}")
        self.taken += 1
        real = poison.__dict__["value"]
        return getattr(real, value.name) if type(value) is Method else real


def _outcome(code: Any, names: dict[str, Any], function: bool) -> Any:
    try:
        exec(code, names)
        result = names["f"](1, 2, 3, 4, 5) if function else None
    except (random_programs.Fuel, NameError, TypeError, AttributeError) as error:
        result = type(error).__name__
    return result, names["seen"]


def _check(seed: int, function: bool) -> tuple[int, int]:
    program = random_programs.Program(seed)
    source = program.function() if function else program.module()
    try:
        expected = _outcome(compile(source, "p.py", "exec"), random_programs.world(seed), function)
    except SyntaxError:
        return 0, 0
    poisoned = PoisonedUses(source, main=not function)
    try:
        found = _outcome(poisoned.file.full, random_programs.world(seed), function)
    except Escaped as escaped:
        pytest.fail(f"seed {seed}: {escaped} in\n{source}")
    assert no_poison(found), f"seed {seed}:\n{source}"
    assert repr(found) == repr(expected), f"seed {seed}:\n{source}"
    return sum(len(each) > 1 for each in poisoned.uses.values()), poisoned.taken


@pytest.mark.parametrize("function", [True, False], ids=["function", "module"])
@pytest.mark.parametrize("part", range(5))
def test_poison_never_escapes(part: int, function: bool, seed: int) -> None:
    first = (seed * 5 + part) * PER_TEST
    counts = [_check(number, function) for number in range(first, first + PER_TEST)]
    assert sum(taken for _, taken in counts) > PER_TEST


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_poison_never_escapes_from_many(part: int, seed: int) -> None:
    first = 20_000_000 + (seed * 20 + part) * 150
    several = [_check(number, number % 2 == 0)[0] for number in range(first, first + 150)]
    assert sum(several)  # values with two readers occur


def test_a_wrong_reader_is_noticed() -> None:
    poisoned = PoisonedUses("def f(a):\n    x = g(a)\n    y = h(x)\n    return x\n")
    call_g, call_h = (i.index for i in poisoned.file.infos[:2])
    assert call_g not in poisoned.uses
    poisoned.uses[call_g] = (call_h,)
    names = random_programs.world(1)
    exec(poisoned.file.full, names)
    with pytest.raises(Escaped):
        names["f"](1)


TWICE = {
    "a name that two sites read": ("x = a.m()\nreturn x + b.k(x)", 1),
    "bound anew by its own reader": ("x = a.m()\nx = x - x.k()\nreturn x", 1),
    "read after a branch": ("x = a.m()\ny = x + 1\nif b:\n    return x\nreturn y", 0),
    "read in the next turn": ("for i in b:\n    y = x + 1\n    x = a.m()\n    z = x + 2", 0),
    "captured": ("x = a.m()\ny = x + 1\nreturn lambda: x", 0),
    "handed to a name": ("x = a.m()\ny = x\nreturn x + 1", 0),
    "an attribute is read": ("x = a.m()\nreturn x + x.shape", 0),
    "kept by a handler": ("x = 0\ntry:\n    x = a.m()\n    y = x + 1\nexcept E:\n    print(x)", 0),
}


@pytest.mark.parametrize("case", TWICE)
def test_readers_of_a_value(case: str) -> None:
    lines, known = TWICE[case]
    source = "def f(a, b, x=0):\n" + "\n".join(f"    {line}" for line in lines.split("\n")) + "\n"
    file = InstrumentedFile("u.py", source.encode(), main=False)
    first = next(i.index for i in file.infos if source.splitlines()[i.line - 1][i.column : i.end_column] == "a.m()")
    assert (first in file.uses) == bool(known)
