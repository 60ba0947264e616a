"""Lookup tables of a profile (lookup_table.json, block_table.json, bandwidth_table.json), read, checked and queried."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from math import isfinite, prod
from pathlib import Path
from typing import TYPE_CHECKING, Any

import msgspec

from codedag.ir import BadFile, CannotPlan, Machine, load
from codedag.ir.reject import OTHER_VERSION, Unreadable, bad_file, decode, reading
from codedag.ir.verdict import No
from codedag.stages.execution.verify import F32, PRECISION_ERRORS
from codedag.stages.measuring.pus import our_name
from codedag.stages.model import StagedModel
from codedag.stages.onnx_models.export import structure
from codedag.stages.planning.lookup import Estimate, SizeModel
from codedag.stages.sizes import Sizes, sizes_of

if TYPE_CHECKING:
    from codedag.stages.planning.lookup import Matrix

LOOKUP, BLOCKS, BANDWIDTH = "lookup_table.json", "block_table.json", "bandwidth_table.json"
INT8_TABLE = "int8_table.json"
STAGES, MACHINE = "stages.json", "machine.json"
REQUIRED = ("compute_time_ms", "transfer_time_ms")
OPTIONAL = ("total_time_ms", "std_ms", "best_ms", "low_ms", "high_ms", "repeats", "setup_ms", "peak_nbytes", "error")
HINT = "Make the tables again with `codedag stages profile`, or correct this field: docs/stages.md lists them."
_BLOCK = re.compile(r"[1-9]\d*-[1-9]\d*")
_STAGE = re.compile(r"[1-9]\d*")
_EITHER = re.compile(rf"{_BLOCK.pattern}|{_STAGE.pattern}")

Key = tuple[str, str]  # our name of a PU, a stage ("3") or block ("1-5")


@dataclass(frozen=True, slots=True)
class Row:
    """One measured cell, in seconds."""

    sizes: tuple[int, ...]
    compute: float
    transfer: float
    low: float
    high: float
    std: float = 0.0
    setup: float = 0.0
    peak_nbytes: int = 0
    error: float = 0.0  # of int8: largest difference by largest value
    precision: str = F32  # that the PU computes floats in

    @property
    def spread(self) -> float:
        """Half its interval, by its seconds."""
        return (self.high - self.low) / 2 / self.compute if self.compute else 0.0


@dataclass(frozen=True, slots=True)
class Transfers:
    """Measured copies from one PU to another: a latency and a rate."""

    latency_seconds: float
    bytes_per_second: float


@dataclass
class Tables:
    """What was measured, by PU and stage or block; sizes without a row are predicted."""

    place: Path
    size_names: tuple[str, ...]
    rows: Mapping[Key, Mapping[tuple[int, ...], Row]]
    model: StagedModel | None = None  # its stages and tensors, where the directory has them
    transfers: Mapping[tuple[str, str], Transfers] = field(default_factory=dict)
    handover_seconds: float = 0.0  # what a change from one PU's process to another's takes, where that was measured
    machine: Machine | None = None
    host_bytes_per_second: float = 0.0  # of copies from and to the caller's arrays; 0 where that was not measured
    left_out: Mapping[str, str] = field(default_factory=dict)  # PUs that are not allowed, with their precision
    _models: dict[tuple[Key, str], SizeModel] = field(default_factory=dict, repr=False)
    _names: dict[str, str | None] = field(default_factory=dict, repr=False)

    @staticmethod
    def load(place: str | Path) -> Tables:
        """The tables of a directory, or one lookup_table.json; raises BadFile naming file, key and field."""
        return _Reader(Path(place)).tables()

    @staticmethod
    def load_int8(place: str | Path) -> Tables:
        """The rows of int8_table.json; raises BadFile naming file, key and field, also if there is none."""
        return _Reader(Path(place)).int8()

    @cached_property
    def stage_names(self) -> tuple[str, ...]:
        """The names of the stages, where they are known."""
        return tuple(stage.name for stage in self.model.stages) if self.model is not None else ()

    @cached_property
    def pus(self) -> tuple[str, ...]:
        """The PUs that have a row, in the order of the file."""
        return tuple(dict.fromkeys(pu for pu, _ in self.rows))

    @cached_property
    def _short(self) -> Mapping[str, str]:
        """The PUs that do not compute in float32, with what they compute in."""
        rows = ((pu, row) for (pu, _), found in self.rows.items() for row in found.values())
        return {pu: row.precision for pu, row in rows if row.precision != F32}

    def precision(self, pu: str) -> str:
        """The type that a PU computes floats in: f32 unless a row says another."""
        return self._short.get(self.pu(pu) or pu, F32)

    def within(self, allow: Sequence[str]) -> Tables:
        """The tables without PUs that compute in another type than float32, unless `f16` is allowed."""
        if "f16" in allow or not self._short:
            return self
        rows = {key: found for key, found in self.rows.items() if key[0] not in self._short}
        if not rows:
            hint = f"{', '.join(self._short)} computes in a shorter type: --allow f16 uses it."
            raise CannotPlan(f"{self.place} has no row of a PU that computes in float32", hint=hint)
        return replace(self, rows=rows, left_out=dict(self._short), _models={}, _names={})

    def only(self, pus: Sequence[str]) -> Tables:
        """The tables with the rows of these PUs; as they are if none is named."""
        kept = {self.pu(pu) for pu in pus}
        rows = {key: found for key, found in self.rows.items() if key[0] in kept}
        return replace(self, rows=rows, _models={}, _names={}) if pus else self

    @cached_property
    def count(self) -> int:
        """How many stages the model has."""
        numbers = (int(part) for _, stage in self.rows for part in stage.split("-"))
        return len(self.stage_names) or max(numbers, default=0)

    @cached_property
    def sizes(self) -> tuple[dict[str, int], ...]:
        """The sizes that were measured, from the smallest to the largest."""
        found = {sizes for rows in self.rows.values() for sizes in rows}
        return tuple(dict(zip(self.size_names, one, strict=True)) for one in sorted(found))

    @cached_property
    def largest(self) -> dict[str, int]:
        """The largest size that was measured, by the product of its numbers."""
        return max(self.sizes, key=lambda one: prod(max(value, 1) for value in one.values()))

    def made_nbytes(self, stage: int, sizes: Sizes) -> int:
        """The bytes that a stage makes; 0 where its tensors are not known."""
        return self._nbytes(self.model.stage(stage).outputs, sizes) if self.model is not None else 0

    def _nbytes(self, names: Sequence[str], sizes: Sizes) -> int:
        return sum(self.model.tensors[name].nbytes(sizes) for name in names) if self.model is not None else 0

    def name_of(self, stage: int) -> str:
        """A stage as messages name it: its number, and its name where that is known."""
        return f"stage {stage} {self.stage_names[stage - 1]}" if self.stage_names else f"stage {stage}"

    def pu(self, name: str) -> str | None:
        """A PU as these tables name it; the guide's names and ours mean the same device; None if it has no row."""
        if name not in self._names:
            self._names[name] = next((pu for pu in self.pus if our_name(pu) == our_name(name)), None)
        return self._names[name]

    # -- questions

    def seconds(self, *, pu: str, stage: int | str, **sizes: int) -> Estimate | No:
        """The median compute seconds of a stage (3) or block ("1-5"): the cell, else a prediction, else No."""
        return self._asked("compute", pu, stage, sizes)

    def host_seconds(self, sizes: Sizes) -> float:
        """What it takes to copy the inputs from the caller's arrays and the outputs to them; 0 if nobody measured."""
        if not self.host_bytes_per_second or self.model is None:
            return 0.0
        return self._nbytes((*self.model.inputs, *self.model.outputs), sizes) / self.host_bytes_per_second

    def transfer(self, *, pu: str, stage: int | str, **sizes: int) -> Estimate | No:
        """The seconds that bringing the inputs of a stage or block to a PU takes; else No."""
        return self._asked("transfer", pu, stage, sizes)

    def peak_nbytes(self, *, pu: str, stage: int | str, **sizes: int) -> int:
        """The most memory of a stage or block on a PU: measured, else scaled from another size; 0 is unknown."""
        rows = self._rows_of(pu, stage)
        wanted = self._values(sizes)
        if wanted in rows:
            return rows[wanted].peak_nbytes
        return min((_scaled_peak(row, wanted) for row in rows.values() if row.peak_nbytes), default=0)

    def error(self, pu: str, stage: int | str) -> float:
        """The largest measured error of an int8 stage or block on a PU."""
        return max((row.error for row in self._rows_of(pu, stage).values()), default=0.0)

    def has(self, pu: str, stage: int | str) -> bool:
        """Whether a stage or block was measured on a PU at any size."""
        return bool(self._rows_of(pu, stage))

    def many(self, what: str, pu: str, stage: int | str, sizes: Matrix) -> Matrix:
        """Compute or transfer seconds of many sizes by the fitted model; NaN where it has no figure."""
        return self._model((pu, str(stage)), what).many(sizes)

    def is_fitted(self, pu: str, stage: int | str) -> bool:
        """Whether enough sizes were measured that shares of a size can be priced."""
        return self.has(pu, stage) and self._model((pu, str(stage)), "compute").is_fitted

    def _rows_of(self, pu: str, stage: int | str) -> Mapping[tuple[int, ...], Row]:
        return self.rows.get((self.pu(pu) or pu, str(stage)), {})

    def _values(self, sizes: Sizes) -> tuple[int, ...]:
        if set(sizes) != set(self.size_names):
            wanted = ", ".join(self.size_names) or "none"
            raise TypeError(f"the sizes of these tables are {wanted}; got {', '.join(sizes) or 'none'}")
        return tuple(sizes[name] for name in self.size_names)

    def _asked(self, what: str, pu: str, stage: int | str, sizes: Sizes) -> Estimate | No:
        wanted, name = self._values(sizes), self.pu(pu)
        if name is None:
            return No(f"{pu} has no row in {self.place}")
        rows = self.rows.get((name, str(stage)))
        if not rows:
            return No(f"{pu} has no row for {'block' if '-' in str(stage) else 'stage'} {stage}")
        if row := rows.get(wanted):
            return _measured(row, what)
        told = self._model((name, str(stage)), what).at(wanted)
        return No(f"{pu}, {stage}: {told.reason}") if isinstance(told, No) else told

    def _model(self, key: Key, what: str) -> SizeModel:
        if (key, what) not in self._models:
            rows = list(self.rows[key].values())
            self._models[key, what] = SizeModel(
                self.size_names,
                [row.sizes for row in rows],
                [getattr(row, what) for row in rows],
                [row.spread for row in rows],
            )
        return self._models[key, what]


def _measured(row: Row, what: str) -> Estimate:
    if what == "transfer":
        return Estimate(row.transfer, row.transfer, row.transfer, measured=True)
    return Estimate(row.compute, row.low, row.high, measured=True)


def _scaled_peak(row: Row, wanted: tuple[int, ...]) -> int:
    ratios = [want / max(have, 1) for want, have in zip(wanted, row.sizes, strict=True)]
    return round(row.peak_nbytes * max([1.0, *ratios]))


class _Reader:
    """Reads one directory of tables, or one lookup table alone."""

    def __init__(self, place: Path) -> None:
        self.folder = place if place.is_dir() else place.parent
        self.alone = not place.is_dir()
        self.lookup = self.folder / LOOKUP if not self.alone else place
        self.machine = load(self._own(MACHINE), "machine") if self._has(MACHINE) else None
        self.size_names: tuple[str, ...] | None = None
        self.rows: dict[Key, dict[tuple[int, ...], Row]] = {}

    def _own(self, name: str) -> Path:
        return self.folder / name

    def _has(self, name: str) -> bool:
        return not self.alone and self._own(name).is_file()

    def tables(self) -> Tables:
        """The tables, checked."""
        if not self.lookup.is_file():
            hint = "`codedag stages profile -o DIR` makes it."
            raise bad_file(self.lookup, "there is no such file", hint=hint)
        self._take(self.lookup, _STAGE)
        if self._has(BLOCKS):
            self._take(self._own(BLOCKS), _BLOCK)
        if not self.rows:
            raise bad_file(self.lookup, "has no row", hint="Only measured cells have a row: measure at least one PU.")
        transfers, handover, rate = self._transfers() if self._has(BANDWIDTH) else ({}, 0.0, 0.0)
        model = structure(self.folder) if self._has(STAGES) else None
        return Tables(
            self.folder if not self.alone else self.lookup, self.size_names or (), self.rows, model, transfers,
            handover, self.machine, rate,
        )  # fmt: skip

    def int8(self) -> Tables:
        """The table of int8 stages and blocks, checked."""
        path = self._own(INT8_TABLE)
        if not path.is_file():
            hint = "`codedag stages profile -o DIR --allow int8 --calibration FILE.npz --max-error E` makes it."
            raise bad_file(path, "there is no such file", hint=hint)
        self._take(path, _EITHER)
        return Tables(self.folder, self.size_names or (), self.rows, machine=self.machine)

    def _take(self, path: Path, stages: re.Pattern[str]) -> None:
        with reading(path):
            for key, fields in _table(path).items():
                if key not in ("format", "version"):
                    self._add(path, key, fields, stages)

    def _add(self, path: Path, key: str, fields: Any, stages: re.Pattern[str]) -> None:
        sizes, pu, stage = self._parsed(key, stages)
        if not isinstance(fields, dict):
            raise Unreadable(f"is {fields!r}, not an object with {', '.join(REQUIRED)}", field=key, hint=HINT)
        row = _row(key, sizes, fields)
        self.rows.setdefault((self._known(path, key, fields.get("pu", pu)), stage), {})[sizes] = row

    def _parsed(self, key: str, stages: re.Pattern[str]) -> tuple[tuple[int, ...], str, str]:
        parts = key.rsplit(",", 2)
        form = "nodes,edges,PU,stage" if stages is _STAGE else "nodes,edges,PU,first-last"
        if len(parts) != 3 or not parts[1] or not stages.fullmatch(parts[2]):
            raise Unreadable(f"is no key of the form `{form}`", field=key, hint=HINT)
        if "-" in parts[2] and int(parts[2].split("-")[0]) >= int(parts[2].split("-")[1]):
            raise Unreadable(f"block {parts[2]} does not go from a stage to a later one", field=key, hint=HINT)
        try:
            sizes = sizes_of(parts[0])
        except ValueError as error:
            raise Unreadable(str(error), field=key, hint=HINT) from error
        if self.size_names is None:
            self.size_names = tuple(sizes)
        if tuple(sizes) != self.size_names:
            wanted = ", ".join(self.size_names)
            raise Unreadable(f"has the sizes {', '.join(sizes)}; other rows have {wanted}", field=key, hint=HINT)
        return tuple(sizes.values()), parts[1], parts[2]

    def _known(self, path: Path, key: str, pu: Any) -> str:
        """The name of a PU: as written, or ours where the machine of the directory knows it."""
        if not isinstance(pu, str) or not pu:
            raise Unreadable(f"{pu!r} is no PU", field=f"{key}.pu", hint=HINT)
        if self.machine is None:
            return pu
        for name in (pu, our_name(pu)):
            if self.machine.pu(name) is not None:
                return name
        hint = "`codedag devices` lists the PUs of this machine; plan tables of another one with --tables or --machine."
        raise BadFile(f"{path}: {key}: {self._own(MACHINE)} has no PU `{pu}`", hint=hint)

    def _transfers(self) -> tuple[dict[tuple[str, str], Transfers], float, float]:
        path = self._own(BANDWIDTH)
        with reading(path):
            raw = _table(path)
            for name, value in raw.items():
                if name not in ("regression", "transfers", "format", "version"):
                    _number(name, value)
            links = raw.get("transfers", {})
            if not isinstance(links, dict):
                raise Unreadable("is no object of `A->B`", field="transfers", hint=HINT)
            found = {_ends(name): _transfer(name, facts) for name, facts in links.items()}
            host = float(raw.get("host_bytes_per_second", 0.0))
            return found, float(raw.get("handover_seconds", 0.0)), host


_OBJECT = msgspec.json.Decoder(dict[str, Any])


def _object(path: Path) -> dict[str, Any]:
    return decode(path.read_bytes(), _OBJECT)


def _table(path: Path) -> dict[str, Any]:
    """The object of a table; one of another format or version is refused."""
    raw = _object(path)
    if raw.get("version", 1) != 1:
        raise Unreadable(f"this CodeDAG reads version 1, got `{raw['version']}`", field="version", hint=OTHER_VERSION)
    known = f"codedag/{path.stem}"
    if raw.get("format", known) != known:
        raise Unreadable(f"expected `{known}`, got `{raw['format']}`", field="format", hint=HINT)
    return raw


def _number(name: str, value: Any) -> float:
    if isinstance(value, bool) or not isinstance(value, int | float):
        raise Unreadable(f"{value!r} is no number", field=name, hint=HINT)
    if not isfinite(value) or value < 0:
        raise Unreadable(f"{value} is below 0 or not finite", field=name, hint=HINT)
    return float(value)


def _row(key: str, sizes: tuple[int, ...], fields: Mapping[str, Any]) -> Row:
    for name in REQUIRED:
        if name not in fields:
            raise Unreadable("is missing", field=f"{key}.{name}", hint=HINT)
    told = {name: _number(f"{key}.{name}", fields[name]) for name in (*REQUIRED, *OPTIONAL) if name in fields}
    compute, transfer = told["compute_time_ms"] / 1e3, told["transfer_time_ms"] / 1e3
    low, high = _interval(told)
    return Row(
        sizes, compute, transfer, min(low, compute), max(high, compute), told.get("std_ms", 0.0) / 1e3,
        told.get("setup_ms", 0.0) / 1e3, int(told.get("peak_nbytes", 0)),
        told.get("error", 0.0), _precision(key, fields.get("precision", F32)),
    )  # fmt: skip


def _precision(key: str, value: Any) -> str:
    if value not in (F32, *PRECISION_ERRORS):
        known = ", ".join((F32, *PRECISION_ERRORS))
        raise Unreadable(f"{value!r} is none of {known}", field=f"{key}.precision", hint=HINT)
    return str(value)


def _interval(told: Mapping[str, float]) -> tuple[float, float]:
    """The interval of the compute seconds: as measured, else one standard deviation to each side."""
    compute, std = told["compute_time_ms"], told.get("std_ms", 0.0)
    low = told.get("low_ms", compute - std)
    high = told.get("high_ms", compute + std)
    return max(0.0, low) / 1e3, max(0.0, high) / 1e3


def _ends(name: str) -> tuple[str, str]:
    src, sign, dst = name.partition("->")
    if not (src and sign and dst):
        raise Unreadable("is not of the form `A->B`", field=f"transfers.{name}", hint=HINT)
    return src, dst


def _transfer(name: str, facts: Any) -> Transfers:
    if not isinstance(facts, dict):
        raise Unreadable("is no object", field=f"transfers.{name}", hint=HINT)
    for field_name in ("latency_seconds", "bytes_per_second"):
        if field_name not in facts:
            raise Unreadable("is missing", field=f"transfers.{name}.{field_name}", hint=HINT)
    latency, rate = (_number(f"transfers.{name}.{one}", facts[one]) for one in ("latency_seconds", "bytes_per_second"))
    return Transfers(latency, rate)


def size_text(sizes: Sizes) -> str:
    """Sizes as people read them: `nodes=1000, edges=2000`."""
    return ", ".join(f"{name}={value}" for name, value in sizes.items()) or "the model's own sizes"


def parsed_size(text: str, names: Sequence[str]) -> dict[str, int] | No:
    """The sizes of `nodes=1000,edges=2000`, in the order of these names; else No."""
    pairs = [part.strip().partition("=") for part in text.split(",")]
    if not all(sign and value.isdecimal() for _, sign, value in pairs):
        return No(f"`{text}` is not of the form {','.join(f'{name}=N' for name in names) or 'name=N'}")
    found = {name: int(value) for name, _, value in pairs}
    if set(found) != set(names):
        return No(f"`{text}` does not name {' and '.join(names) or 'no size'}")
    return {name: found[name] for name in names}
