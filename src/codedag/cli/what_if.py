"""`--what-if pu=cuda:0`: what a device that is not here would bring to a program, from a recorded run of it."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from codedag.cli.options import conclude, out_of_the_way, say
from codedag.instrument.python import uncollected

if TYPE_CHECKING:
    from codedag.api.what_if import Answer, Placed, Range, Stays
    from codedag.instrument.launch import Target
    from codedag.ir import RunDirectory
    from codedag.trace.rundir import Keeper
    from codedag.trace.session import Traced

STAYING = 5  # operations that would stay, the hottest first, with the reason
STAYING_SHARE = 0.01  # of the whole process, below which nobody asks why


@dataclass(frozen=True, slots=True)
class Wish:
    """The device that is asked about, the file with its figures, and the classes of results that are allowed."""

    text: str
    pu: str
    machine: str = ""
    allow: tuple[str, ...] = ()


def wish(text: str) -> Wish:
    """What was asked with `--what-if`; raises a usage error that names the part."""
    parts = dict[str, str]()
    for part in text.split(","):
        key, _, value = part.partition("=")
        if key not in ("pu", "machine", "allow") or not value or key in parts:
            raise click.UsageError(f"Invalid value for '--what-if': {part!r}; write pu=cuda:0[,machine=FILE].")
        parts[key] = value
    if "pu" not in parts:
        raise click.UsageError("Invalid value for '--what-if': name the device, such as pu=cuda:0.")
    allow = tuple(filter(None, parts.get("allow", "").split("+")))
    if unknown := [name for name in allow if name not in ("exact", "ulp", "level1")]:
        raise click.UsageError(f"Invalid value for '--what-if': allow={unknown[0]}: there are exact, ulp and level1.")
    return Wish(text, parts["pu"].lower(), parts.get("machine", ""), allow)


def record(ctx: click.Context, target: Target, output: str | None, wished: Wish, samples: bool) -> object:
    """Runs a program as `codedag trace` does, changes nothing, and says at its end what the device would bring."""
    from codedag.api.what_if import stated

    stated(wished.pu, wished.machine)  # what is wrong with the question is said before the program starts
    with uncollected():
        from codedag.backends.known_graph import with_effects
        from codedag.instrument.program import Program
        from codedag.trace.rundir import Keeper
        from codedag.trace.session import trace
    out_of_the_way()
    keeper = Keeper("trace", target, output)
    traced = trace(target, keeper, program=Program([target.root()]), samples=samples, known=with_effects)
    conclude(ctx, _report, ctx, keeper, traced, wished)
    return traced.ending.leave


def _report(ctx: click.Context, keeper: Keeper, traced: Traced, wished: Wish) -> None:
    from codedag.ir import RunDirectory

    if traced.forked:
        return
    if broken := traced.failure or keeper.broken:
        say(ctx, f"the run could not be written: {broken}; the program itself was not affected")
        return
    place = str(keeper.path)
    options = f"--what-if {quote(wished.text)}"
    say(ctx, *keeper.notes, *lines(answer(RunDirectory(place), wished)), f"run directory: {place}")
    say(ctx, f"next: codedag plan {quote(place)} {options} -o plan.json, for the machine that has {wished.pu}")


def answer(run: RunDirectory, wished: Wish) -> Answer:
    """The answer for a run; the peaks of this processor are measured if the run has none."""
    from codedag.api.what_if import stated, what_if
    from codedag.backends.registry import Equivalence
    from codedag.devices.inventory import inventory

    machine = stated(wished.pu, wished.machine)
    here = run.machine.pu("cpu") if run.has("machine") else None
    if here is None or not isinstance(here.flop_per_second, float):
        here = inventory(("cpu",)).pu("cpu")
    assert here is not None
    allowed = [Equivalence.EXACT, *(Equivalence(name) for name in wished.allow if name != "exact")]
    return what_if(run, machine, wished.pu, here, allowed)


def facts(found: Answer) -> dict[str, Any]:
    """The answer as plain data."""
    saved = found.saved
    return {
        "pu": found.pu.name, "simulated": True, "stated": _figures(found), "seconds": found.whole_seconds,
        "seconds_with": _bounds(found.whole_seconds, saved),
        "chains": [_chain(chain) for chain in found.chains],
        "model": _chain(found.model) if found.model is not None else None,
        "stays": [_stay(one) for one in found.stays],
    }  # fmt: skip


def _stay(one: Stays) -> dict[str, Any]:
    return {
        "op": one.op.id, "name": one.op.name, "where": one.op.where, "seconds": one.seconds, "reason": one.reason,
    }  # fmt: skip


def _chain(chain: Placed) -> dict[str, Any]:
    return {
        "ops": [op.id for op in chain.ops], "names": [op.name for op in chain.ops], "where": chain.ops[0].where,
        "calls": chain.ops[0].count, "seconds": chain.here_seconds, "seconds_there": chain.there.expected,
        "least_seconds_there": chain.there.least, "copies_seconds": chain.copies_seconds,
        "saved_seconds": [chain.saved.expected, chain.saved.least],
    }  # fmt: skip


def _bounds(whole: float, saved: Range) -> list[float]:
    return [max(whole - saved.least, 0.0), max(whole - saved.expected, 0.0)]


def lines(found: Answer) -> list[str]:
    """The answer in words; each figure that was not measured is said to be simulated."""
    return [
        f"what if there were {found.pu.name}? simulated, with stated figures: {_figures(found)}",
        _whole(found),
        *(f"  would go: {_line(chain)}" for chain in found.chains),
        *_staying(found),
        *_model(found),
    ]


def _whole(found: Answer) -> str:
    from codedag.view.text import time_text

    whole, name = found.whole_seconds, found.pu.name
    if not found.chains:
        return f"the program as recorded: {time_text(whole)}; simulated, nothing would go to {name}: no gain"
    low, high = _bounds(whole, found.saved)
    gain = f"{whole / high:.2f}x to {whole / low:.2f}x" if low > 0 else f"{whole / high:.2f}x or more"
    return (
        f"the program as recorded: {time_text(whole)}; with {name}, simulated: "
        f"{time_text(low)} to {time_text(high)} ({gain})"
    )


def _staying(found: Answer) -> Iterator[str]:
    from codedag.view.text import time_text

    hot = [one for one in found.stays if one.seconds >= STAYING_SHARE * found.whole_seconds]
    for one in hot[:STAYING]:
        yield f"  would stay: {one.op.name} ({one.op.where}), {time_text(one.seconds)}: {one.reason}"


def _model(found: Answer) -> Iterator[str]:
    from codedag.view.text import time_text

    if found.model is None:
        return
    model, saved = found.model, found.model.saved
    there = [time_text(model.here_seconds - each) for each in (saved.least, saved.expected)]
    yield (
        f"  yours to move: what torch computes at {len(model.ops)} places, {time_text(model.here_seconds)} here; "
        f"there, simulated: {there[0]} to {there[1]} with copies (model.to({found.pu.name!r}), and its batches)"
    )


def _line(chain: Placed) -> str:
    from codedag.view.text import time_text

    calls, there = chain.ops[0].count, chain.there
    names = " -> ".join(op.name for op in chain.ops)
    return (
        f"{names} ({chain.ops[0].where}), {calls} calls: {time_text(chain.here_seconds)} here; there, "
        f"simulated: {time_text(there.least)} to {time_text(there.expected)}, copies {time_text(chain.copies_seconds)}"
    )


def _figures(found: Answer) -> str:
    return "; ".join(found.pu.capability or ()) or "of the machine file"
