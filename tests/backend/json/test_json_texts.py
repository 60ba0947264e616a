"""json.loads by orjson: what is wrong raises as ever, and what only the standard library reads is read by it."""

from __future__ import annotations

import json
import math

import pytest

from codedag.backends.registry import find
from codedag.backends.same import same

pytest.importorskip("orjson")
(LOADS,) = find("json.loads")
LONG = json.dumps("x" * 5000)


def both(text: str):
    """What the standard library and the substitute make of a text that the guard takes: a value, or an error."""
    assert LOADS.accepts((text,), {})
    found = []
    for function in (json.loads, LOADS.run):
        try:
            found.append(function(text))
        except json.JSONDecodeError as error:
            found.append((type(error), str(error)))
    return found


@pytest.mark.parametrize("wrong", ["[1.]", "01", '"\t"', "{", "1] 2", '"a" "b"', "tru", "1,,2", "'a'", "-", "1e", "\\"])
def test_wrong_texts_raise_the_same(wrong):
    expected, got = both(f"[{LONG}, {wrong}]")
    assert expected[0] is json.JSONDecodeError
    assert got == expected


@pytest.mark.parametrize("text", ["NaN", "-Infinity", "1e400", '"\\ud800"', "-0", "-0.0", "5e-324", '{"a": 1, "a": 2}'])
def test_odd_values_are_the_same(text):
    expected, got = both(f"[{LONG}, {text}]")
    assert same(expected, got)
    assert [type(each) for each in expected] == [type(each) for each in got]


def test_signs_of_zeros_and_infinities():
    _, (_, zero, infinity) = both(f"[{LONG}, -0.0, -1e999]")
    assert math.copysign(1, zero) == -1
    assert infinity == -math.inf


@pytest.mark.parametrize("text", ["1" * 19, "-" + "1" * 25, "0." + "3" * 19, "[" * 40 + "]" * 40])
def test_long_numbers_and_deep_lists_are_declined(text):
    assert not LOADS.accepts((f"[{LONG}, {text}]",), {})


@pytest.mark.parametrize(
    "text", ['"1111111111111111111111"', '"\\"[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[[["', '"文\\\\"', '"😀\\""']
)
def test_what_is_inside_of_strings_does_not_count(text):
    expected, got = both(f"[{LONG}, {text}, 5]")
    assert expected == got


def test_another_decoder_is_declined(monkeypatch):
    text = f"[{LONG}, 1.5]"
    assert LOADS.accepts((text,), {})
    assert not LOADS.accepts((text,), {"parse_float": str})
    assert not LOADS.accepts((text,), {"strict": False})
    monkeypatch.setattr(json, "_default_decoder", json.JSONDecoder(parse_float=str))
    assert not LOADS.accepts((text,), {})
