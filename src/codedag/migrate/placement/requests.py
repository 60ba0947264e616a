"""What a plan asks for, as plain data: which function, called from where, on which unit, as which variant.

A plan can only select registered substitutions; nothing that it says is imported or run.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import msgspec

from codedag.ir import Plan, RunDirectory, load
from codedag.ir.errors import CodedagError
from codedag.ir.plan import MOVES
from codedag.ir.reject import NOT_OURS, Unreadable, decode, reading

ORIGINAL = "original"
FORMAT = "codedag/migration_plan"
_ANY: msgspec.json.Decoder[Any] = msgspec.json.Decoder()


class BadPlan(CodedagError):  # noqa: N818 - reads as what happened
    """A plan that cannot be used; names the field."""

    slug = "bad-plan"


class Request(msgspec.Struct, frozen=True):
    """One function of the plan: the context key ends in its name, and is just that if it is meant everywhere."""

    function: str
    context: str
    pu: str
    variant: str = ""  # empty: whatever is proven and fastest; `original`: as written


class Requests(msgspec.Struct, frozen=True):
    """All that a plan asks for, and the parts that library patches cannot do."""

    wanted: tuple[Request, ...]
    notes: tuple[str, ...] = ()


def requests_of(plan: Any, default_device: str | None = None) -> Requests:
    """What a plan asks for: a Plan, the guides' dictionary, a file of either, or a run; raises BadPlan or BadFile."""
    if default_device is not None and not isinstance(default_device, str):
        raise BadPlan(f"default_device: {default_device!r:.80} is not text", hint="Name a device, such as cpu.")
    if isinstance(plan, str | os.PathLike):
        return _of_file(Path(plan), default_device)
    if isinstance(plan, RunDirectory):
        return _of_plan(plan.plan)
    if isinstance(plan, Plan):
        return _of_plan(plan)
    if isinstance(plan, Mapping):
        return _of_mapping(plan, default_device)
    raise BadPlan(
        f"a plan cannot be a {type(plan).__name__}", hint="Give a Plan, a migration plan, or the path of a file of one."
    )


def is_migration_plan(path: str | os.PathLike[str]) -> bool:
    """Whether a file is a plan in the guides' format; raises if it cannot be read."""
    if not Path(path).is_file():
        return False
    with reading(Path(path)):
        content = decode(Path(path).read_bytes(), _ANY)
    return isinstance(content, dict) and content.get("format") != "codedag/plan" and "context_device_map" in content


def _of_file(path: Path, default_device: str | None) -> Requests:
    if path.is_dir():
        return _of_plan(RunDirectory(path).plan)
    if not path.is_file():
        return _of_plan(load(path, "plan"))  # says what is wrong with it
    with reading(path):
        content = decode(path.read_bytes(), _ANY)
        if not isinstance(content, dict):
            raise Unreadable("is not a JSON object", hint=NOT_OURS)
    if not is_migration_plan(path):
        return _of_plan(load(path, "plan"))
    try:
        return _of_mapping(content, default_device)
    except BadPlan as error:
        raise BadPlan(f"{path}: {error.message}", hint=error.hint) from error


def _of_plan(plan: Plan) -> Requests:
    place = {placement.op: placement for placement in plan.placement}
    wanted = {(p.name, p.context): Request(p.name, p.context, p.pu, p.variant) for p in plan.placement}
    notes = []
    for move in plan.moves:
        if move.kind == "place":  # a chain of calls on one unit
            keys = [(name, f"{move.function}/{name}" if move.function else name) for name in move.chain]
            wanted.update({key: Request(*key, move.variant) for key in keys})
            continue
        if move.kind != "substitute" or not move.chain:
            known = "only `codedag run --plan` can do this"
            said = known if move.kind in MOVES else "this CodeDAG knows no such change, and leaves it out"
            notes.append(f"{move.kind} {move.file}:{move.line}: {said}")
            for op in move.ops:
                wanted.pop((place[op].name, place[op].context), None) if op in place else None
            continue
        contexts = [place[op].context for op in move.ops if op in place] or [move.chain[0]]
        for context in contexts:
            wanted[move.chain[0], context] = Request(move.chain[0], context, _unit(place, move.ops), move.variant)
    return Requests(tuple(wanted.values()), tuple(notes))


def _unit(place: Mapping[int, Any], ops: list[Any]) -> str:
    return next((place[op].pu for op in ops if op in place), "cpu")


def _of_mapping(plan: Mapping[str, Any], default_device: str | None) -> Requests:
    if plan.get("format") == "codedag/plan":
        return _of_plan(_converted(plan))
    if plan.get("format", FORMAT) != FORMAT:
        raise BadPlan(f"format: {plan['format']!r:.80} is no plan", hint=f"Give a codedag/plan or a {FORMAT}.")
    if plan.get("version", 1) != 1:
        raise BadPlan(f"version: this CodeDAG reads version 1, got {plan['version']!r}", hint="Make the plan again.")
    devices = plan.get("context_device_map")
    if not isinstance(devices, Mapping):
        raise BadPlan("context_device_map: is missing or not a mapping", hint="`get_migration_plan` makes one.")
    variants = plan.get("variants", {})
    if not isinstance(variants, Mapping):
        raise BadPlan("variants: is not a mapping", hint="Leave it out, or map context keys to names of variants.")
    return Requests(tuple(_entries(devices, variants, default_device)))


def _entries(devices: Mapping[Any, Any], variants: Mapping[Any, Any], default_device: str | None) -> Iterator[Request]:
    for key, device in devices.items():
        device = device if device not in (None, "") else default_device or "cpu"
        variant = variants.get(key, "")
        for field, value in (("context", key), (f"context_device_map[{key!s:.80}]", device), ("variants", variant)):
            if not isinstance(value, str):
                raise BadPlan(
                    f"{field}: {value!r:.80} is not text", hint="Context keys, devices and variants are text."
                )
        yield Request(key.rpartition("/")[2], key, device.lower(), variant)


def _converted(plan: Mapping[str, Any]) -> Plan:
    try:
        return msgspec.convert(dict(plan), Plan)
    except msgspec.ValidationError as error:
        raise BadPlan(str(error), hint="Make the plan again with the command that made it.") from error
