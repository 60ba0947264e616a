from collections.abc import Callable
from typing import Any

DECLINED: object

class Layer:
    run: Callable[..., Any] | None
    calls: int
    fast: int
    checked: int
    declined: int
    def __init__(self, run: Callable[..., Any] | None, /) -> None: ...

class Then:
    def __init__(self, after: Callable[[Any], None], /) -> None: ...

class After:
    def __init__(self, function: Callable[..., Any], callback: Callable[[Any], None], /) -> None: ...
    def __call__(self, *args: Any, **keywords: Any) -> Any: ...

class Stand:
    __wrapped__: Any
    def __init__(self, original: Any, /) -> None: ...
    def __call__(self, *args: Any, **keywords: Any) -> Any: ...

class BindingStand(Stand):
    pass

class HardStand(Stand):
    pass

class HardBindingStand(Stand):
    pass

def alive(ids: set[int], /) -> list[Any]: ...
def holders(more: list[Any], targets: tuple[Any, ...], originals: bool, /) -> list[Any]: ...
def swap(holder: Any, key: Any, old: Any, new: Any, /) -> bool: ...
def layers(stand: Stand, /) -> tuple[Layer, ...]: ...
def set_layers(stand: Stand, layers: tuple[Layer, ...], /) -> None: ...
def set_reduce(function: Callable[[Any, int], Any], /) -> None: ...
