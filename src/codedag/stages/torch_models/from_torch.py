"""Staged models of torch modules: a list of modules as it is, or one module cut where its graph is narrow."""

from __future__ import annotations

import inspect
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any

import torch
from torch.utils import _pytree as pytree

from codedag.stages.model import Arrays, BadInput, BadModel, Source, Stage, StagedModel, Tensor
from codedag.stages.sizes import Dim, symbols_of
from codedag.stages.torch_models.torch_cuts import GraphCutter
from codedag.stages.torch_models.torch_graph import FIXED, Name, Whole, shape_of, whole
from codedag.stages.torch_models.torch_programs import Part, TorchPrograms, as_tuple, dtype_name, quiet
from codedag.stages.torch_models.torch_symbols import flop_of, is_open

Dynamic = Mapping[str, Mapping[int, str]]
#: Relative difference up to which another order of the same sums is the explanation.
ROUNDING = 1e-4


def from_modules(
    modules: Sequence[Any],
    example: Any,
    *,
    names: Sequence[str] | None = None,
    dynamic: Dynamic | None = None,
    name: str = "",
    source: Source | None = None,
) -> StagedModel:
    """The model whose stages are these modules.

    Modules run one after the other, each on the tensors that the one before it gave; entries that are `Part`s say
    themselves which tensors they read and make. `example` is one tensor, a tuple, or a dict by input name; `names` are
    those of the stages; `dynamic` names the sizes that stay open, {"x": {0: "batch"}} (by default the first dimension
    of every input is `batch`, where torch.export takes that).
    """
    arrays = example_of(modules[0], example) if modules else {}
    if not arrays:
        raise BadModel("there are no modules" if not modules else "there is no example input")
    parts = as_parts(modules, arrays, names)
    for part in parts:
        check_eval(part.module, part.name)
    if dynamic is None:
        return _by_batch(parts, arrays, name, source)
    return built(parts, arrays, dynamic, name, source)


def _by_batch(parts: list[Part], arrays: Arrays, name: str, source: Source | None) -> StagedModel:
    """The model with an open batch; with fixed sizes if its inputs or modules do not take one."""
    dynamic = batch_of(arrays)
    if dynamic:
        try:
            return built(parts, arrays, dynamic, name, source)
        except BadModel:
            pass  # if the modules themselves are the reason, they fail again with fixed sizes
    return replace(built(parts, arrays, {}, name, source), notes=(FIXED,))


def batch_of(arrays: Arrays) -> Dynamic:
    """The first dimension of every input, if they have one in common that is no 0 or 1."""
    firsts = {value.shape[0] for value in arrays.values() if value.ndim}
    if len(firsts) != 1 or min(firsts) < 2:
        return {}
    return {name: {0: "batch"} for name, value in arrays.items() if value.ndim}


def built(parts: Sequence[Part], arrays: Arrays, dynamic: Dynamic, name: str, source: Source | None) -> StagedModel:
    """The staged model of parts, each one exported."""
    inputs = [input_tensor(each, value, dynamic.get(each, {})) for each, value in arrays.items()]
    programs = TorchPrograms(parts, inputs, arrays)
    stages = numbered(parts, programs.describe())
    sizes = dict.fromkeys(symbol for each in dynamic.values() for symbol in each.values())
    example = {each: value.numpy() for each, value in arrays.items()}
    return StagedModel(
        name or "modules", stages, programs.tensors, tuple(arrays), unread(parts), tuple(sizes), programs, example,
        source or Source(""),
    )  # fmt: skip


def numbered(parts: Sequence[Part], flops: Sequence[Dim]) -> tuple[Stage, ...]:
    """The parts as stages, numbered from 1."""
    return tuple(
        Stage(at, part.name, part.inputs, part.outputs, flop, part.kind)
        for at, (part, flop) in enumerate(zip(parts, flops, strict=True), 1)
    )


def unread(parts: Sequence[Part]) -> tuple[str, ...]:
    """The tensors that no part reads: the outputs of the model."""
    read = {name for part in parts for name in part.inputs}
    return tuple(name for part in parts for name in part.outputs if name not in read)


def input_tensor(name: str, value: Any, dynamic: Mapping[int, str]) -> Tensor:
    """The input with its open sizes."""
    wrong = [size for size in dynamic.values() if symbols_of(size) != {size}]
    if wrong:
        raise BadModel(f"`{wrong[0]}` is no name of a size (input `{name}`)")
    if any(axis not in range(value.ndim) for axis in dynamic):
        raise BadModel(f"input `{name}` has {value.ndim} dimensions; an open size is named for another one")
    shape = tuple(dynamic.get(axis, int(dim)) for axis, dim in enumerate(value.shape))
    return Tensor(name, dtype_name(value.dtype), shape)


# -- one module


def from_module(
    module: Any,
    example: Any,
    stages: int | None = None,
    cuts: Sequence[str] = (),
    dynamic: Dynamic | None = None,
    *,
    name: str = "",
    source: Source | None = None,
) -> StagedModel:
    """A module cut into stages, at named tensors or layers, else where its graph is narrow and its work even.

    `example` is one tensor, a tuple of arguments, or a dict of keyword arguments. The first dimension of the inputs
    stays open as `batch` where torch.export takes that; `dynamic` names others, {"x": {0: "batch", 2: "width"}}.
    """
    check_eval(module, type(module).__name__)
    args, keywords = given_arguments(example)
    wide_args, wide_keywords = (args, keywords) if dynamic else widened(args, keywords)
    graph = whole(module, wide_args, wide_keywords, _axes(module, wide_args, wide_keywords, dynamic))
    graph.symbols.update(_named_symbols(graph, dynamic or {}))
    model = _staged(graph, stages, cuts, name or type(module).__name__, source)
    model.example.update(_example_arrays(model, args, keywords))
    notes = (*graph.notes, *check_bits(module, model, args, keywords))
    return replace(model, notes=notes)


def _staged(graph: Whole, stages: int | None, cuts: Sequence[str], name: str, source: Source | None) -> StagedModel:
    cutter = GraphCutter(graph)
    parts = cutter.parts(stages, cuts)
    tensors = {
        cutter.title(node): Tensor(cutter.title(node), dtype_name(value.dtype), shape_of(value, graph.symbols))
        for node in graph.module.graph.nodes
        if isinstance(value := node.meta.get("val"), torch.Tensor) and node.op != "get_attr"
    }
    crossing = {*graph.inputs, *(each for part in parts for each in part.outputs)}
    tensors = {each: tensor for each, tensor in tensors.items() if each in crossing}
    programs = ModulePrograms(parts, [*tensors.values()], graph.inputs, graph)
    sizes = [size for size in graph.symbols.values() if any(size in tensors[each].shape for each in graph.inputs)]
    outputs = tuple(dict.fromkeys(str(leaf) for leaf in graph.leaves if isinstance(leaf, Name)))
    flops = [flop_of(part.module, graph.symbols) for part in parts]
    return StagedModel(
        name, numbered(parts, flops), tensors, tuple(graph.inputs), outputs, tuple(map(str, sizes)), programs, {},
        source or Source(""),
    )  # fmt: skip


class ModulePrograms(TorchPrograms):
    """The stages of one module, which also know how its arguments and results are nested."""

    def __init__(self, parts: Sequence[Part], tensors: Sequence[Tensor], example: Arrays, graph: Whole) -> None:
        super().__init__(parts, tensors, example)
        self._graph = graph

    def arguments(self, args: Sequence[Any], keywords: Mapping[str, Any]) -> dict[str, Any]:
        """The tensors by input name of a call of the module; raises BadInput if it is nested otherwise."""
        leaves, spec = pytree.tree_flatten((tuple(args), dict(keywords)))
        if spec != self._graph.in_spec:
            raise BadInput("the call's arguments are nested otherwise than those of the example")
        for at, constant in self._graph.constants.items():
            if leaves[at] is not constant and leaves[at] != constant:
                raise BadInput(f"argument {at} is {leaves[at]!r}; the model was made for {constant!r}")
        return dict(zip(self._graph.inputs, (leaf for leaf in leaves if hasattr(leaf, "shape")), strict=True))

    def result(self, outputs: Mapping[str, Any]) -> Any:
        """The outputs as the module itself nests them."""
        leaves = [outputs[leaf] if isinstance(leaf, Name) else leaf for leaf in self._graph.leaves]
        return pytree.tree_unflatten(leaves, self._graph.out_spec)


def given_arguments(example: Any) -> tuple[tuple[Any, ...], dict[str, Any]]:
    """The example as positional and keyword arguments of tensors."""
    if isinstance(example, Mapping):
        return (), {str(key): _tensors(value) for key, value in example.items()}
    return tuple(_tensors(value) for value in as_tuple(example)), {}


def _tensors(value: Any) -> Any:
    import numpy as np

    return pytree.tree_map(lambda leaf: as_tensor(leaf, "example") if isinstance(leaf, np.ndarray) else leaf, value)


def widened(args: Any, keywords: Any) -> tuple[Any, Any]:
    """The example with a batch of 2 instead of 1: torch.export keeps no size of 1 open."""
    tensors = [leaf for leaf in pytree.tree_leaves((args, keywords)) if isinstance(leaf, torch.Tensor)]
    if any(not each.ndim or each.shape[0] != 1 for each in tensors):
        return args, keywords
    made = pytree.tree_map_only(torch.Tensor, lambda each: torch.cat([each, each]), (args, keywords))
    return made[0], made[1]


def _axes(module: Any, args: Any, keywords: Any, dynamic: Dynamic | None) -> dict[int, Any] | None:
    """The open axes by the identity of their tensor; None if nothing is said."""
    if dynamic is None:
        return None
    named = {**example_of(module, args), **keywords} if args else dict(keywords)
    unknown = [name for name in dynamic if name not in named]
    if unknown:
        raise BadModel(f"there is no input `{unknown[0]}` whose size could stay open")
    own = {**dict(zip(named, args, strict=False)), **keywords}
    return {id(own[name]): dict.fromkeys(axes, torch.export.Dim.AUTO) for name, axes in dynamic.items()}


def _named_symbols(graph: Whole, dynamic: Dynamic) -> dict[str, Dim]:
    """The user's names of the sizes."""
    holders = {str(node.target): node for node in graph.module.graph.nodes if node.op == "placeholder"}
    found: dict[str, Dim] = {}
    for name, axes in dynamic.items():
        for axis, size in axes.items():
            dim = holders[name].meta["val"].shape[axis]
            if not is_open(dim):
                raise BadModel(f"input `{name}` only works with {dim} at axis {axis}, so `{size}` cannot stay open")
            found[str(dim.node.expr)] = size
    return found


def _example_arrays(model: StagedModel, args: Any, keywords: Any) -> Arrays:
    given = model.programs.arguments(args, keywords)  # type: ignore[attr-defined]
    return {name: value.detach().cpu().numpy() for name, value in given.items()}


def check_bits(module: Any, model: StagedModel, args: Any, keywords: Any) -> tuple[str, ...]:
    """Compares stage after stage with the module itself on the example; what is to be told, BadModel if they differ."""
    own = _leaves(module, args, keywords)
    if not all(_same(first, second) for first, second in zip(own, _leaves(module, args, keywords), strict=True)):
        raise BadModel("the module gives different results for the same input")
    given = model.programs.arguments(args, keywords)  # type: ignore[attr-defined]
    made = model.reference.outputs({name: value.detach().numpy() for name, value in given.items()})
    staged = [leaf for leaf in pytree.tree_leaves(_result(model, made)) if isinstance(leaf, torch.Tensor)]
    if all(_same(first, second) for first, second in zip(own, staged, strict=True)):
        return ()
    return _explained(module, own, staged, args, keywords)


def _explained(module: Any, own: list[Any], staged: list[Any], args: Any, keywords: Any) -> tuple[str, ...]:
    fast = torch.backends.mha.get_fastpath_enabled()
    torch.backends.mha.set_fastpath_enabled(False)
    try:
        plain = _leaves(module, args, keywords)
    finally:
        torch.backends.mha.set_fastpath_enabled(fast)
    if all(_same(first, second) for first, second in zip(plain, staged, strict=True)):
        return ("bits are those of the module with torch.backends.mha's fused path off, which cannot be exported",)
    worst = max(_difference(first, second) for first, second in zip(staged, own, strict=True))
    if not worst <= ROUNDING:
        raise BadModel(f"stage after stage differs from the module by {worst:.2g} of its largest value on the example")
    return (f"stage after stage differs from the module by rounding ({worst:.1g} of its largest value)",)


def _result(model: StagedModel, made: Arrays) -> Any:
    tensors = {name: torch.from_numpy(value) for name, value in made.items()}
    return model.programs.result(tensors)  # type: ignore[attr-defined]


def _leaves(module: Any, args: Any, keywords: Any) -> list[Any]:
    with torch.no_grad(), quiet():
        result = module(*args, **keywords)
    return [leaf for leaf in pytree.tree_leaves(result) if isinstance(leaf, torch.Tensor)]


def _same(first: Any, second: Any) -> bool:
    """Whether two tensors have the same bits; any NaN is like any other."""
    if first.shape != second.shape or first.dtype != second.dtype:
        return False
    return bool(((first == second) | ((first != first) & (second != second))).all())


def _difference(first: Any, second: Any) -> float:
    """The largest difference, as a part of the largest value."""
    if not first.numel():
        return 0.0
    one, other = first.double(), second.double()
    return float((one - other).abs().max() / other.abs().max().clamp(min=1e-30))


# -- entries and examples


def example_of(module: Any, example: Any) -> Arrays:
    """The example's tensors by the name of the input."""
    if isinstance(example, Mapping):
        return {str(name): as_tensor(value, str(name)) for name, value in example.items()}
    values = as_tuple(example)
    names = _parameters(module)
    if len(names) < len(values):
        names = [f"input{at}" for at in range(len(values))]
    return {name: as_tensor(value, name) for name, value in zip(names, values, strict=False)}


def _parameters(module: Any) -> list[str]:
    forward = getattr(getattr(module, "module", module), "forward", None)
    if forward is None:
        return []
    kinds = (inspect.Parameter.POSITIONAL_ONLY, inspect.Parameter.POSITIONAL_OR_KEYWORD)
    return [name for name, each in inspect.signature(forward).parameters.items() if each.kind in kinds]


def as_tensor(value: Any, name: str) -> Any:
    """A value of the example as a tensor on the CPU."""
    import numpy as np

    if isinstance(value, torch.Tensor):
        return value.detach().cpu()
    if isinstance(value, np.ndarray) and value.dtype.kind in "fiub":
        return torch.from_numpy(np.ascontiguousarray(value))
    raise BadModel(f"the example's `{name}` is a {type(value).__name__}, not a tensor")


def as_parts(modules: Sequence[Any], arrays: Arrays, names: Sequence[str] | None) -> list[Part]:
    """The entries as parts; plain modules are chained."""
    if all(isinstance(each, Part) for each in modules):
        return list(modules)
    titles = _titles(modules, names)
    parts: list[Part] = []
    tensors: tuple[Any, ...] = tuple(arrays.values())
    read = tuple(arrays)
    for at, (module, title) in enumerate(zip(modules, titles, strict=True)):
        check_eval(module, title)
        with torch.no_grad(), quiet():
            tensors = as_tuple(module(*tensors))
        stem = "out" if at == len(modules) - 1 else f"h{at + 1}"
        made = (stem,) if len(tensors) == 1 else tuple(f"{stem}.{place}" for place in range(len(tensors)))
        parts.append(Part(title, module, read, made, prefix=f"{at}."))
        read = made
    return parts


def _titles(modules: Sequence[Any], names: Sequence[str] | None) -> list[str]:
    if names is not None and len(names) != len(modules):
        raise BadModel(f"there are {len(modules)} modules and {len(names)} names")
    titles = list(names or [type(module).__name__ for module in modules])
    twice = {title for title in titles if titles.count(title) > 1}
    return [f"{title}_{at}" if title in twice else title for at, title in enumerate(titles, 1)]


def check_eval(module: Any, what: str) -> None:
    """Raises BadModel for what is no module, or one in training mode."""
    if not isinstance(module, torch.nn.Module):
        raise BadModel(f"`{what}` is a {type(module).__name__}, not a torch.nn.Module")
    behaves = (torch.nn.modules.dropout._DropoutNd, torch.nn.modules.batchnorm._NormBase, torch.nn.RNNBase)
    for name, each in module.named_modules():
        if each.training and (isinstance(each, behaves) or each is module):
            named = f"the layer `{name}` of `{what}`" if name else f"`{what}`"
            raise BadModel(f"{named} is in training mode", hint="Call module.eval() before it is cut.")
