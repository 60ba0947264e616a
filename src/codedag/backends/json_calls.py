"""Random texts for json.loads: usual, odd, and such that raise."""

from __future__ import annotations

import json
import random
from typing import Any

from codedag.backends.registry import Call
from codedag.backends.samples import weighted

_WORDS = ("", "a", "naïve", "文字", 'say "so"', "line\nline", "\x7f", "\u2028", "😀", "\\", "/", "NaN", "[[[", "1" * 25)
_ODD = (
    '"\\ud800"', '"\\ud83d\\ude00"', "NaN", "-Infinity", "1e400", "-0", "[-0.0, 0e5]", "18446744073709551616", "1E+5",
    "5e-324", "123456789012345678901.5", '{"a": 1, "b": 2, "a": 3}', "[" * 40 + "]" * 40, "[" * 200 + "]" * 200,
    '"\\/"', "\t\n1",
)  # fmt: skip
#: Short enough to be left to the standard library; what becomes of long ones that are wrong is told by tests.
_WRONG = ("[1.]", "[01]", '["\t"]', "\ufeff[]", "{", "", "[1] 2", '["a" "b"]', "[1,]", "tru", "[" * 2000)


def loads(rng: random.Random) -> Call:
    """A call of json.loads."""
    text: Any = json.dumps(_value(rng, 4), ensure_ascii=rng.random() < 0.5, indent=rng.choice((None, None, 1)))
    text = f"[{text}, {json.dumps('x' * rng.randint(4000, 8000))}]"
    if rng.random() < 0.15:
        odd = text.replace("[", f"[{rng.choice(_ODD)}, ", 1)
        text = weighted(rng, (odd, odd, rng.choice(_WRONG)), (text.encode(), None, 5), 0.1)
    if rng.random() < 0.06:
        return Call((text,), rng.choice(({"parse_float": str}, {"parse_int": float}, {"strict": False}, {"cls": None})))
    return Call((text,), {}) if rng.random() < 0.8 else Call((), {"s": text})


def _value(rng: random.Random, depth: int) -> Any:
    kind = rng.randrange(8 if depth else 5)
    if kind == 0:
        return rng.choice((0, -1, 7, 2**53 + 1, 10**17, -(10**18) + 1, rng.getrandbits(rng.randint(1, 59))))
    if kind == 1:
        return rng.choice((0.0, -0.0, 1.5, 1e300, 5e-324, 0.1 + 0.2, rng.random(), rng.uniform(-1e9, 1e9)))
    if kind in (2, 3):
        return "".join(rng.choices(_WORDS, k=rng.randint(0, 6)))
    if kind == 4:
        return rng.choice((None, True, False))
    if kind in (5, 6):
        return {"".join(rng.choices(_WORDS, k=2)): _value(rng, depth - 1) for _ in range(rng.randint(0, 9))}
    return [_value(rng, depth - 1) for _ in range(rng.randint(0, 9))]
