"""Export of staged models: one dynamic ONNX file per stage, OpenVINO IR, weights and stages.json, kept by digest."""

from __future__ import annotations

import hashlib
import importlib.util
import json
import re
import subprocess
import sys
from collections.abc import Mapping, Sequence
from dataclasses import asdict, replace
from functools import cached_property
from pathlib import Path
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.ir.errors import BadFile, CodedagError
from codedag.ir.files import write_atomically
from codedag.ir.verdict import No
from codedag.stages.model import Arrays, BadModel, Block, Source, Stage, StagedModel, Tensor, need
from codedag.stages.npz import npz_bytes, read_npz
from codedag.stages.onnx_models.onnx_graphs import block_model

FORMAT, VERSION = "codedag/stages", 1
FOLDER, INDEX, WEIGHTS, EXAMPLE = "exported_models", "stages.json", "weights.npz", "example.npz"
FOLDING = "folding.json"  # beside the blocks: what was folded in each
#: Above this a protobuf message cannot be one file.
LARGEST_NBYTES = 2_000_000_000
IR_SECONDS = 120


def export(model: StagedModel, directory: str | Path) -> Path:
    """Writes the stages of a model, its weights and stages.json; the path of the latter.

    What is there already from the same model is kept: nothing is exported again.
    """
    place = Path(directory)
    digest = digest_of(model)
    kept = _kept(place, digest)
    written = None if kept else _write_stages(model, place)
    facts = {**facts_of(model), "digest": digest, **(written or {"files": kept["files"], "no_ir": kept["no_ir"]})}
    content = json.dumps(facts, indent=1)
    if json.loads(content) != kept:
        write_atomically(place / INDEX, content.encode() + b"\n")
    return place / INDEX


def digest_of(model: StagedModel) -> str:
    """What a model computes and how its stages are cut, in one number; not where it came from."""
    if isinstance(model.programs, ExportedPrograms):
        return model.programs.digest
    facts = {name: value for name, value in facts_of(model).items() if name != "source"}
    whole = hashlib.sha256(json.dumps(facts, sort_keys=True).encode())
    whole.update(str(model.programs.digest).encode())
    whole.update(b"ir" if importlib.util.find_spec("openvino") else b"")
    return whole.hexdigest()


def facts_of(model: StagedModel) -> dict[str, Any]:
    """The model as stages.json has it, without digests."""
    tensors = {name: {"dtype": each.dtype, "shape": list(each.shape)} for name, each in model.tensors.items()}
    stages = [{**asdict(stage), "onnx": f"{FOLDER}/{file_name(stage)}"} for stage in model.stages]
    return {
        "format": FORMAT, "version": VERSION, "name": model.name, "sizes": list(model.sizes),
        "inputs": list(model.inputs), "outputs": list(model.outputs), "tensors": tensors, "stages": stages,
        "source": asdict(model.source), "notes": list(model.notes),
    }  # fmt: skip


def file_name(stage: Stage) -> str:
    """`stage1_GATHER.onnx`; signs that a file system may not take become `_`."""
    return f"stage{stage.number}_{re.sub(r'[^A-Za-z0-9._-]', '_', stage.name)[:60]}.onnx"


def _write_stages(model: StagedModel, place: Path) -> dict[str, Any]:
    """Writes the files of the stages; their digests by path, and why some have no IR."""
    files: dict[str, str] = {}
    for stage in model.stages:
        path = f"{FOLDER}/{file_name(stage)}"
        content = serialized(need(model.programs.onnx(stage)), f"stage {stage.number} `{stage.name}`")
        files[path] = _keep(place / path, content)
    no_ir = write_ir([place / path for path in files])
    for path in [*files]:
        for suffix in (".xml", ".bin"):
            other = Path(path).with_suffix(suffix).as_posix()
            if Path(path).name not in no_ir and (digest := _digest(place / other)):
                files[other] = digest
    files[f"{FOLDER}/{WEIGHTS}"] = _keep(place / FOLDER / WEIGHTS, npz_bytes(model.programs.weights()))
    files[f"{FOLDER}/{EXAMPLE}"] = _keep(place / FOLDER / EXAMPLE, npz_bytes(model.example))
    return {"files": files, "no_ir": {f"{FOLDER}/{name}": reason for name, reason in no_ir.items()}}


def serialized(proto: Any, what: str) -> bytes:
    """A model as the bytes of its file; the same model gives the same bytes."""
    size = proto.ByteSize()
    if size > LARGEST_NBYTES:
        raise BadModel(f"{what} has {size / 1e9:.1f} GB of weights; an ONNX file of one piece ends at 2 GB",
                       hint="Cut the model into more stages.")  # fmt: skip
    made: bytes = proto.SerializeToString(deterministic=True)
    return made


def write_ir(paths: Sequence[Path]) -> dict[str, str]:
    """Writes OpenVINO's IR next to ONNX files; the reasons by file name where that could not be.

    A process of its own does it: a library that cannot be loaded costs the IR and nothing else.
    """
    if importlib.util.find_spec("openvino") is None:
        return {path.name: "openvino is not installed" for path in paths}
    command = [sys.executable, "-m", "codedag.stages.onnx_models.openvino_ir", *map(str, paths)]
    try:
        done = subprocess.run(command, capture_output=True, timeout=IR_SECONDS, text=True, check=False)
        found: dict[str, str] = json.loads(done.stdout.splitlines()[-1])
    except subprocess.TimeoutExpired:
        return {path.name: f"openvino gave no answer in {IR_SECONDS} s" for path in paths}
    except (ValueError, IndexError):
        last = (done.stderr.strip().splitlines() or [f"it ended with {done.returncode}"])[-1]
        return {path.name: f"openvino failed: {last}" for path in paths}
    return found


def _keep(path: Path, content: bytes) -> str:
    """Writes a file unless it has this content already; its digest."""
    digest = hashlib.sha256(content).hexdigest()
    if _digest(path) != digest:
        write_atomically(path, content)
    return digest


def _digest(path: Path) -> str:
    try:
        return hashlib.sha256(path.read_bytes()).hexdigest()
    except OSError:
        return ""


def _kept(place: Path, digest: str) -> dict[str, Any]:
    """The content of stages.json if this very model was exported here and its files are as they were written."""
    found = attempt(read_index, place)
    if isinstance(found, Failed) or found.get("digest") != digest or "no_ir" not in found:
        return {}
    is_whole = all(_digest(place / path) == each for path, each in found["files"].items())
    return found if is_whole else {}


def block_file(model: StagedModel, block: Block, directory: str | Path) -> Path:
    """The ONNX file of a block below DIR/exported_models: a stage's own, or one that is made of its stages."""
    folder = Path(directory) / FOLDER
    if block.first == block.last:
        return folder / file_name(model.stage(block.first))
    path = folder / f"block{block.name}.onnx"
    protos = [need(model.programs.onnx(model.stage(number))) for number in block.stages]
    _keep_folded(model, block, block_model(block, protos, model.tensors), path)
    return path


def _keep_folded(model: StagedModel, block: Block, proto: Any, path: Path) -> None:
    """Writes a block with its linear operators folded, and to folding.json what was; the same one is written once."""
    from codedag.stages.onnx_models.folding import folded_block

    index = path.parent / FOLDING
    found = attempt(lambda: json.loads(index.read_bytes()))
    known: dict[str, Any] = found if isinstance(found, dict) else {}
    source = hashlib.sha256(serialized(proto, f"block {block.name}")).hexdigest()
    was = known.get(block.name, {})
    if was.get("source") == source and was.get("digest") == _digest(path):
        return
    made = folded_block(model, block, proto)
    digest = _keep(path, serialized(made.proto, f"block {block.name}"))
    known[block.name] = {"source": source, "digest": digest, "folded": made.what, "reason": made.reason}
    write_atomically(index, json.dumps(known, indent=1).encode())


def packed(model: StagedModel, block: Block) -> bytes | No:
    """The block's torch program as bytes for another process, never a file; a No where there is none."""
    programs = model.programs
    if isinstance(programs, ExportedPrograms):
        programs = programs.original
    if isinstance(programs, No):
        return programs
    pack = getattr(programs, "packed", None)
    if pack is None:
        return No("the model has no form that torch can run (it came from an ONNX file)")
    made: bytes = pack(block)
    return made


# -- reading


def load(directory: str | Path) -> StagedModel:
    """The model that was exported to a directory; its programs read the ONNX files there."""
    example = Path(directory) / FOLDER / EXAMPLE
    return replace(structure(directory), example=read_npz(example) if example.exists() else {})


def structure(directory: str | Path) -> StagedModel:
    """The model that was exported to a directory, without its example; only stages.json is read."""
    place = Path(directory)
    facts = read_index(place)
    try:
        tensors = {name: Tensor(name, each["dtype"], tuple(each["shape"])) for name, each in facts["tensors"].items()}
        stages = tuple(_stage(each) for each in facts["stages"])
        files = {each["number"]: place / each["onnx"] for each in facts["stages"]}
        source = Source(**{**facts["source"], "cuts": tuple(facts["source"]["cuts"])})
        return StagedModel(
            facts["name"], stages, tensors, tuple(facts["inputs"]), tuple(facts["outputs"]), tuple(facts["sizes"]),
            ExportedPrograms(place, files, source, facts["digest"]), {}, source, tuple(facts.get("notes", ())),
        )  # fmt: skip
    except (KeyError, TypeError) as error:
        raise BadFile(f"{place / INDEX}: field {error} is missing or wrong", hint="Export the model again.") from None


def _stage(facts: Mapping[str, Any]) -> Stage:
    return Stage(
        facts["number"], facts["name"], tuple(facts["inputs"]), tuple(facts["outputs"]), facts["flop"], facts["kind"]
    )


def read_index(place: Path) -> dict[str, Any]:
    """The content of stages.json; raises BadFile naming the file."""
    path = place / INDEX
    try:
        found = json.loads(path.read_bytes())
    except FileNotFoundError:
        raise BadFile(f"there is no {path}", hint=f"`codedag stages profile MODEL -o {place}` writes it.") from None
    except (OSError, ValueError) as error:
        raise BadFile(f"{path} cannot be read: {error}") from None
    if not isinstance(found, dict) or found.get("format") != FORMAT:
        raise BadFile(f"{path} is no {FORMAT} file")
    if found.get("version") != VERSION:
        raise BadFile(f"{path} has version {found.get('version')}; this program reads {VERSION}")
    return found


class ExportedPrograms:
    """The stages as the files of a directory have them; torch's form is made again from the model's source."""

    def __init__(self, place: Path, files: Mapping[int, Path], source: Source, digest: str) -> None:
        self._place, self._files, self._source, self._digest_of_model = place, files, source, digest
        self._protos: dict[int, Any] = {}

    @property
    def digest(self) -> str:
        """The digest of the model that was exported."""
        return self._digest_of_model

    def onnx(self, stage: Stage) -> Any:
        """The stage's ONNX model."""
        if stage.number not in self._protos:
            self._protos[stage.number] = self._read(stage)
        return self._protos[stage.number]

    def _read(self, stage: Stage) -> Any:
        import onnx

        path = self._files[stage.number]
        made = attempt(onnx.load, path)
        if isinstance(made, Failed):
            raise BadFile(f"{path} cannot be read: {made.reason}", hint="Export the model again.")
        return made

    def torch(self, block: Block) -> Any:
        """The block as a torch module, or a No with the reason."""
        original = self.original
        return original if isinstance(original, No) else original.torch(block)

    def exact(self, block: Block) -> Any:
        """The block in float64, or a No."""
        original = self.original
        if isinstance(original, No):
            return original
        return original.exact(block) if hasattr(original, "exact") else No("there is no form in float64")

    def weights(self) -> Arrays:
        """The weights by name."""
        return read_npz(self._place / FOLDER / WEIGHTS)

    @cached_property
    def original(self) -> Any:
        """The programs of the model made again from its source, or a No with the reason why not."""
        if not self._source.model:
            return No("the model was made by a program, so only its ONNX files are there")
        try:
            model = _again(self._source, self._place)
        except (CodedagError, ImportError) as error:
            return No(f"`{self._source.model}` could not be made again: {error}")
        if digest_of(model) != self._digest_of_model:
            return No(f"`{self._source.model}` has changed since it was exported to {self._place}")
        return model.programs


def _again(source: Source, place: Path) -> StagedModel:
    from codedag.stages.sources import SAGE, model_of

    weights = str(place / FOLDER / WEIGHTS) if source.model == SAGE else source.weights  # they say its layers too
    return model_of(source.model, stages=source.stages, cuts=source.cuts, weights=weights)
