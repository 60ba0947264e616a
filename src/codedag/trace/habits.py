"""What functions do with data that their arguments and results do not show, by the functions' own names."""

from __future__ import annotations

#: A method of a container or of an object that puts a value there, moves it or hands it out: no data is read.
_PUTS = frozenset({
    "append", "extend", "insert", "add", "update", "setdefault", "appendleft", "extendleft", "put", "put_nowait",
    "sort", "reverse", "rotate", "remove", "clear", "get", "pop", "popitem", "items", "values", "keys", "copy", "index",
    "count", "set_result", "register_buffer", "register_parameter", "__setattr__", "__setitem__",
})  # fmt: skip
#: A function that does so with its first argument.
_PLACES = frozenset({
    "heappush", "heappop", "heappushpop", "heapreplace", "heapify", "insort", "insort_left", "insort_right", "setattr",
    "setitem", "shuffle",
})  # fmt: skip
#: A function that looks at an object and at none of its elements.
_LOOKS = frozenset({"len", "isinstance", "id", "hasattr", "callable", "iter"})
#: A function that returns nothing and writes its first argument.  Others only read: print, assert_allclose, savetxt.
_WRITES = frozenset({
    "copyto", "put", "place", "putmask", "fill_diagonal", "put_along_axis", "at", "shuffle", "setfield", "setitem",
    "vector_to_parameters",
})  # fmt: skip
#: A function that writes the first data among its arguments, whatever it returns; so do torch's `_foreach_add_` etc.
_FILLS = frozenset({"readinto", "readinto1", "recv_into", "recvfrom_into", "recv_bytes_into", "pack_into"})
#: A method of a data object that returns nothing and writes no element of it.
_KEEPS = frozenset({
    "backward", "retain_grad", "setflags", "tofile", "dump", "save", "show", "close", "verify", "release", "seek",
    "__init__", "load", "draft",
})  # fmt: skip
#: A method that returns nothing and does its work elsewhere: no sink.
_WORKS = frozenset({"backward"})
#: A function that calls its first argument with the others, later or elsewhere.
_CALLS = frozenset({"map", "starmap", "submit", "imap", "imap_unordered"})
#: A method of an optimiser, which reads the gradients of its parameters and writes these.
_STEPS = frozenset({"step"})
#: A function that reads and writes the gradients of the parameters in its first argument.
_CLIPS = frozenset({"clip_grad_norm_", "clip_grad_value_"})

PUTS, PLACES, WRITES, KEEPS, WORKS, CALLS, LOOKS, FILLS = 1, 2, 4, 8, 16, 32, 64, 128
STEPS, CLIPS = 256, 512
_HABITS = (
    (PUTS, _PUTS), (PLACES, _PLACES), (WRITES, _WRITES), (KEEPS, _KEEPS), (WORKS, _WORKS), (CALLS, _CALLS),
    (LOOKS, _LOOKS), (FILLS, _FILLS), (STEPS, _STEPS), (CLIPS, _CLIPS),
)  # fmt: skip


def habits_of(name: object) -> int:
    """The habits of functions with this name, as bits."""
    if not isinstance(name, str):
        return 0
    if name.startswith("_foreach_") and name.endswith("_"):
        return FILLS
    return sum(bit for bit, names in _HABITS if name in names)
