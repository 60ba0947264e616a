from collections.abc import Callable
from typing import Any

BYTE: int
SINGLE: int
DOUBLE: int
CAST: int
ADD: int
SUB: int
RSUB: int
MUL: int
DIV: int
RDIV: int
LEAST: int
MOST: int
NEG: int
ABS: int
ROOT: int
SQUARE: int
NUMBER: int
ARRAY: int
FIXED: int
MOST_ROWS: int

Op = tuple[int, int, int, float]

class Chain:
    is_open: bool
    def __init__(
        self,
        trial: Any,
        placeholder: type,
        method: type,
        calm: Callable[[], bool],
        checked: Callable[[Run, Any], Any],
        settled: Callable[[Run, Any], Any],
        steps_of: Callable[[tuple[Any, ...], tuple[Any, ...]], list[Any]],
        harmless: Callable[..., bool],
        own_time: bool,
    ) -> None: ...
    def open(self, specs: tuple[Any, ...], ops: tuple[Op, ...], rows: int, world: tuple[Any, ...], /) -> bool: ...
    def learn(
        self,
        specs: tuple[Any, ...],
        shape: tuple[int, ...],
        strides: tuple[int, ...],
        make: Callable[[], Any],
        kernel: int,
        axes: int,
        held: Any,
        /,
    ) -> bool: ...
    def waiting(self) -> list[Run]: ...

class Run:
    source: Any
    done: bool
    spent: float
    own_time: bool
    steps: list[Any]
    sample: Any
    def settle(self, space: dict[str, Any] | None = None, /) -> Any: ...
    def end(self) -> None: ...

class Site:
    def __init__(self, chain: Chain, index: int, kind: int, function: Any, slow: Callable[..., Any], /) -> None: ...
    def __call__(self, *args: Any, **keywords: Any) -> Any: ...

def table(ops: tuple[Op, ...], numbers: tuple[tuple[float, ...], ...], rows: int, /) -> bytes | None: ...
