"""Arrays on an accelerator that torch knows (cuda, xpu, mps, or one that a test registers), and back.

A substitute takes its arrays there, computes, and brings the result back.  Between two calls that we own the result may
stay: then what is handed on is a `Held`, which the next substitute takes as it takes an array.
"""

from __future__ import annotations

import functools
import sys
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar
from typing import Any

import numpy as np
import numpy.typing as npt

Array = npt.NDArray[Any]
LEAST = 64
_chosen: ContextVar[str] = ContextVar("chosen", default="")
_staying: ContextVar[bool] = ContextVar("staying", default=False)


class Tally(threading.local):
    """What this thread has moved so far: bytes to the device, bytes back, and inputs that were there already."""

    sent = 0
    fetched = 0
    resident = 0

    def now(self) -> tuple[int, int, int]:
        """The three counts."""
        return self.sent, self.fetched, self.resident


tally = Tally()


@contextmanager
def using(device: str, stay: bool = False) -> Iterator[None]:
    """Sends the substitutes of this room to a device by its torch name; with `stay` their results are left there."""
    token, other = _chosen.set(device), _staying.set(stay)
    try:
        yield
    finally:
        _staying.reset(other)
        _chosen.reset(token)


def device() -> Any:
    """The torch device that is used, or None if there is no accelerator."""
    torch = sys.modules.get("torch")
    if torch is None:
        return None
    name = _chosen.get()
    if name:
        return torch.device(name)
    accelerator = getattr(torch, "accelerator", None)
    return accelerator.current_accelerator() if accelerator is not None and accelerator.is_available() else None


def nowhere() -> str:
    """The reason to decline if there is no device, or none that this process can use."""
    found = device()
    if found is None:
        return "torch finds no accelerator"
    forked = getattr(getattr(sys.modules["torch"], found.type, None), "_is_in_bad_fork", None)
    return f"a forked process cannot use {found.type}" if forked is not None and forked() else ""


def finish() -> None:
    """Waits for what the device has been given to do, so that a clock that is read next has seen all of it."""
    found = device()
    wait = getattr(getattr(sys.modules["torch"], found.type, None), "synchronize", None) if found is not None else None
    if wait is not None:
        wait()


class Held:
    """An array whose elements are on the device: what guards and substitutes ask of an array, without fetching it."""

    __slots__ = ("_sample", "dtype", "order", "shape", "tensor")

    def __init__(self, tensor: Any, order: str = "C") -> None:
        self.tensor, self.order, self.shape = tensor, order, tuple(tensor.shape)
        self.dtype = _dtype_of(tensor.dtype)
        self._sample: Array | None = None

    @property
    def sample(self) -> Array:
        """An array of the same kind with other elements."""
        if self._sample is None:
            self._sample = np.empty(self.shape, self.dtype, order=self.order)  # type: ignore[call-overload]
        return self._sample

    @property
    def ndim(self) -> int:
        """The number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """The number of elements."""
        return int(self.tensor.numel())

    @property
    def nbytes(self) -> int:
        """The bytes of all elements."""
        return self.size * self.dtype.itemsize

    @property
    def flags(self) -> Any:
        """What numpy says about the memory of such an array."""
        return self.sample.flags

    @property
    def real(self) -> Held:
        """The real part."""
        return Held(self.tensor.real)

    @property
    def imag(self) -> Held:
        """The imaginary part."""
        return Held(self.tensor.imag)

    def min(self) -> Any:
        """The smallest element; only that one is fetched."""
        return self.tensor.min().item()

    def max(self) -> Any:
        """The greatest element."""
        return self.tensor.max().item()

    def __len__(self) -> int:
        return int(self.shape[0])


class Picture:
    """An image of Pillow whose pixels are on the device: what guards ask of an image."""

    __slots__ = ("like", "mode", "tensor")

    def __init__(self, tensor: Any, mode: str, like: Any) -> None:
        self.tensor, self.mode = tensor, mode
        self.like = like  # the image that came in: its facts go with every result

    @property
    def size(self) -> tuple[int, int]:
        """Width and height."""
        return int(self.tensor.shape[1]), int(self.tensor.shape[0])

    @property
    def info(self) -> dict[Any, Any]:
        """The facts that go with the image."""
        found: dict[Any, Any] = self.like.info
        return found

    @property
    def sample(self) -> Any:
        """An image of the same class with other pixels."""
        return self.like


def is_held(value: Any) -> bool:
    """Whether a value is on the device, and here only what stands for it."""
    return type(value) is Held or type(value) is Picture


def pixels(image: Any) -> Any:
    """A tensor on the device with the pixels of an image of Pillow."""
    if type(image) is Picture:
        tally.resident += 1
        return image.tensor
    return there(np.asarray(image))


def picture(tensor: Any, mode: str, like: Any) -> Any:
    """The result of a substitute: an image as Pillow makes it from another one, or what holds its pixels."""
    like = like.like if type(like) is Picture else like
    made = Picture(tensor, mode, like)
    return made if _staying.get() else fetched(made)


@functools.lru_cache(maxsize=64)
def _dtype_of(kind: Any) -> np.dtype[Any]:
    found: np.dtype[Any] = sys.modules["torch"].empty(0, dtype=kind).numpy().dtype
    return found


def there(values: Array | Held) -> Any:
    """A tensor on the device with the elements of an array in C order; what is there already is not moved."""
    if type(values) is Held:
        tally.resident += 1
        return values.tensor
    torch = sys.modules["torch"]
    plain = np.ascontiguousarray(values)
    tally.sent += plain.nbytes
    return torch.from_numpy(plain if plain.flags.writeable else plain.copy()).to(device())


def sent(value: Any) -> Any:
    """What stands for an array or an image of Pillow whose elements are on the device; anything else as it is."""
    pillow = sys.modules.get("PIL.Image")
    if type(value) is np.ndarray:
        return Held(there(value))
    if pillow is not None and isinstance(value, pillow.Image):
        return Picture(there(np.asarray(value)), value.mode, value)
    return value


def back(tensor: Any, order: str = "C") -> Array:
    """The result of a substitute: a fresh array with the elements of a tensor, or what holds them if it may stay."""
    return Held(tensor, order) if _staying.get() else home(tensor, order)  # type: ignore[return-value]


def home(tensor: Any, order: str = "C") -> Array:
    """A fresh array with the elements of a tensor, in C or Fortran order."""
    made: Array = np.array(tensor.resolve_conj().cpu().numpy(), order=order)  # type: ignore[call-overload]
    tally.fetched += made.nbytes
    return made


def fetched(value: Any) -> Any:
    """The value as the program must see it: what is held on the device as the array that it is."""
    if type(value) is Picture:
        made = sys.modules["PIL.Image"].fromarray(home(value.tensor))
        return value.like._new(made.im)
    return home(value.tensor, value.order) if type(value) is Held else value


def constant(make: Callable[..., tuple[Array, ...]]) -> Callable[..., tuple[Any, ...]]:
    """A function whose arrays are made once per arguments and device, and stay there: weights and places."""

    @functools.lru_cache(maxsize=128)
    def kept(where: str, *args: Any) -> tuple[Any, ...]:
        return tuple(there(part) for part in make(*args))

    @functools.wraps(make)
    def constants(*args: Any) -> tuple[Any, ...]:
        return kept(str(device()), *args)

    return constants


def is_array(value: Any) -> bool:
    """Whether a value is a plain array, here or on the device."""
    return type(value) is np.ndarray or type(value) is Held


def plain(value: Any, codes: str, least: int = LEAST) -> str:
    """The reason why a value is not a plain array of one of the dtypes, finite where it has floats."""
    if not is_array(value) or value.dtype.char not in codes or not value.dtype.isnative:
        return "not a plain array of the dtypes that are known"
    if value.size < least or not (type(value) is Held or value.flags.aligned):
        return "too small to send"
    if value.dtype.kind not in "fc":
        return ""
    parts = (value.real, value.imag) if value.dtype.kind == "c" else (value,)
    finite = all(float(part.min()) > -1e30 and float(part.max()) < 1e30 for part in parts)
    return "" if finite else "elements that are huge or not finite"


def c_ordered(value: Any) -> bool:
    """Whether the elements of an array lie in C order; asks nothing of the device."""
    return value.order == "C" if type(value) is Held else bool(value.flags.c_contiguous)


def orderly(value: Any) -> str:
    """The reason why the elements leave a choice between NaNs or zeros of two signs."""
    from codedag.backends import windows

    if type(value) is not Held:
        return windows.orderly(value)
    if value.dtype.kind != "f":
        return ""
    tensor = value.tensor
    odd = ((tensor == 0) & tensor.signbit()) | (tensor != tensor)
    return "NaN or negative zero in the input" if bool(odd.any().item()) else ""
