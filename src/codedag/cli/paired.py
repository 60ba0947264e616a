"""`codedag profile --together`: operations side by side, in facts and in lines."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from codedag.profile.together import Pair, Together


def facts(found: Together) -> dict[str, Any]:
    """What `--json` says of the pairs."""
    return {"ops": [op.id for op in found.ops], "pairs": [_facts(found, pair) for pair in found.pairs]}


def _facts(found: Together, pair: Pair) -> dict[str, Any]:
    from codedag.profile.together import Spread

    return {
        "ops": [found.ops[pair.one].id, found.ops[pair.other].id], "calls": pair.calls, "slowdowns": pair.slowdowns,
        "work_seconds": pair.work, "in_turn": Spread.of(pair.in_turn), "side_by_side": Spread.of(pair.beside),
        "predicted_seconds": pair.predicted_seconds, "foretold_seconds": pair.foretold_seconds,
        "gain": {"predicted": pair.predicted_gain, "measured": pair.measured_gain, "clear": pair.clear},
    }  # fmt: skip


def lines(found: Together) -> list[str]:
    """What people read of the pairs."""
    if not found.pairs:
        return ["side by side: no two calls could be run"]
    return [*_matrix(found), *_pairs(found), _verdict(found)]


def _matrix(found: Together) -> list[str]:
    """How many times as long a call of each row takes beside each column."""
    slow: dict[tuple[int, int], float] = {}
    for pair in found.pairs:
        slow[pair.one, pair.other], slow[pair.other, pair.one] = pair.slowdowns
    places = range(len(found.ops))
    head = f"{'side by side in two threads: times as long':<44}" + "".join(f"{_letter(at):>7}" for at in places)
    rows = [
        f"{_letter(row)} {_label(found, row):<42}"
        + "".join(f"{slow[row, at]:7.2f}" if (row, at) in slow else f"{'':7}" for at in places)
        for row in places
    ]
    return [head, *rows]


def _pairs(found: Together) -> list[str]:
    head = f"{'pair':<6} {'in turn':>10} {'side by side':>13} {'+-':>5} {'table says':>11} {'others say':>11}  better"
    return [head, *(_pair(pair) for pair in found.pairs)]


def _pair(pair: Pair) -> str:
    from codedag.profile.together import Spread

    turn, beside = Spread.of(pair.in_turn), Spread.of(pair.beside)
    others = "" if pair.foretold_seconds is None else _ms(pair.foretold_seconds)
    better = "side by side" if pair.measured_gain else "in turn"
    wrong = "" if pair.measured_gain == pair.predicted_gain else ", not as the table says"
    wrong += "" if pair.clear else " (not in all rounds)"
    return (
        f"{_letter(pair.one)} {_letter(pair.other)}    {_ms(turn.median):>10} {_ms(beside.median):>13} "
        f"{(beside.high - beside.low) / 2 / beside.median:>5.0%} {_ms(pair.predicted_seconds):>11} {others:>11}  "
        f"{better}{wrong}"
    )


def _verdict(found: Together) -> str:
    """In how many pairs the table changes the choice, and in how many of the clear ones that is right."""
    clear = [pair for pair in found.pairs if pair.clear]
    flips = sum(not pair.predicted_gain for pair in found.pairs)
    right = sum(pair.predicted_gain == pair.measured_gain for pair in clear)
    naive = sum(pair.measured_gain for pair in clear)
    return (
        f"the table turns {flips} of {len(found.pairs)} pairs to one after the other; where all rounds agree, it is "
        f"right for {right} of {len(clear)}, and side by side always for {naive}"
    )


def _letter(at: int) -> str:
    return chr(ord("A") + at)


def _label(found: Together, at: int) -> str:
    name = f"{found.ops[at].name} :{found.ops[at].line}"
    return name if len(name) <= 41 else f"...{name[-38:]}"


def _ms(seconds: float) -> str:
    return f"{seconds * 1e3:.1f} ms"
