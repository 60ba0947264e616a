"""The reference: every tensor of a staged model as given, stage after stage, in torch or on the exported ONNX."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.ir.verdict import No
from codedag.stages.model import Arrays, BadInput, BadModel, Block, Stage, StagedModel
from codedag.stages.sizes import GRAPH, Sizes

F32_HINT = {"INFERENCE_PRECISION_HINT": "f32"}

Compute = Callable[[Sequence[Any]], Sequence[Any]]  # arrays of a stage's inputs -> arrays of its outputs


class Reference:
    """The stages of one model, ready to compute; kept, since a session of a runtime takes time to make."""

    def __init__(self, model: StagedModel) -> None:
        self._model = model
        self._computes: dict[int, Compute] = {}
        self.runtime = ""

    def tensors(self, inputs: Mapping[str, Any]) -> Arrays:
        """Every tensor by its name as a numpy array, inputs included."""
        self._model.sizes_of(inputs)
        known = {name: inputs[name] for name in self._model.inputs}
        for stage in self._model.stages:
            self._step(stage, known)
        return known

    def outputs(self, inputs: Mapping[str, Any]) -> Arrays:
        """The outputs alone; other tensors are dropped as soon as no stage reads them any more."""
        self._model.sizes_of(inputs)
        known = {name: inputs[name] for name in self._model.inputs}
        for stage in self._model.stages:
            self._step(stage, known)
            later = {name for each in self._model.stages[stage.number :] for name in each.inputs}
            known = {name: value for name, value in known.items() if name in later or name in self._model.outputs}
        return {name: known[name] for name in self._model.outputs}

    def _step(self, stage: Stage, known: Arrays) -> None:
        if stage.number not in self._computes:
            self._computes[stage.number] = self._compute(stage)
        made = self._computes[stage.number]([known[name] for name in stage.inputs])
        known.update(zip(stage.outputs, made, strict=True))

    def _compute(self, stage: Stage) -> Compute:
        module = self._model.programs.torch(alone(stage))
        made = No(module.reason) if isinstance(module, No) else in_torch(module)
        if isinstance(made, No):
            reason = made.reason
            for runtime, make in (("onnxruntime", in_onnxruntime), ("openvino", in_openvino)):
                made = make(self._model.programs.onnx(stage), stage)
                if not isinstance(made, No):
                    self.runtime = runtime
                    return made
                reason = f"{reason}; {made.reason}"
            raise BadModel(f"nothing here can compute stage {stage.number} `{stage.name}`: {reason}")
        self.runtime = "torch"
        return made


def alone(stage: Stage) -> Block:
    """A stage as a block that gives all of its tensors, also those that nothing reads."""
    return Block(stage.number, stage.number, stage.inputs, stage.outputs)


def in_torch(module: Any) -> Compute:
    """A stage computed by torch."""
    import torch

    def compute(arrays: Sequence[Any]) -> list[Any]:
        with torch.no_grad():
            return [numpy_of(each) for each in module(*(tensor_of(array) for array in arrays))]

    return compute


def tensor_of(array: Any) -> Any:
    """An array as a tensor that shares its memory where it can; read-only arrays are copied."""
    import numpy as np
    import torch

    if isinstance(array, torch.Tensor):
        return array
    return torch.from_numpy(array if array.flags.writeable and array.flags.c_contiguous else np.array(array))


def numpy_of(tensor: Any) -> Any:
    """A tensor as an array."""
    return tensor.detach().cpu().numpy()


def in_onnxruntime(proto: Any, stage: Stage) -> Compute | No:
    """A stage computed by ONNX Runtime on the CPU."""
    try:
        import onnxruntime
    except ImportError as error:
        return No(f"onnxruntime: {error}")
    options = onnxruntime.SessionOptions()
    options.log_severity_level = 3
    options.add_session_config_entry("session.intra_op.allow_spinning", "0")
    providers = ["CPUExecutionProvider"]
    session = attempt(onnxruntime.InferenceSession, proto.SerializeToString(), options, providers=providers)
    if isinstance(session, Failed):
        return No(f"onnxruntime: {session.reason}")
    read = {each.name for each in session.get_inputs()}

    def compute(arrays: Sequence[Any]) -> list[Any]:
        feeds = {name: array for name, array in zip(stage.inputs, arrays, strict=True) if name in read}
        made: list[Any] = session.run(list(stage.outputs), feeds)
        return made

    return compute


def in_openvino(proto: Any, stage: Stage) -> Compute | No:
    """A stage computed by OpenVINO on the CPU."""
    try:
        import openvino
    except ImportError as error:
        return No(f"openvino: {error}")
    core = openvino.Core()
    found = attempt(core.read_model, proto.SerializeToString())
    compiled = found if isinstance(found, Failed) else attempt(core.compile_model, found, "CPU", F32_HINT)
    if isinstance(compiled, Failed):
        return No(f"openvino: {compiled.reason.strip()}")
    read = {name for port in compiled.inputs for name in port.get_names()}

    def compute(arrays: Sequence[Any]) -> list[Any]:
        feeds = {name: array for name, array in zip(stage.inputs, arrays, strict=True) if name in read}
        made = compiled(feeds)
        return [made[compiled.output(name)].copy() for name in stage.outputs]

    return compute


def exact_tensors(model: StagedModel, inputs: Mapping[str, Any]) -> Arrays | No:
    """Every tensor by its name, computed in float64; a No where the model has no such form."""
    model.sizes_of(inputs)
    known: Arrays = {name: wide(inputs[name]) for name in model.inputs}
    for stage in model.stages:
        made = _exact(model, stage)([known[name] for name in stage.inputs])
        if isinstance(made, No):
            return made
        known.update(zip(stage.outputs, made, strict=True))
    return known


def _exact(model: StagedModel, stage: Stage) -> Callable[[Sequence[Any]], Any]:
    """A stage in float64: by torch, else by ONNX's own evaluator."""
    make = getattr(model.programs, "exact", None)
    module = make(alone(stage)) if make is not None else No("it came from an ONNX file")
    if not isinstance(module, No):
        return in_torch(module)
    from codedag.stages.onnx_models.onnx_exact import exact_stage

    return exact_stage(model.programs.onnx(stage), stage)


def wide(array: Any) -> Any:
    """An array of floats in float64; others as they are."""
    import numpy as np

    return np.asarray(array, np.float64) if array.dtype.kind == "f" else array


def called(model: StagedModel, args: Sequence[Any], keywords: Mapping[str, Any]) -> Any:
    """What the model itself would return: torch tensors for torch tensors, one output not as a tuple."""
    bind = getattr(model.programs, "arguments", None)
    given = bind(args, keywords) if bind else arguments(model, args, keywords)
    in_numpy = all(not hasattr(value, "detach") for value in given.values())
    made = model.reference.outputs({name: _array(value) for name, value in given.items()})
    if not in_numpy:
        made = {name: tensor_of(value) for name, value in made.items()}
    nest = getattr(model.programs, "result", None)
    results = tuple(made[name] for name in model.outputs)
    return nest(made) if nest else results[0] if len(results) == 1 else results


def _array(value: Any) -> Any:
    return numpy_of(value) if hasattr(value, "detach") else value


def arguments(model: StagedModel, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
    """The inputs by name, as a function with these parameters would bind them; raises BadInput."""
    if len(args) > len(model.inputs):
        raise BadInput(f"`{model.name}` takes {len(model.inputs)} inputs, not {len(args)}")
    given = dict(zip(model.inputs, args, strict=False))
    for name, value in keywords.items():
        if name not in model.inputs or name in given:
            raise BadInput(
                f"`{model.name}` does not take an input `{name}` here", hint=f"It takes {', '.join(model.inputs)}."
            )
        given[name] = value
    return given


# -- inputs of any size


def draw(model: StagedModel, sizes: Sizes, seed: int = 0) -> Arrays:
    """Inputs of these sizes: normal features and uniform edges for graphs, else drawn after the example."""
    import numpy as np

    random = np.random.default_rng(seed)
    missing = [name for name in model.sizes if name not in sizes]
    if missing:
        raise BadInput(f"`{model.name}` needs the size `{missing[0]}`", hint=f"Its sizes are {', '.join(model.sizes)}.")
    return {name: _drawn(model, name, sizes, random) for name in model.inputs}


def _drawn(model: StagedModel, name: str, sizes: Sizes, random: Any) -> Any:
    import numpy as np

    tensor = model.tensors[name]
    shape = tensor.at(sizes)
    if tuple(model.sizes) == GRAPH and tensor.dtype == "int64":
        return random.integers(0, max(sizes["nodes"], 1), shape)
    if tuple(model.sizes) == GRAPH and tensor.dtype == "float32":
        return random.standard_normal(shape, dtype=np.float32)
    return _like(model.example.get(name), np.dtype(tensor.dtype), shape, random)


def _like(example: Any, dtype: Any, shape: tuple[int, ...], random: Any) -> Any:
    """An array like the example's: floats with its mean and spread, others repeated or cropped."""
    import numpy as np

    if dtype.kind == "f":
        mean, spread = _spread(example)
        return (random.standard_normal(shape) * spread + mean).astype(dtype)
    if example is None or not example.size:
        return np.zeros(shape, dtype)
    for axis, wanted in enumerate(shape):
        example = np.take(example, np.arange(wanted) % max(example.shape[axis], 1), axis=axis)
    return np.ascontiguousarray(example, dtype)


def _spread(example: Any) -> tuple[float, float]:
    import numpy as np

    if example is None or not np.isfinite(example).any():
        return 0.0, 1.0
    finite = example[np.isfinite(example)].astype(np.float64)
    return float(finite.mean()), float(finite.std()) if finite.size > 1 else 1.0
