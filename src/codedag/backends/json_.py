"""Substitution from the standard library's json into orjson, where the two are known to agree."""

from __future__ import annotations

import json
import random
from typing import Any

from codedag.backends import _pixels, json_calls
from codedag.backends.reasons import answer, left_out
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

ORJSON = "orjson>=3.9,<4"
LEAST, MOST = 4096, 1 << 28  # characters; shorter texts gain less than the guard costs
DIGITS = 18  # in a row: what is larger than 64 bits becomes a float in orjson
DEPTH = 32  # of lists in lists: the standard library ends with the stack of the program, orjson elsewhere
_OPTIONS = ("cls", "object_hook", "parse_float", "parse_int", "parse_constant", "object_pairs_hook")


@substitutes("json.loads", into="orjson", gives=EXACT, needs=ORJSON)
def loads(
    s: Any,
    *,
    cls: Any = None,
    object_hook: Any = None,
    parse_float: Any = None,
    parse_int: Any = None,
    parse_constant: Any = None,
    object_pairs_hook: Any = None,
    **kw: Any,
) -> Any:
    """What a text says; what orjson refuses, as NaN or a text that is wrong, the standard library reads or refuses."""
    import orjson

    try:
        return orjson.loads(s)
    except orjson.JSONDecodeError:
        return loads.original()(s)


@loads.guard
def _(call: Any) -> Verdict:
    """Plain texts of 4096 to 2**28 characters, no option, no number of more than 18 digits, 32 lists deep at most."""
    if type(call.s) is not str or not LEAST <= len(call.s) <= MOST:
        return answer("not a plain text of a size that gains")
    if call.kw or not _is_usual(json._default_decoder):  # type: ignore[attr-defined]
        return answer("options, or another decoder")
    reason = left_out(call, _OPTIONS)
    return answer(reason or ("" if _pixels.modest(call.s, DIGITS, DEPTH) else "long numbers, or deep lists"))


def _is_usual(decoder: Any) -> bool:
    """Whether the decoder that the standard library uses is as it was made."""
    if type(decoder) is not json.JSONDecoder or decoder.strict is not True:
        return False
    kept = vars(decoder)
    hooks = kept["object_hook"] is None and kept["object_pairs_hook"] is None
    return hooks and kept["parse_float"] is float and kept["parse_int"] is int


@loads.calls
def _(rng: random.Random) -> Call:
    return json_calls.loads(rng)
