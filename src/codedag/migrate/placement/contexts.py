"""Where in the program a call is made: the chain of the user's functions, and which entry of a plan fits it best."""

from __future__ import annotations

from collections.abc import Mapping
from functools import lru_cache
from types import CodeType, FrameType
from typing import Generic, TypeVar

from codedag.instrument.places import is_installed

T = TypeVar("T")
Chain = tuple[str, ...]

DEEPEST = 400  # frames that are looked at; a chain of user functions that is further away is not a call's context
_INNER = ("<listcomp>", "<dictcomp>", "<setcomp>", "<genexpr>")


class Contexts(Generic[T]):
    """Entries of a plan for one function by context key; the best for a call is found from the calling frames.

    The exact key is best, then the entry with the longest common suffix, then the one for the bare function name.
    """

    def __init__(self, entries: Mapping[str, T]) -> None:
        self._entries = {chain_of(key): entry for key, entry in entries.items()}
        self._longest = max(map(len, self._entries), default=0)
        self._last = {key[-1] for key in self._entries if key}
        self._known: dict[Chain, T | None] = {}

    @property
    def everywhere(self) -> bool:
        """Whether the place of a call makes no difference."""
        return set(self._entries) <= {()}

    def of(self, frame: FrameType | None) -> T | None:
        """The entry for a call made from this frame, or None."""
        if self._longest == 0:
            return self._entries.get(())
        nearest = user_chain(frame, 1)
        if not nearest or nearest[0] not in self._last:  # most calls elsewhere are told by this alone
            return self._entries.get(())
        chain = user_chain(frame, self._longest + 1)
        if chain not in self._known:
            if len(self._known) > 1000:
                self._known.clear()
            self._known[chain] = self.best(chain)
        return self._known[chain]

    def never_from(self, code: CodeType) -> bool:
        """Whether no call made by this code itself can be meant, whoever called it."""
        name = user_name(code)
        return bool(name) and name not in self._last and not self._entries.get(())

    def best(self, chain: Chain) -> T | None:
        """The entry that fits a chain best, or None."""
        if chain in self._entries:
            return self._entries[chain]
        fits = {key: _common(key, chain) for key in self._entries if key}
        found = max(fits, key=lambda key: (fits[key], -len(key)), default=())
        return self._entries[found] if fits.get(found) else self._entries.get(())


def chain_of(key: str) -> Chain:
    """The user functions of a context key, without the operation at its end."""
    return tuple(part for part in key.split("/")[:-1] if part)


def user_chain(frame: FrameType | None, most: int) -> Chain:
    """The names of the last user functions that lead to a frame, outermost first."""
    found: list[str] = []
    for _ in range(DEEPEST):
        if frame is None or len(found) >= most:
            break
        code = frame.f_code
        known = _names.get(id(code))
        name = known[1] if known is not None else user_name(code)
        if name and (not found or found[-1] != name):
            found.append(name)
        frame = frame.f_back
    return tuple(reversed(found))


_names: dict[int, tuple[CodeType, str]] = {}  # by identity: the hash of a code object reads all of it


def user_name(code: CodeType) -> str:
    """The function's name as context keys have it, or empty for code that is not the user's."""
    parts = [part for part in code.co_qualname.split(".") if part != "<locals>"]
    while parts and parts[-1] in _INNER:
        parts.pop()
    name = ".".join(part for part in parts if part != "<module>") if is_user_file(code.co_filename) else ""
    if len(_names) > 4096:
        _names.clear()
    _names[id(code)] = code, name  # the code object is kept, so that its identity stays its own
    return name


@lru_cache(maxsize=4096)
def is_user_file(file: str) -> bool:
    """Whether a file is the user's own: not of Python, of an installed package, or ours."""
    return not file.startswith("<frozen") and not is_installed(file)


def _common(key: Chain, chain: Chain) -> int:
    """How many functions at the end of both are the same."""
    count = 0
    for left, right in zip(reversed(key), reversed(chain), strict=False):
        if left != right:
            break
        count += 1
    return count
