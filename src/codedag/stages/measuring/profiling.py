"""A profile of a staged model in its three steps: export the stages, measure them on every PU, write the tables."""

from __future__ import annotations

import json
import os
import shutil
import time
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import ThreadPoolExecutor
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING, Any

from codedag._version import __version__
from codedag.ir import BadFile, CannotWrite, CodedagError, Machine, RunDirectory, RunInfo, save
from codedag.stages.measuring.arena import Arena
from codedag.stages.measuring.cells import Cell, Cells
from codedag.stages.measuring.measure import Advance, Measurer, Settings
from codedag.stages.measuring.pus import (
    UnknownPu,
    chosen,
    families_of,
    here,
    joined,
    our_name,
    phase_of,
    versions,
    with_layouts,
)
from codedag.stages.measuring.table_files import write_tables
from codedag.stages.model import Block, StagedModel
from codedag.stages.onnx_models import export

if TYPE_CHECKING:
    from codedag.stages.measuring.calibration import Calibration

_STATE = "profile.json"


class NothingMeasured(CodedagError):  # noqa: N818 - reads as what happened
    """No PU could be measured; says why for each."""

    slug = "nothing-measured"


@dataclass(slots=True)
class Outcome:
    """What a profile has: cells that were measured now and in all, and the PUs that are absent."""

    measured: int = 0
    known: int = 0
    pus: list[str] = field(default_factory=list)
    absent: dict[str, str] = field(default_factory=dict)
    seconds: float = 0.0


@dataclass
class Profile:
    """The profile in one directory; every step goes on from what is there."""

    directory: Path
    layouts: bool = False  # runtimes on halves of the cores, beside each other, too
    say: Callable[[str], None] = lambda line: None
    advance: Advance = lambda done, total, at: None
    _is_given_up: bool = field(default=False, init=False)

    def export(self, make: Callable[[], StagedModel], pus: Sequence[str] | None = None) -> StagedModel:
        """Writes the stages of a model as ONNX files, with IR where OpenVINO is installed.

        If PUs will be measured (those named, or all), they are looked for meanwhile, in processes of their own.
        """
        with ThreadPoolExecutor(1) as pool, self._looking():
            found = pool.submit(self.machine, pus) if pus is not None else None
            model = make()
            export.export(model, self.directory)
            self._write_run(model)
            if found is not None:
                found.result()
        return model

    @contextmanager
    def _looking(self) -> Iterator[None]:
        """A block that ends the search for PUs when it fails: nobody waits for the other families."""
        self._is_given_up = False
        try:
            yield
        except BaseException:
            self._is_given_up = True
            raise

    def _look(self, family: str) -> None:
        if self._is_given_up:
            raise InterruptedError("the profile was given up")
        self.say(f"looking for PUs of {family}")

    def model(self) -> StagedModel:
        """The model whose stages were exported."""
        return export.load(self.directory)

    def machine(self, pus: Sequence[str] = (), again: Sequence[str] = ()) -> Machine:
        """This machine, as probed by this profile or an earlier one with the same libraries."""
        run, state = RunDirectory(self.directory), self._state()
        known = run.has("machine") and state.get("versions") == versions()
        probed: list[str] = state.get("probed", []) if known else []
        probed = [family for family in probed if not again or family not in families_of(again)]
        missing = [family for family in families_of(pus) if family not in probed]
        if not missing:
            return run.machine
        found = here(missing, self._look)
        machine = joined(run.machine, found) if known else found
        save(machine, self.directory / "machine.json")
        self._keep(versions=versions(), probed=[*probed, *missing], **({} if known else {"pu_versions": {}}))
        return machine

    def pus(self, names: Sequence[str] = (), again: Sequence[str] = ()) -> list[str]:
        """The PUs that will be measured; raises UnknownPu for a name that nobody knows."""
        earlier = self._state().get("probed")
        try:
            return self._chosen(names, again)
        except UnknownPu:
            if not earlier:
                raise
            return self._chosen(names, names)  # it may have come since the machine was probed

    def _chosen(self, names: Sequence[str], again: Sequence[str]) -> list[str]:
        machine = self.machine([*names, *again] if names else [], again)
        return chosen(with_layouts(machine, os.cpu_count() or 1) if self.layouts else machine, names)

    def measure(
        self, model: StagedModel, sizes: Sequence[dict[str, int]], blocks: Sequence[Block], settings: Settings,
        pus: Sequence[str] = (), again: Sequence[str] = (),
    ) -> Outcome:  # fmt: skip
        """Measures what is not known yet, phase after phase of PUs; what goes wrong on one PU costs that one only."""
        begun, kept = time.monotonic(), Cells(self.directory)
        names = self.pus(pus, again)
        machine = RunDirectory(self.directory).machine
        if self.layouts:
            machine = with_layouts(machine, os.cpu_count() or 1)
            save(machine, self.directory / "machine.json")
        for pu in again:
            kept.forget(our_name(pu))
        measurer = Measurer(model, self.directory, kept, settings, self.advance)
        known: dict[str, str] = self._state().get("pu_versions", {})
        wanted = {pu: known[pu] for pu in names if pu in known}
        if not again and len(wanted) == len(names) and measurer.is_complete(sizes, blocks, wanted):
            return Outcome(0, len(kept.all()), names, self._state().get("absent", {}), time.monotonic() - begun)
        with ExitStack() as stack:
            measurer.start(names, stack)
            versions_now = {**known, **{pu: up.version for pu, up in measurer.up.items()}}
            self._keep(pu_versions=versions_now, static=settings.static)  # now: what ends early can be analysed
            self._tell_phases(names, measurer)
            measurer.run(sizes, blocks)
        absent = {one.name: one.reason for one in machine.absent or ()} | measurer.absent
        asked = [up.ask_seconds for up in measurer.up.values()]
        figures = {"handover_seconds": median(asked), "host_bytes_per_second": copy_rate()} if asked else {}
        self._keep(absent=absent, **figures)
        if not any(cell.status == "ok" for cell in kept.all()):
            why = {**absent, **{cell.pu: cell.reason for cell in kept.all()}}
            raise NothingMeasured(
                "no PU could be measured: " + "; ".join(f"{pu}: {reason}" for pu, reason in why.items()),
                hint="`codedag devices` lists what is here; install openvino or onnxruntime.",
            )
        return Outcome(measurer.measured, len(kept.all()), list(measurer.up), absent, time.monotonic() - begun)

    def measure_int8(
        self, model: StagedModel, sizes: Sequence[dict[str, int]], blocks: Sequence[Block], settings: Settings,
        calibration: Calibration, max_error: float, pus: Sequence[str] = (), again: Sequence[str] = (),
    ) -> Outcome:  # fmt: skip
        """Quantises the blocks and measures them where int8 files run; cells beyond the largest error are failed."""
        from codedag.stages.measuring.int8_cells import PUS, Int8Measurer

        begun, kept = time.monotonic(), Cells(self.directory)
        for pu in again:
            kept.forget(our_name(pu))
        names = [pu for pu in self.pus(pus) if pu in PUS]
        measurer = Int8Measurer(
            model, self.directory, kept, settings, self.advance, calibration=calibration, max_error=max_error
        )
        with ExitStack() as stack:
            measurer.start(names, stack)
            self.say(f"int8 on {', '.join(measurer.up) or 'no PU: it needs ' + ' or '.join(PUS)}")
            measurer.run(sizes, blocks)
        return Outcome(measurer.measured, len(kept.all()), list(measurer.up), measurer.absent, time.monotonic() - begun)

    def _tell_phases(self, names: Sequence[str], measurer: Measurer) -> None:
        for phase in dict.fromkeys(map(phase_of, names)):
            states = [
                f"{pu} {measurer.up[pu].version}" if pu in measurer.up else f"{pu} is absent: {measurer.absent[pu]}"
                for pu in names if phase_of(pu) == phase
            ]  # fmt: skip
            self.say(f"phase {phase}: {'; '.join(states)}")

    def analyze(self, model: StagedModel) -> Outcome:
        """Writes the tables from what was measured so far."""
        cells = Cells(self.directory).all()
        if not any(cell.status == "ok" for cell in cells):
            raise NothingMeasured(
                f"{self.directory} has no measured cell", hint=f"`codedag stages profile -o {self.directory}` measures."
            )
        state = self._state()
        absent: dict[str, str] = state.get("absent", {})
        cells = self._current(model, cells)
        figures: dict[str, float] = {
            name: state[name] for name in ("handover_seconds", "host_bytes_per_second") if name in state
        }
        machine = self.machine(list({cell.pu for cell in cells}))
        write_tables(model, self.directory, cells, machine, absent, figures)
        self._write_run(model)
        self._write_costs()
        return Outcome(0, len(cells), sorted({cell.pu for cell in cells if cell.status == "ok"}), absent)

    def _current(self, model: StagedModel, cells: Sequence[Cell]) -> list[Cell]:
        """The cells of this model with the libraries and settings of the newest profile, on PUs that are here."""
        state, blocks = self._state(), {block.name: block for block in model.blocks}
        versions_now: dict[str, str] = state.get("pu_versions", {})
        measurer = Measurer(model, self.directory, Cells(self.directory), Settings(static=state.get("static", False)))

        def is_current(cell: Cell) -> bool:
            if cell.block not in blocks or cell.pu not in versions_now or set(cell.sizes) != set(model.sizes):
                return False
            key = measurer.key(blocks[cell.block], cell.sizes, cell.pu, versions_now[cell.pu])
            return bool(cell.variant) or cell.key == key

        return [cell for cell in cells if is_current(cell)]

    def _write_run(self, model: StagedModel) -> None:
        info = RunInfo(
            command="stages profile", argv=[model.source.model or model.name], cwd=os.getcwd(),
            versions={"codedag": __version__, **versions()}, status="ok",
        )  # fmt: skip
        save(info, self.directory / "run.json")

    def _write_costs(self) -> None:
        """Graph and costs, so that `codedag plan` takes the directory; a plan that is there has its own."""
        if not RunDirectory(self.directory).has("plan"):
            from codedag.stages.planning.pep_file import write_costs
            from codedag.stages.planning.tables import Tables

            write_costs(self.directory, Tables.load(self.directory))

    # -- what one step leaves for the next

    def _state(self) -> dict[str, Any]:
        try:
            found: dict[str, Any] = json.loads((self.directory / _STATE).read_text())
        except (FileNotFoundError, NotADirectoryError):
            return {}
        except (OSError, ValueError) as error:
            raise BadFile(
                f"cannot read {self.directory / _STATE}: {error}", hint="Remove it; it is made again."
            ) from error
        return found

    def _keep(self, **facts: Any) -> None:
        from codedag.ir import write_atomically

        write_atomically(self.directory / _STATE, json.dumps({**self._state(), **facts}, indent=1).encode())


def copy_rate(nbytes: int = 16 << 20, rounds: int = 5) -> float:
    """Bytes per second of a copy from an array of the caller's into memory that PUs map."""
    import numpy as np

    source = np.ones(nbytes, np.uint8)
    taken = []
    with Arena() as arena:
        target, _ = arena.put(source)  # its pages are there then
        for _ in range(rounds):
            begun = time.perf_counter()
            target[...] = source
            taken.append(time.perf_counter() - begun)
    return nbytes / median(taken)


@contextmanager
def prepared(directory: Path) -> Iterator[None]:
    """A block that fills the directory of a profile; a new one is removed unless a model was exported into it."""
    is_new = not directory.exists()
    prepare(directory)
    try:
        yield
    except BaseException:
        if is_new and not (directory / "stages.json").exists():
            shutil.rmtree(directory, ignore_errors=True)
        raise


def prepare(directory: Path) -> None:
    """Makes the directory of a profile, or says why it cannot be one."""
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise CannotWrite(
            f"cannot make {directory}: {error.strerror}", hint="Name another directory with -o."
        ) from error
    known = any((directory / name).exists() for name in ("stages.json", _STATE)) or not any(directory.iterdir())
    if not known:
        raise CannotWrite(
            f"{directory} is not empty and holds no profile", hint="Name a new or an empty directory with -o."
        )
