"""What a call or an operator does beside giving its result: asked before it is moved, repeated, skipped or kept.

`known_call` and `known_operator` answer `Known`, `No(reason)`, or `USER` for code that belongs to the program itself,
so that the caller can look into it.  Unknown is the default.  Only libraries that the program has loaded are looked
at, each once when it appears.
"""

from __future__ import annotations

import functools
import sys
import types
from collections.abc import Callable
from typing import Any

from codedag.backends import (
    known_albumentations,
    known_audio,
    known_builtins,
    known_cv2,
    known_numpy,
    known_operators,
    known_pandas,
    known_pillow,
    known_scipy,
    known_stdlib,
    known_torch,
    known_torchvision,
)
from codedag.backends.known_table import Effect, Known, Table, is_class, known_of, named_type
from codedag.instrument.places import is_installed
from codedag.ir.verdict import No

__all__ = ["USER", "Effect", "Known", "User", "knowledge", "known_call", "known_operator", "learn"]


class User:
    """The answer for code of the program's own: look into it."""

    def __bool__(self) -> bool:
        return False

    def __repr__(self) -> str:
        return "USER"


USER = User()
Answer = Known | No | User
#: Module -> who knows it.
_LIBRARIES: dict[str, Callable[[Table, Any], None]] = {
    "numpy": known_numpy.learn,
    "numpy.random": known_numpy.learn_random,
    "numpy.linalg": known_numpy.learn_linalg,
    "numpy.fft": known_numpy.learn_fft,
    "cv2": known_cv2.learn,
    "PIL.Image": known_pillow.learn,
    "PIL.ImageOps": known_pillow.learn_operations,
    "PIL.ImageEnhance": known_pillow.learn_enhance,
    "PIL.ImageFilter": known_pillow.learn_filters,
    "torch": known_torch.learn,
    "torch.nn.functional": known_torch.learn_functional,
    "torch.utils.data": known_torch.learn_data,
    "torchvision.transforms.functional": known_torchvision.learn_functional,
    "torchvision.datasets.folder": known_torchvision.learn_folder,
    "torchvision.utils": known_torchvision.learn_utils,
    "scipy.ndimage": known_scipy.learn_ndimage,
    "scipy.signal": known_scipy.learn_signal,
    "scipy.fft": known_scipy.learn_fft,
    "scipy.io.wavfile": known_scipy.learn_wavfile,
    "soundfile": known_audio.learn_soundfile,
    "albumentations": known_albumentations.learn,
    "pandas": known_pandas.learn,
    **known_stdlib.LIBRARIES,
}
#: Packages that load their modules when they are used: each is looked through again whenever something was loaded.
_PACKAGES: dict[str, tuple[str, dict[str, Any]]] = known_scipy.PACKAGES | known_audio.PACKAGES
_table = Table()
_waiting = dict(_LIBRARIES)
_seen = 0  # how many modules were loaded when last looked
known_builtins.learn(_table)


def learn() -> None:
    """Adds what is known of the libraries that the program has loaded since the last time."""
    global _seen
    now = len(sys.modules)
    if now == _seen:
        return
    for name, teach in list(_waiting.items()):
        module = sys.modules.get(name)
        if module is not None and _is_whole(module):
            teach(_table, module)
            _waiting.pop(name, None)
    for package, (names, facts) in _PACKAGES.items():
        if package in sys.modules:
            _table.functions_in(package, names, **facts)
    _seen = now  # last: another thread that asks meanwhile learns for itself


def _is_whole(module: types.ModuleType) -> bool:
    """Whether a module has been imported to its end; it is asked again when another one was."""
    return not getattr(module.__spec__, "_initializing", False)


def knowledge() -> Table:
    """The table, with everything that is loaded by now."""
    learn()
    return _table


def known_call(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Answer:
    """What calling the function with these arguments does."""
    learn()
    if type(function) is functools.partial:
        return _partial(function, args, keywords)
    found = _table.row_of(function)
    if found is None:
        return _unknown(function)
    return known_of(_table, *found, args, keywords)


def _partial(function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Answer:
    """What is known of the function inside, with all its arguments; their places are not those of this call."""
    answer = known_call(function.func, (*function.args, *args), {**function.keywords, **keywords})
    if isinstance(answer, Known) and (answer.writes or answer.files or answer.generator):
        return No("functools.partial: what it reads, writes or draws from is not among its own arguments")
    return answer


def known_operator(name: str, operands: tuple[Any, ...]) -> Answer:
    """What an operator of module `operator` does with these operands; `iter` and `contains` are among them."""
    learn()
    return known_operators.known(_table, name, operands)


def _unknown(function: Any) -> Answer:
    """USER for code of the program, else the reason why the function is not known."""
    code = _code_of(function)
    if code is not None:
        library = is_installed(code.co_filename) or code.co_filename.startswith("<frozen")
        return No(f"{code.co_qualname} of {code.co_filename} is not known") if library else USER
    if is_class(function):
        return _unknown_class(function)
    called = known_operators.static(type(function), "__call__")
    if type(called) is types.FunctionType:
        return _unknown(called)
    return No(f"{_name_of(function)} is not known")


def _code_of(function: Any) -> types.CodeType | None:
    if type(function) is types.MethodType:
        function = function.__func__
    return function.__code__ if type(function) is types.FunctionType else None


def _unknown_class(kind: type) -> Answer:
    module = sys.modules.get(type.__getattribute__(kind, "__module__"))
    file = getattr(module, "__file__", None)
    if getattr(module, "__name__", "") == "__main__" or (file is not None and not is_installed(file)):
        return USER
    made_by = [known_operators.static(type(kind), "__call__")]
    made_by += [known_operators.static(kind, name) for name in ("__new__", "__init__")]
    written = [each.__func__ if isinstance(each, staticmethod) else each for each in made_by]
    codes = [each.__code__ for each in written if type(each) is types.FunctionType]
    if any(not is_installed(code.co_filename) for code in codes):
        return USER
    return No(f"{_name_of(kind)} is not known")


def _name_of(function: Any) -> str:
    if type(function) in (types.BuiltinFunctionType, types.FunctionType):
        return f"{function.__module__ or 'builtins'}.{function.__qualname__}"
    if is_class(function):
        return named_type_of(function)
    return named_type(function)


def named_type_of(kind: type) -> str:
    """The full name of a class, without asking its metaclass."""
    return f"{type.__getattribute__(kind, '__module__')}.{type.__getattribute__(kind, '__qualname__')}"
