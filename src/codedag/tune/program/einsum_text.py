"""Index texts such as `n i k, n k j -> n i j`: the program of one sum of products."""

from __future__ import annotations

import re

from codedag.tune.declined import CannotTune
from codedag.tune.program.program import Affine, Buffer, Load, Op, Program, Reduction, Statement, contiguous

HINT = "Write two operands and a result, such as 'n i k, n k j -> n i j'."
Names = tuple[str, ...]


def parts_of(text: str, spaced: bool = True) -> tuple[Names, Names, Names]:
    """The axes of both operands and of the result; CannotTune names what does not fit."""
    sides = text.split("->")
    operands = sides[0].split(",")
    if len(sides) != 2 or len(operands) != 2:
        raise CannotTune(f"{text!r} is not the text of a product of two arrays", hint=HINT)
    left, right = (_names(part, spaced) for part in operands)
    result = _names(sides[1], spaced) if sides[1].strip() else ()
    for part in (left, right, result):
        twice = sorted({name for name in part if part.count(name) > 1})
        if twice:
            raise CannotTune(f"{text!r}: axis {twice[0]} occurs twice in one array", hint=HINT)
    unknown = [name for name in result if name not in (*left, *right)]
    if unknown:
        raise CannotTune(f"{text!r}: axis {unknown[0]} of the result is in no operand", hint=HINT)
    alone = [name for name in (*left, *right) if name not in result and not (name in left and name in right)]
    if alone:
        raise CannotTune(f"{text!r}: axis {alone[0]} is summed over in one operand alone", hint=HINT)
    return left, right, result


def _names(part: str, spaced: bool) -> Names:
    found = tuple(part.split()) if spaced else tuple(part.strip())
    bad = [name for name in found if not re.fullmatch(r"[A-Za-z_]\w*", name)]
    if bad or not found:
        raise CannotTune(f"{part.strip()!r} is no list of axes", hint=HINT)
    return found


def program_of_text(text: str, sizes: dict[str, int], dtype: str) -> Program:
    """The program of a text; CannotTune names the axis whose size is missing or wrong."""
    left, right, result = parts_of(text)
    named = list(dict.fromkeys([*left, *right]))
    missing = [name for name in named if name not in sizes]
    if missing:
        raise CannotTune(f"{text!r}: axis {missing[0]} has no size", hint=f"Say --size {missing[0]}=NUMBER.")
    extra = [name for name in sizes if name not in named]
    if extra:
        raise CannotTune(f"{text!r}: there is no axis {extra[0]}", hint=f"Its axes are {', '.join(named)}.")
    wrong = [name for name in named if sizes[name] < 0]
    if wrong:
        raise CannotTune(f"{text!r}: axis {wrong[0]} has size {sizes[wrong[0]]}", hint="Sizes are 0 or more.")
    return _program(text, left, right, result, sizes, dtype)


def _program(text: str, left: Names, right: Names, result: Names, sizes: dict[str, int], dtype: str) -> Program:
    summed = [name for name in dict.fromkeys([*left, *right]) if name not in result]
    place = {**{n: f"d{k}" for k, n in enumerate(result)}, **{n: f"r{k}" for k, n in enumerate(summed)}}
    buffers = {}
    for name, own in (("a", left), ("b", right), ("t0", result)):
        shape = tuple(sizes[axis] for axis in own)
        buffers[name] = Buffer(name, dtype, shape, contiguous(shape))
    loads = [
        Load(name, tuple(Affine(((place[axis], 1),)) for axis in own)) for name, own in (("a", left), ("b", right))
    ]
    axes = tuple((place[name], sizes[name]) for name in (*result, *summed))
    letters = {name: chr(ord("a") + k) for k, name in enumerate(dict.fromkeys([*left, *right]))}
    sides = ["".join(letters[name] for name in part) for part in (left, right, result)]
    how = f"einsum {sides[0]},{sides[1]}->{sides[2]}"
    reduction = Reduction("sum", tuple(place[name] for name in summed))
    statement = Statement("t0", axes, Op("mul", dtype, tuple(loads)), how, reduction)
    return Program(text, ("a", "b"), buffers, (statement,), "t0")
