"""The samples of a run: for an operation, the inputs that were captured while it was traced, or why there are none."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codedag.ir import No, Op
from codedag.trace.plain import Node, NotPlain, loaded, unpack
from codedag.trace.spool import FOLDER, HEAD, expires, key_of

_NEVER = "no inputs were kept when it was traced (samples are kept by `codedag trace`, without --no-samples)"


@dataclass(frozen=True, slots=True)
class Sample:
    """The inputs of one call: a function's name and its arguments, as plain data."""

    path: Path
    name: str
    args: tuple[Node, ...]
    keywords: Mapping[str, Node]
    shapes: tuple[tuple[str, tuple[int, ...]], ...]  # dtype and shape of each array
    nbytes: int

    @property
    def key(self) -> str:
        """The same for all calls that cost the same: equal functions, shapes, types, layouts and plain arguments."""
        call = json.dumps([self.name, self.args, dict(self.keywords), self.shapes], sort_keys=True)
        return hashlib.sha256(call.encode()).hexdigest()[:32]

    @property
    def summary(self) -> str:
        """The shapes, as short text."""
        return ",".join(f"{dtype}[{','.join(map(str, shape))}]" for dtype, shape in self.shapes)

    def call(self) -> tuple[tuple[Any, ...], dict[str, Any]]:
        """The arguments in fresh memory; raises NotPlain if a file is damaged."""
        known: dict[int, Any] = {}

        def array(number: int) -> Any:
            if number not in known:
                known[number] = loaded(self.path.with_name(f"{self.path.stem}-{number}.npy"))
            return known[number]

        args = tuple(unpack(node, array) for node in self.args)
        return args, {name: unpack(node, array) for name, node in self.keywords.items()}


class Samples:
    """The samples of one run directory."""

    def __init__(self, run: Path) -> None:
        self.folder = run / FOLDER
        self._known: dict[str, Sample | No] = {}
        self._places: dict[tuple[str, int, int, str], list[Path]] | None = None

    def expired(self) -> bool:
        """Whether they are past their time, and must not be used any more."""
        return self.folder.is_dir() and expires(self.folder, self.folder.stat()) < time.time()

    def of(self, op: Op) -> Sample | No:
        """The inputs of this operation, or the reason why there are none."""
        key = key_of(name=op.name, file=op.file, line=op.line, col=op.col, in_sig=op.in_sig)
        if key not in self._known:
            self._known[key] = read(self.folder / f"{key}.json")
        return self._known[key]

    def at_site(self, op: Op) -> list[Sample]:
        """The samples of all shapes that were captured at the place of an operation."""
        if self._places is None:
            self._places = {}
            for path in sorted(self.folder.glob("*.json")):
                place = _place(path)
                if place is not None:
                    self._places.setdefault(place, []).append(path)
        found = (read(path) for path in self._places.get((op.file, op.line, op.col, op.name), ()))
        return [sample for sample in found if isinstance(sample, Sample)]


def _place(path: Path) -> tuple[str, int, int, str] | None:
    try:
        content = json.loads(path.read_bytes())
        return content["file"], content["line"], content["col"], content["name"]
    except (OSError, ValueError, KeyError, TypeError):
        return None


def read(path: Path) -> Sample | No:
    """The sample in a file, or why there is none."""
    try:
        content = json.loads(path.read_bytes())
        if any(content.get(name) != value for name, value in HEAD.items()):
            return No(f"{path.name} is not a sample")
        if "left_out" in content:
            return No(str(content["left_out"]))
        shapes = tuple(_shape(path, number) for number in range(int(content["arrays"])))
        args, keywords = tuple(content["args"]), dict(content["keywords"])
        return Sample(path, str(content["name"]), args, keywords, shapes, int(content["nbytes"]))
    except FileNotFoundError:
        return No(_NEVER)
    except (OSError, ValueError, KeyError, TypeError, AttributeError, NotPlain) as error:
        return No(f"the sample {path.name} is damaged or was not finished ({error})")


def _shape(path: Path, number: int) -> tuple[str, tuple[int, ...]]:
    import numpy as np

    array = np.load(path.with_name(f"{path.stem}-{number}.npy"), mmap_mode="r", allow_pickle=False)
    return str(array.dtype), tuple(int(extent) for extent in array.shape)
