"""Bundles: a plan as files that run without CodeDAG (ONNX and IR per block, pep.json, an example, run.py)."""

from __future__ import annotations

import json
import os
import shutil
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from codedag.ir.errors import CannotPlan, CannotWrite
from codedag.stages.execution import bundle_runner
from codedag.stages.execution.execution_plan import ExecutionPlan, PlannedBlock, planned_near, read_pep
from codedag.stages.execution.verify import ROUNDING
from codedag.stages.measuring.pus import our_name, versions
from codedag.stages.measuring.quantise import variant_file
from codedag.stages.model import Arrays, StagedModel
from codedag.stages.npz import write_npz
from codedag.stages.onnx_models.export import load, write_ir
from codedag.stages.planning.pep_file import FILE, FORMAT, VERSION
from codedag.stages.planning.tables import LOOKUP, Tables
from codedag.stages.reference import draw
from codedag.stages.sizes import GRAPH, Sizes

#: The runtime of run.py for each family of PUs; others (torch, our kernels) are replaced.
RUNTIMES = {"ov": "openvino", "ort": "onnxruntime"}
MODELS, RUN, EXAMPLE = "models", "run.py", "example.npz"
#: An example at the plan's size is shipped up to this; else the model's own small one.
MOST_EXAMPLE_NBYTES = 64 << 20


@dataclass
class Bundle:
    """What was written: the plan that run.py executes, and what it replaces with the predicted difference."""

    place: Path
    plan: ExecutionPlan
    planned: ExecutionPlan
    notes: list[str] = field(default_factory=list)

    def facts(self) -> dict[str, Any]:
        """The bundle as `--json` prints it."""
        return {
            "bundle": str(self.place), "blocks": self.plan.facts(), "planned": self.planned.facts(),
            "seconds": self.plan.seconds, "planned_seconds": self.planned.seconds, "simulated": self.plan.simulated,
            "notes": self.notes,
            "files": sorted(str(path.relative_to(self.place).as_posix()) for path in self.place.rglob("*.*")),
        }  # fmt: skip


def write_bundle(directory: Path, place: Path, pep: Path | None = None) -> Bundle:
    """Writes the bundle of a profile's plan; nothing is there if that fails."""
    model = load(directory)
    tables = Tables.load(directory).within(()) if (directory / LOOKUP).is_file() else None
    wanted = _plan_of(directory, model, tables, pep)
    bundle = Bundle(place, wanted, wanted)
    bundle.plan = shippable(model, wanted, tables, bundle.notes)
    if wanted.parts > 1:
        bundle.notes.append(f"the plan was for {wanted.parts} parts of a graph; the bundle runs the graph as a whole")
    with _new_directory(place) as folder:
        facts = _write_models(model, bundle, directory, folder)
        inputs = _example(model, bundle.plan)
        write_npz(folder / EXAMPLE, {**inputs, **model.reference.outputs(inputs)})
        same = model.sizes_of(inputs) == dict(bundle.plan.sizes) and bundle.plan.items == 1 and bundle.plan.parts == 1
        facts |= {"example_seconds": bundle.plan.seconds if same else None}
        (folder / FILE).write_text(json.dumps(facts, indent=1) + "\n", encoding="utf-8")
        shutil.copyfile(bundle_runner.__file__, folder / RUN)
    return bundle


def _plan_of(directory: Path, model: StagedModel, tables: Tables | None, pep: Path | None) -> ExecutionPlan:
    """The plan of a file; without one, the best for the largest measured size."""
    path = pep or directory / FILE
    if pep is not None or path.is_file() or tables is None:
        return read_pep(path, model)
    return planned_near(model, tables, tables.sizes[-1])


# -- what run.py can execute


def shippable(model: StagedModel, plan: ExecutionPlan, tables: Tables | None, notes: list[str]) -> ExecutionPlan:
    """The plan, or the best one whose PUs run.py can use; what differs is noted with its predicted seconds."""
    if all(len(each.pus) == 1 and _runtime(each.pus[0]) for each in plan.blocks):
        return plan
    if tables is not None:
        able = [pu for pu in tables.pus if _runtime(our_name(pu))]
        for pus in (able, *([pu] for pu in able)):  # splits are left out by planning for one PU
            found = _planned(model, tables, plan.sizes or tables.sizes[-1], pus)
            if found is not None and all(len(each.pus) == 1 for each in found.blocks):
                notes.append(_difference(plan, found))
                return found
    return ExecutionPlan(tuple(_replaced(each, notes) for each in plan.blocks), 0.0, sizes=plan.sizes)


def _planned(model: StagedModel, tables: Tables, sizes: Sizes, pus: Sequence[str]) -> ExecutionPlan | None:
    try:
        return planned_near(model, tables, sizes, pus=pus) if pus else None
    except CannotPlan:
        return None


def _runtime(pu: str) -> str | None:
    return RUNTIMES.get(pu.partition(":")[0])


def _difference(plan: ExecutionPlan, found: ExecutionPlan) -> str:
    text = f"run.py executes OpenVINO and ONNX Runtime: {found} instead of {plan}"
    if not plan.seconds or not found.seconds or plan.goal != found.goal:
        return text
    return f"{text}; {found.seconds * 1e3:.3g} ms predicted instead of {plan.seconds * 1e3:.3g} ms"


def _replaced(each: PlannedBlock, notes: list[str]) -> PlannedBlock:
    """A block on a runtime of the bundle; nothing is known of its time."""
    able = [pu for pu in each.pus if _runtime(pu)]
    pu = able[0] if able else "ort:cpu"
    if each.pus != (pu,):
        notes.append(f"block {each.block.name} runs on {pu}, not on {'+'.join(each.pus)}: its time was not predicted")
    return PlannedBlock(each.block, (pu,), (1.0,), 0.0 if each.pus != (pu,) else each.seconds)


# -- files


def _write_models(model: StagedModel, bundle: Bundle, directory: Path, folder: Path) -> dict[str, Any]:
    """Writes the models of the blocks; the content of pep.json."""
    (folder / MODELS).mkdir()
    blocks = [_write_block(model, each, directory, folder, bundle.notes) for each in bundle.plan.blocks]
    known, used = versions(), {block["runtime"] for block in blocks}
    return {
        "format": FORMAT, "version": VERSION, "name": model.name, "goal": bundle.plan.goal,
        "sizes": dict(bundle.plan.sizes), "blocks": blocks, "seconds": bundle.plan.seconds,
        "planned": bundle.planned.facts(), "notes": bundle.notes, "simulated": bundle.plan.simulated,
        "inputs": {name: [model.tensors[name].dtype, list(model.tensors[name].shape)] for name in model.inputs},
        "outputs": list(model.outputs), "ids": _ids(model), "tolerance": bundle.plan.tolerance or ROUNDING[4],
        "requires": {name: known[name] for name in sorted(used) if name in known},
    }  # fmt: skip


def _write_block(
    model: StagedModel, each: PlannedBlock, directory: Path, folder: Path, notes: list[str]
) -> dict[str, Any]:
    name = f"{MODELS}/block{each.block.name}"
    shutil.copyfile(variant_file(model, each.block, directory, each.variant), folder / f"{name}.onnx")
    runtime, device = _runtime(each.pus[0]) or "", each.pus[0].partition(":")[2].partition("@")[0].upper()
    reads = _reads(folder / f"{name}.onnx", each)
    if runtime == "openvino":
        reasons = write_ir([folder / f"{name}.onnx"])
        notes += [
            f"block {each.block.name} has no IR ({reason}); OpenVINO reads its ONNX" for reason in reasons.values()
        ]
    ir = f"{name}.xml" if (folder / f"{name}.xml").is_file() else ""
    return {
        "pus": list(each.pus), "stages": list(each.block.stages), "ratios": [1.0], "seconds": each.seconds,
        "runtime": runtime, "device": device, "onnx": f"{name}.onnx", "ir": ir, "reads": reads,
        "outputs": list(each.block.outputs), "variant": each.variant,
    }  # fmt: skip


def _reads(path: Path, each: PlannedBlock) -> list[str]:
    """The inputs that a block's file has: those of which only the shape matters may be gone."""
    import onnx

    found = {value.name for value in onnx.load(path, load_external_data=False).graph.input}
    return [name for name in each.block.inputs if name in found]


def _ids(model: StagedModel) -> dict[str, str]:
    """Inputs that number the rows of another one."""
    is_graph = tuple(model.sizes) == GRAPH and {"x", "edge_index"} <= set(model.inputs)
    return {"edge_index": "x"} if is_graph else {}


def _example(model: StagedModel, plan: ExecutionPlan) -> Arrays:
    """Inputs at the plan's size, if they and their results are small enough; else the model's own example."""
    if plan.sizes and set(plan.sizes) == set(model.sizes):
        names = (*model.inputs, *model.outputs)
        if sum(model.tensors[name].nbytes(plan.sizes) for name in names) <= MOST_EXAMPLE_NBYTES:
            return draw(model, plan.sizes)
    return dict(model.example) or draw(model, plan.sizes)


@contextmanager
def _new_directory(place: Path) -> Iterator[Path]:
    """A directory that is written beside its place and moved there when it is whole; a bundle there is replaced."""
    if place.exists() and not _is_replaceable(place):
        raise CannotWrite(f"{place} is there and is no bundle", hint="Name a new directory with -o.")
    folder: Path | None = None
    try:
        place.parent.mkdir(parents=True, exist_ok=True)
        folder = Path(tempfile.mkdtemp(prefix=f".{place.name}.", dir=place.parent))
        yield folder
        folder.chmod(0o755)
        if place.exists():
            shutil.rmtree(place)
        os.replace(folder, place)  # noqa: PTH105 - a directory, onto nothing
    except OSError as error:
        why = error.strerror or str(error)
        raise CannotWrite(f"cannot write {place}: {why}", hint="Choose another place with -o.") from error
    finally:
        if folder is not None and folder.exists():
            shutil.rmtree(folder, ignore_errors=True)


def _is_replaceable(place: Path) -> bool:
    return place.is_dir() and (not any(place.iterdir()) or ((place / FILE).is_file() and (place / RUN).is_file()))
