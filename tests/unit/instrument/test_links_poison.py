"""No linked value ever reaches anyone but its target: random programs run with poison in the place of linked values."""

from __future__ import annotations

from typing import Any

import pytest
import random_programs
from poison import Escaped, Poisoned, no_poison

PER_TEST = 20


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
    except SyntaxError:  # `nonlocal` before use and the like
        return 0, 0
    poisoned = Poisoned(source, main=not function)
    try:
        found = _outcome(poisoned.file.full, random_programs.world(seed), function)
    except Escaped as escaped:
        pytest.fail(f"seed {seed}: {escaped} in\n{source}")
    assert no_poison(found), f"seed {seed}:\n{source}"
    assert repr(found) == repr(expected), f"seed {seed}:\n{source}"
    return len(poisoned.links), poisoned.taken


@pytest.mark.parametrize("function", [True, False], ids=["function", "module"])
@pytest.mark.parametrize("part", range(5))
def test_poison_never_escapes(part: int, function: bool, seed: int) -> None:
    first = (seed * 5 + part) * PER_TEST
    counts = [_check(number, function) for number in range(first, first + PER_TEST)]
    assert sum(links for links, _ in counts) > PER_TEST  # the programs do have links
    assert sum(taken for _, taken in counts) > PER_TEST  # and use them


@pytest.mark.long
@pytest.mark.parametrize("part", range(20))
def test_poison_never_escapes_from_many(part: int, seed: int) -> None:
    first = 10_000_000 + (seed * 20 + part) * 150
    for number in range(first, first + 150):
        _check(number, number % 2 == 0)


def test_poison_is_noticed() -> None:
    """The check itself can fail: a wrong link is found out."""
    from codedag.instrument.links import Link

    source = "def f(a):\n    x = g(a)\n    y = h(x)\n    return x\n"
    poisoned = Poisoned(source)
    call_g, call_h = (i.index for i in poisoned.file.infos[:2])
    assert call_g not in poisoned.links
    poisoned.links[call_g] = Link(call_g, call_h, 0)
    names = random_programs.world(1)
    exec(poisoned.file.full, names)
    with pytest.raises(Escaped):
        names["f"](1)
