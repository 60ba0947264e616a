"""Functions of a file, named as `file.py:function`."""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

from codedag.instrument.guard import Failed, attempt
from codedag.tune.declined import CannotTune


def load_function(text: str) -> Callable[..., Any]:
    """The function that a text names; CannotTune if the file or the function is not there."""
    file, _, name = text.rpartition(":")
    path = Path(file)
    if not path.is_file():
        raise CannotTune(f"{file}: there is no such file", hint="Write FILE.py:FUNCTION.")
    module = attempt(_loaded, path)
    if isinstance(module, Failed):
        raise CannotTune(f"{file} cannot be loaded: {module.reason}")
    found = getattr(module, name, None)
    if not callable(found):
        raise CannotTune(f"{file} has no function {name!r}")
    return found  # type: ignore[no-any-return]


def _loaded(path: Path) -> Any:
    spec = importlib.util.spec_from_file_location(f"codedag_tuned_{path.stem}", path)
    if spec is None or spec.loader is None:
        raise CannotTune(f"{path} is no Python file")
    module = importlib.util.module_from_spec(spec)
    sys.path.insert(0, str(path.parent.resolve()))
    try:
        spec.loader.exec_module(module)
    except SystemExit as error:
        raise CannotTune(f"it ends the program (exit code {error.code})") from None
    finally:
        sys.path.pop(0)
    return module
