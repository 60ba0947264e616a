"""What Python's own functions, types and modules `math`, `operator` and `random` do."""

from __future__ import annotations

import builtins
import io
import math
import pathlib
import random
from typing import Any

from codedag.backends.known_table import Effect, Table, only_atoms_inside

_ATOMS = (int, float, bool, complex, str, bytes, type(None), type(Ellipsis), type(NotImplemented))
_MATH = (
    "acos acosh asin asinh atan atan2 atanh cbrt ceil comb copysign cos cosh degrees dist erf erfc exp exp2 expm1 fabs "
    "factorial floor fmod frexp fsum gamma gcd hypot isclose isfinite isinf isnan isqrt lcm ldexp lgamma log log10 "
    "log1p log2 modf nextafter perm pow prod radians remainder sin sinh sqrt sumprod tan tanh trunc ulp"
)
_LOOKING = "abs ascii bin bytes chr complex divmod float format hex int oct ord pow repr round str sum"
_ORDERLESS = "all any frozenset max min set sorted"  # the order of a set does not show in what they give
_REFUSED = {
    "print": "it writes to a stream",
    "input": "it asks the user",
    "id": "it depends on where an object lies in memory",
    "hash": "texts have another hash in every process",
    "next": "it moves an iterator on, which may run code of its own",
}
_SEARCHES = "count index __contains__ __len__ __eq__ __ne__ __lt__ __le__ __gt__ __ge__"
_STR = (
    "capitalize casefold center count encode endswith expandtabs find index isalnum isalpha isascii isdecimal isdigit "
    "isidentifier islower isnumeric isprintable isspace istitle isupper join ljust lower lstrip maketrans partition "
    "removeprefix removesuffix replace rfind rindex rjust rpartition rsplit rstrip split splitlines startswith strip "
    "swapcase title translate upper zfill format __len__ __contains__ __getitem__ __add__ __mod__ __mul__"
)
_BYTES = (
    "capitalize center count decode endswith expandtabs find fromhex hex index isalnum isalpha isascii isdigit islower "
    "isspace isupper join ljust lower lstrip partition removeprefix removesuffix replace rfind rindex rjust rpartition "
    "rsplit rstrip split splitlines startswith strip title translate upper zfill __len__ __contains__ __getitem__"
)
_DRAWS = (
    "random uniform randint randrange choice choices sample gauss normalvariate betavariate expovariate triangular "
    "getrandbits randbytes gammavariate lognormvariate vonmisesvariate paretovariate weibullvariate binomialvariate"
)
#: Draws whose result is one of the given objects, or a list of them.
_PICKS = "choice choices sample"
_READS = "read readline readlines read1 readall peek tell seek close readable seekable writable fileno isatty"
_ALL = tuple(range(9))
_DEVICES = ("/dev/", "/proc/", "/sys/")


def learn(table: Table) -> None:
    """Adds builtins, the methods of builtin types, `math` and `random`."""
    table.add_atoms(_ATOMS)
    table.hold(slice, lambda value: all(map(table.plain, (value.start, value.stop, value.step))))
    table.hold(bytearray)
    table.hold(pathlib.PosixPath if hasattr(pathlib, "PosixPath") else pathlib.Path)
    for kind in (list, tuple, dict, set, frozenset, object, type, range, Exception):
        table.classes[id(kind)] = kind
    inside = only_atoms_inside(table)
    _functions(table, inside)
    _sequences(table, inside)
    _mappings(table, inside)
    _random(table)
    _files(table)
    table.functions_of(math, _MATH, outs=())


def _functions(table: Table, inside: Any) -> None:
    table.functions_of(builtins, _LOOKING, outs=(), fresh=inside, declines=_iterates_a_set)
    table.functions_of(builtins, _ORDERLESS, outs=(), fresh=inside, declines=_breaks_ties)
    table.functions_of(builtins, "len bool callable", outs=(), shallow=True)
    table.functions_of(builtins, "bytearray", outs=())
    table.functions_of(builtins, "list tuple", outs=(), fresh=inside, shallow=True, declines=_iterates_a_set)
    table.functions_of(builtins, "dict", outs=(), fresh=inside)
    table.functions_of(builtins, "range slice", outs=())
    table.functions_of(builtins, "enumerate zip reversed iter", outs=(), fresh=False, shallow=True)
    table.functions_of(builtins, "isinstance issubclass hasattr getattr memoryview", outs=(), fresh=False)
    table.functions_of(builtins, "type", outs=(), fresh=False, opaque=(0,), most=1)
    for name, why in _REFUSED.items():
        table.functions_of(builtins, name, outs=(), opaque=_ALL, declines=lambda args, keywords, why=why: why)
    for name, kind in tuple(vars(builtins).items()):
        if isinstance(kind, type) and issubclass(kind, Exception):
            table.functions_of(builtins, name, outs=(), fresh=False)


def _iterates_a_set(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """A set of texts has another order in every process: what is made by walking over it does, too."""
    return "the order of a set" if args and type(args[0]) in (set, frozenset) and len(args[0]) > 1 else ""


def _breaks_ties(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """With a key, several members of a set may be equal, and which of them comes first is the order of the set."""
    return _iterates_a_set(args, keywords) if keywords.get("key") is not None else ""


def _sequences(table: Table, inside: Any) -> None:
    table.methods_of(str, _STR, outs=(), fresh=inside)
    table.methods_of(bytes, _BYTES, outs=(), fresh=inside)
    table.methods_of(int, "bit_length bit_count to_bytes from_bytes conjugate as_integer_ratio __index__", outs=())
    table.methods_of(float, "is_integer as_integer_ratio hex fromhex conjugate", outs=())
    table.methods_of(tuple, _SEARCHES, outs=())
    table.methods_of(list, _SEARCHES, outs=())
    table.methods_of(list, "copy", outs=(), fresh=inside, shallow=True)
    table.methods_of(list, "extend clear reverse", outs=(), into_self=True, shallow=True)
    table.methods_of(list, "append", outs=(), into_self=True, shallow=True, opaque=(0,))
    table.methods_of(list, "insert __setitem__", outs=(), into_self=True, shallow=True, opaque=(1,))
    table.methods_of(list, "sort remove", outs=(), into_self=True)
    table.methods_of(list, "pop", outs=(), into_self=True, fresh=False, shallow=True)
    table.methods_of(range, _SEARCHES, outs=())


def _mappings(table: Table, inside: Any) -> None:
    table.methods_of(dict, "get __getitem__", outs=(), fresh=False, shallow=True, opaque=(1,), declines=_odd_key(table))
    table.methods_of(dict, "keys values items", outs=(), fresh=False, shallow=True)
    table.methods_of(dict, "copy", outs=(), fresh=inside, shallow=True)
    table.methods_of(dict, "__contains__ __len__", outs=(), shallow=True, declines=_odd_key(table))
    table.methods_of(dict, "update __setitem__", outs=(), into_self=True)
    table.methods_of(dict, "pop setdefault popitem", outs=(), into_self=True, fresh=False, declines=_odd_key(table))
    table.methods_of(dict, "clear", outs=(), into_self=True, shallow=True)
    for kind in (set, frozenset):
        table.methods_of(kind, "union intersection difference symmetric_difference copy", outs=())
        table.methods_of(kind, "issubset issuperset isdisjoint __contains__ __len__", outs=())
    table.methods_of(set, "add update discard remove clear", outs=(), into_self=True)


def _odd_key(table: Table) -> Any:
    """A rule: a key that is not plain runs its own `__hash__` and `__eq__`."""
    return lambda args, keywords: "" if all(map(table.plain, args[1:2])) else "its key may run code of its own"


def _random(table: Table) -> None:
    for kind in (random.Random,):
        draws = {"effect": Effect.DRAWS, "outs": (), "stream": lambda owner, keywords: owner}
        table.methods_of(kind, _DRAWS, **draws)
        table.methods_of(kind, _PICKS, **draws | {"fresh": False, "shallow": True})
        table.methods_of(kind, "shuffle", **draws | {"outs": (0,), "fresh": True, "shallow": True})

    table.functions_of(random, "Random", outs=(), declines=_unseeded)


def _unseeded(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return "" if args and args[0] is not None else "without a seed it asks the system"


def _files(table: Table) -> None:
    reads: dict[str, Any] = {"effect": Effect.READS, "outs": (), "files": (0, "file")}
    table.functions_of(builtins, "open", declines=_not_for_reading, **reads)
    for kind in (io.TextIOWrapper, io.BufferedReader, io.FileIO):
        table.hold(kind, lambda file: not file.writable() if not file.closed else True)
        table.methods_of(kind, _READS, outs=(), into_self=True)
        table.methods_of(kind, "__enter__ __iter__", outs=(), into_self=True, fresh=False)
        table.methods_of(kind, "__exit__", outs=(), into_self=True)
    table.hold(io.BytesIO)
    table.hold(io.StringIO)
    for memory in (io.BytesIO, io.StringIO):
        table.methods_of(memory, f"{_READS} write truncate writelines", outs=(), into_self=True)
        table.methods_of(memory, "getvalue", outs=())
    table.functions_of(io, "BytesIO StringIO", outs=())


def _not_for_reading(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    mode = args[1] if len(args) > 1 else keywords.get("mode", "r")
    if type(mode) is not str or set(mode) - set("rbt"):
        return f"it opens a file with mode {mode!r}"
    if keywords.get("opener") is not None or len(args) > 7:
        return "it is given an opener"
    return device(args[0] if args else keywords.get("file"))


def device(name: Any) -> str:
    """Why a name is not that of an ordinary file: an open descriptor, or a device that gives new data each time."""
    if type(name) is int:
        return "it is given a file descriptor"
    text = name.decode("utf-8", "replace") if type(name) is bytes else str(name)
    return "a device, not a file" if text.startswith(_DEVICES) else ""
