"""Definitions that another compiler reads: numba, torch.compile, AutoGraph must find the code as it was written.

A compiler is known by the name of its decorator, or by what it is called on.  What such a definition calls is read by
the same compiler, so everything of that name is left alone too, in this file and in those that are loaded later.
"""

from __future__ import annotations

import ast
from collections.abc import Collection
from dataclasses import dataclass, field

#: Decorators whose functions another compiler reads as source or byte code.
DECORATORS = frozenset({
    "jit", "njit", "vectorize", "guvectorize", "stencil", "overload", "script", "script_method", "cfunc", "kernel",
    "compile", "autotune",
})  # fmt: skip
#: Functions that compile what they are called on, and those that do so only as part of torch.
CALLED = DECORATORS - {"overload", "kernel", "autotune"} | {"trace"}
#: What AutoGraph converts, in files that import TensorFlow: decorators and functions, and methods of tf.data.
_OF_TENSORFLOW = frozenset({"function", "to_graph", "to_code", "do_not_convert", "recompute_grad", "custom_gradient"})
_OF_DATASET = frozenset({
    "map", "filter", "flat_map", "interleave", "reduce", "scan", "take_while", "group_by_window",
    "bucket_by_sequence_length", "rejection_resample",
})  # fmt: skip
_DATASET_KEYWORDS = frozenset({"num_parallel_calls", "deterministic", "cycle_length", "block_length", "map_func"})
_OF_TORCH = frozenset({"compile", "trace", "script", "optimize", "export", "script_if_tracing"})
_TORCH = frozenset({"torch", "jit", "_dynamo", "dynamo"})
Definition = ast.FunctionDef | ast.AsyncFunctionDef | ast.ClassDef


@dataclass(slots=True)
class Compiled:
    """What is known, over all files of a program, about definitions that must be left alone."""

    names: set[str] = field(default_factory=set)
    modules: bool = False  # whole torch modules are compiled somewhere: `torch.compile(model)`

    def copy(self) -> Compiled:
        """The same, as it is now."""
        return Compiled(set(self.names), self.modules)

    def learn(self, names: Collection[str], modules: bool) -> None:
        """Adds what another file is known to say."""
        self.names.update(names)
        self.modules = self.modules or modules

    def mark(self, tree: ast.Module) -> None:
        """Marks as `cd_left` every definition and lambda of a module that another compiler reads."""
        calls: list[ast.Call] = []
        ours: set[str] = set()  # what the module calls CodeDAG and its functions: our `trace(f)` compiles nothing
        tensorflow: set[str] = set()  # what it calls TensorFlow
        for node in ast.walk(tree):
            if isinstance(node, ast.Call):
                calls.append(node)
            elif isinstance(node, ast.Import | ast.ImportFrom):
                ours.update(_names_of(node, "codedag"))
                tensorflow.update(_names_of(node, "tensorflow"))
        for call in calls:
            if _base(call.func) not in ours:
                self._look_at_call(call, _called_name(call.func))
        if tensorflow:
            self._look_for_autograph(tree, calls, tensorflow)
        while self._mark_once(tree, tensorflow):
            pass

    def _look_for_autograph(self, tree: ast.Module, calls: Collection[ast.Call], tensorflow: Collection[str]) -> None:
        """Adds what `tf.function` is applied to and what datasets are given, not what runs in Python inside of them."""
        definitions = {node.name: node for node in ast.walk(tree) if isinstance(node, Definition)}
        for node in definitions.values():
            if any(_is_autograph(decorator, tensorflow) for decorator in node.decorator_list):
                self.names.add(node.name)
        for call in calls:
            for argument in [*call.args, *(k.value for k in call.keywords)]:
                target = definitions.get(_called_name(argument)) if not isinstance(argument, ast.Call) else None
                if _is_autograph(call.func, tensorflow) or _is_of_dataset(call, target or argument, tensorflow):
                    self._add(argument)

    def _look_at_call(self, node: ast.Call, name: str) -> None:
        of_torch = name in _OF_TORCH and _base(node.func) in _TORCH
        if of_torch or (name == "compile" and not node.args):  # torch.compile(model), model.compile()
            self.modules = True
        if of_torch or name in CALLED:
            for argument in [*node.args, *(k.value for k in node.keywords)]:
                self._add(argument)

    def _add(self, argument: ast.expr) -> None:
        """Adds a function that a compiler is given."""
        if isinstance(argument, ast.Lambda):
            argument.cd_left = True  # type: ignore[attr-defined]
        elif isinstance(argument, ast.Name | ast.Attribute):
            self.names.add(_called_name(argument))

    def _mark_once(self, tree: ast.Module, tensorflow: Collection[str]) -> bool:
        changed = False
        for node in ast.walk(tree):
            if isinstance(node, Definition) and not hasattr(node, "cd_left") and self._is_read(node):
                node.cd_left = changed = True  # type: ignore[union-attr]
                calls = (part for part in ast.walk(node) if _root(part) not in tensorflow)
                self.names |= {name for part in calls if (name := _calls_function(part))}
        return changed

    def _is_read(self, node: Definition) -> bool:
        if node.name in self.names or is_compiled_elsewhere(node):
            return True
        return self.modules and isinstance(node, ast.ClassDef) and _is_torch_module(node)


def definitions(tree: ast.Module) -> frozenset[str]:
    """The names of all functions and classes of a module: what of `Compiled` decides about them."""
    return frozenset(node.name for node in ast.walk(tree) if isinstance(node, Definition))


def left_alone(tree: ast.AST, within: str = "", left: bool = False) -> frozenset[str]:
    """The qualified names of the functions of a marked module that are left to another compiler."""
    found: set[str] = set()
    for node in ast.iter_child_nodes(tree):
        if isinstance(node, Definition):
            name, here = f"{within}{node.name}", left or hasattr(node, "cd_left")
            found |= {name} if here else set()
            found |= left_alone(node, f"{name}.", here)
        else:
            found |= left_alone(node, within, left)
    return frozenset(found)


def is_compiled_elsewhere(node: Definition) -> bool:
    """Whether a decorator says that another compiler reads this definition."""
    return any(_called_name(decorator) in DECORATORS for decorator in node.decorator_list)


def _names_of(node: ast.Import | ast.ImportFrom, package: str) -> list[str]:
    """What an import calls a package and its parts."""
    within = getattr(node, "module", None) or ""
    found = [alias for alias in node.names if (within or alias.name).partition(".")[0] == package]
    return [alias.asname or alias.name.partition(".")[0] for alias in found]


def _is_autograph(node: ast.expr, tensorflow: Collection[str]) -> bool:
    """Whether this is `tf.function`, `tf.function(...)`, or another of TensorFlow's functions that read source."""
    return _called_name(node) in _OF_TENSORFLOW and _root(node) in tensorflow


def _is_of_dataset(call: ast.Call, function: ast.AST, tensorflow: Collection[str]) -> bool:
    """Whether a call gives a function to a dataset; `map` of a pool or a table gets none that speaks of TensorFlow."""
    if not isinstance(call.func, ast.Attribute) or call.func.attr not in _OF_DATASET:
        return False
    if any(keyword.arg in _DATASET_KEYWORDS for keyword in call.keywords):
        return True
    if not isinstance(function, ast.Lambda | ast.FunctionDef):
        return False
    return any(isinstance(part, ast.Name) and part.id in tensorflow for part in ast.walk(function))


def _is_torch_module(node: ast.ClassDef) -> bool:
    if any(_called_name(base).endswith("Module") for base in node.bases):
        return True
    return any(isinstance(s, ast.FunctionDef) and s.name == "forward" for s in node.body)


def _calls_function(node: ast.AST) -> str:
    """The name of a function that is called as `f(...)` or `module.f(...)`; methods are found through their class."""
    if not isinstance(node, ast.Call):
        return ""
    name, base = _called_name(node.func), _base(node.func)
    return "" if not base or base in ("self", "cls") or name.startswith("__") else name


def _called_name(node: ast.expr) -> str:
    """The last part of the name of what is called: `jit` for `numba.jit`, `jit(...)` and `numba.jit(...)(...)`."""
    while isinstance(node, ast.Call):
        node = node.func
    return node.attr if isinstance(node, ast.Attribute) else getattr(node, "id", "")


def _base(node: ast.expr) -> str:
    while isinstance(node, ast.Call):
        node = node.func
    value = node.value if isinstance(node, ast.Attribute) else node
    return value.attr if isinstance(value, ast.Attribute) else getattr(value, "id", "")


def _root(node: ast.AST) -> str:
    """The first part of a dotted name: `tf` for `tf.image.resize(...)`."""
    while isinstance(node, ast.Call | ast.Attribute):
        node = node.func if isinstance(node, ast.Call) else node.value
    return node.id if isinstance(node, ast.Name) else ""
