"""Models as the command line names them: `sage7`, `file.onnx` or `file.py:name`."""

from __future__ import annotations

import hashlib
import importlib.util
import os
import sys
from collections.abc import Callable, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from codedag.instrument.guard import Failed, attempt
from codedag.stages.model import BadModel, Source, StagedModel
from codedag.stages.torch_models.user_lines import UserLine

if TYPE_CHECKING:
    from collections.abc import Iterator

SAGE = "sage7"
_FORMS = "MODEL is `sage7`, a file.onnx, or file.py:name (a function that returns a module and example inputs)."


def model_of(text: str, stages: int | None = None, cuts: Sequence[str] = (), weights: str = "") -> StagedModel:
    """The staged model that MODEL means; raises BadModel naming what is wrong with it."""
    if stages and cuts:
        raise BadModel("a model is cut into a number of stages or at names, not both")
    if text == SAGE:
        return _sage(stages, cuts, weights)
    if weights:
        raise BadModel(f"weights can be given for `{SAGE}` only; `{text}` has its own")
    if text.endswith(".onnx"):
        from codedag.stages.onnx_models.from_onnx import from_onnx

        return from_onnx(text, cuts=cuts, stages=stages)
    path, colon, name = text.rpartition(":")
    if not colon or not path.endswith(".py"):
        raise BadModel(f"`{text}` is no model", hint=_FORMS)
    return _of_function(Path(path), name, stages, cuts)


def _sage(stages: int | None, cuts: Sequence[str], weights: str) -> StagedModel:
    if cuts or stages not in (None, 7):
        raise BadModel(f"`{SAGE}` has its seven stages; it is not cut otherwise")
    with with_torch(SAGE):
        from codedag.stages.torch_models.sage import sage7

        return sage7(weights=weights or None)


@contextmanager
def with_torch(what: str) -> Iterator[None]:
    """A block that needs torch; BadModel where that is not installed."""
    if importlib.util.find_spec("torch") is None:
        raise BadModel(
            f"`{what}` cannot be made without torch", hint='Install it: pip install "codedag[torch,stages]".'
        )
    yield


# -- functions of the user's file


def _of_function(path: Path, name: str, stages: int | None, cuts: Sequence[str]) -> StagedModel:
    text = f"{path}:{name}"
    with with_torch(text):
        build = _function(path, name)
        made, example, dynamic = _built(build, text)
        again, _, _ = _built(build, text)
        _compare(made, again, text)
        return _staged(made, example, dynamic, Source(f"{os.path.abspath(path)}:{name}", stages, tuple(cuts)), name)


def _staged(made: Any, example: Any, dynamic: Any, source: Source, name: str) -> StagedModel:
    from codedag.stages.torch_models.from_torch import from_module, from_modules

    if not isinstance(made, list | tuple):
        return from_module(made, example, source.stages, source.cuts, dynamic, name=name, source=source)
    if source.cuts or source.stages not in (None, len(made)):
        raise BadModel(f"`{source.model}` gives a list of modules, which are its stages; it is not cut otherwise")
    return from_modules(made, example, dynamic=dynamic, name=name, source=source)


def _function(path: Path, name: str) -> Callable[[], Any]:
    """The function of a file, which is run as a module."""
    if not path.is_file():
        raise BadModel(f"there is no file {path}", hint=_FORMS)
    module = _run(lambda: _imported(path), f"{path} cannot be run")
    found = getattr(module, name, None)
    if not callable(found):
        known = [each for each, value in vars(module).items() if callable(value) and not each.startswith("_")]
        raise BadModel(f"{path} has no function `{name}`", hint=f"It has {', '.join(known[:8]) or 'none'}.")
    made: Callable[[], Any] = found
    return made


def _imported(path: Path) -> Any:
    digest = hashlib.sha256(os.path.abspath(path).encode()).hexdigest()[:12]
    spec = importlib.util.spec_from_file_location(f"codedag_model_{digest}", path)
    if spec is None or spec.loader is None:
        raise BadModel(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module  # classes of the file look their module up
    folder = os.path.abspath(path.parent)
    sys.path.insert(0, folder)
    try:
        spec.loader.exec_module(module)
    finally:
        if folder in sys.path:
            sys.path.remove(folder)
    return module


def _run(function: Callable[[], Any], what: str) -> Any:
    """What the user's code gives; BadModel with its line if it raises."""
    line = UserLine()

    def noted() -> Any:
        with line:
            return function()

    made = attempt(noted)
    if isinstance(made, Failed):
        where = f" at {line.place}" if line.place else ""
        raise BadModel(f"{what}{where}: {made.reason}")
    return made


def _built(build: Callable[[], Any], text: str) -> tuple[Any, Any, Mapping[str, Any] | None]:
    """What the function returns: a module or a list of modules, example inputs, and perhaps the open sizes."""
    made = _run(build, f"`{text}` cannot be built")
    if not isinstance(made, tuple) or len(made) not in (2, 3):
        raise BadModel(f"`{text}` returned a {type(made).__name__}, not (module, example)", hint=_FORMS)
    module, example, *rest = made
    if rest and not isinstance(rest[0], Mapping):
        raise BadModel(f"`{text}` returned a {type(rest[0]).__name__} for the open sizes, not a dict of dicts")
    return module, example, rest[0] if rest else None


def _compare(first: Any, second: Any, text: str) -> None:
    """Raises BadModel if two builds have different weights: what is measured would not be what is run."""
    one, other = weight_digests(first), weight_digests(second)
    different = [name for name in {**one, **other} if one.get(name) != other.get(name)]
    if different:
        raise BadModel(
            f"`{text}` gives other weights each time it is called: `{different[0]}`"
            + (f" and {len(different) - 1} more" if len(different) > 1 else ""),
            hint="Call torch.manual_seed(0) first, or load the weights from a file.",
        )


def weight_digests(made: Any) -> dict[str, str]:
    """The digests of all parameters and buffers by name."""
    modules = made if isinstance(made, list | tuple) else [made]
    found: dict[str, str] = {}
    for at, module in enumerate(modules):
        if not hasattr(module, "state_dict"):
            raise BadModel(f"a {type(module).__name__} was returned where a torch.nn.Module should be", hint=_FORMS)
        for name, value in module.state_dict().items():
            if hasattr(value, "detach"):
                content = value.detach().cpu().contiguous().view(-1).numpy().tobytes()
                found[f"{at}.{name}"] = hashlib.sha256(content).hexdigest()
    return found
