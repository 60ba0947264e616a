"""Reading a large JSON object piece by piece, so that a file of any size needs a window only.

Only boundaries are found here (where a value ends); whether a piece is valid JSON is judged by its decoder.
The two agree because a piece starts where the last one ended, outside of any text.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import BinaryIO

import msgspec

from codedag.ir.reject import INCOMPLETE, NOT_OURS, Unreadable, decode

# About 4000 ops: nothing beside the columns, and enough for the loop over windows not to matter.
WINDOW = 1 << 20

# Possessive throughout (`*+`), so that no input makes the search go back: linear in the bytes.
_TEXT = rb'"[^"\\]*+(?:\\.[^"\\]*+)*+"'
_SPACE = re.compile(rb"[ \t\r\n]*+")
_STRING = re.compile(_TEXT, re.DOTALL)
_SCALAR = re.compile(rb'[^ \t\r\n,:"\[\]{}]++')
_TOKEN = re.compile(rb'[^"\[\]{}]*+(?:([\[{])|([\]}])|' + _TEXT + rb")", re.DOTALL)
# Any number of whole objects without inner lists or objects, each with the comma that follows it.
_FLAT_RUN = re.compile(rb'(?:[ \t\r\n]*+\{[^"{}\[\]]*+(?:' + _TEXT + rb'[^"{}\[\]]*+)*+\}[ \t\r\n]*+,)*+', re.DOTALL)

_KEY = msgspec.json.Decoder(str)


class JsonStream:
    """The top-level object of a file: `fields()` walks it; the other methods take each value."""

    def __init__(self, source: BinaryIO, window: int = WINDOW) -> None:
        self._source = source
        self._window = window
        self._buffer = b""
        self._at = 0

    def fields(self) -> Iterator[str]:
        """The keys of the top-level object; the consumer takes each value before it asks for the next key."""
        self._open()
        if self._next() == b"}":
            self._at += 1
        else:
            yield from self._some_fields()
        if self._skip_space() or self._fill():
            raise Unreadable("something follows after the end of the JSON object", hint=INCOMPLETE)

    def _some_fields(self) -> Iterator[str]:
        while True:
            key = decode(self.value(), _KEY)
            self._take(b":", after=key)
            yield key
            if self._take(b",}", after=key) == b"}":
                return

    def _open(self) -> None:
        if not self._skip_space():
            raise Unreadable("is empty", hint=INCOMPLETE)
        if self._buffer[self._at : self._at + 1] != b"{":
            start = self._buffer[self._at : self._at + 8]
            raise Unreadable(f"is not a JSON object (it starts with {start!r})", hint=NOT_OURS)
        self._at += 1

    def value(self) -> bytes:
        """The bytes of the next value, whole."""
        first = self._next()
        if first in b"[{":
            return self._nested()
        return self._matched(_STRING if first == b'"' else _SCALAR)

    def items(self) -> Iterator[bytes]:
        """The items of the next value, which must be an array, one by one."""
        more = self._enter_array()
        while more:
            item, more = self._item()
            yield item

    def batches(self) -> Iterator[bytes]:
        """The items of the next value, which must be an array, many at once, as `item,item,...`."""
        pieces: list[bytes] = []
        nbytes, more = 0, self._enter_array()
        while more:
            piece, more = self._flat_run() or self._item()
            pieces.append(piece)
            nbytes += len(piece)
            if nbytes >= self._window or not more:
                yield b",".join(pieces)
                pieces, nbytes = [], 0

    def _enter_array(self) -> bool:
        """Whether the array that starts here has items; stands on the first one."""
        if self._next() != b"[":
            raise Unreadable("expected `array`")
        self._at += 1
        if self._next() != b"]":
            return True
        self._at += 1
        return False

    def skip(self) -> None:
        """Passes over the next value, keeping nothing of a long array."""
        if self._next() == b"[":
            for _ in self.batches():
                pass
        else:
            self.value()

    def _flat_run(self) -> tuple[bytes, bool] | None:
        """The plain items that are whole in the window, found by one search, or None; more must follow."""
        run = _FLAT_RUN.match(self._buffer, self._at)
        if run is None or run.end() == self._at:
            return None
        return self._cut(run.end() - self._at)[:-1], True

    def _item(self) -> tuple[bytes, bool]:
        """One item, however long and nested, and whether more follow."""
        item = self.value()
        return item, self._take(b",]", after="an item") == b","

    def _nested(self) -> bytes:
        """The bytes up to the bracket that closes the one we stand on."""
        depth, scanned = 0, 0
        while True:
            token = _TOKEN.match(self._buffer, self._at + scanned)
            if token is None:
                self._need_more()
                continue
            scanned = token.end() - self._at
            depth += (token[1] is not None) - (token[2] is not None)
            if depth == 0:
                return self._cut(scanned)

    def _matched(self, pattern: re.Pattern[bytes]) -> bytes:
        """The bytes of a text, number or word: complete once something follows it."""
        while True:
            match = pattern.match(self._buffer, self._at)
            if match and (match.end() < len(self._buffer) or not self._fill()):
                return self._cut(match.end() - match.start())
            if not match:
                self._complain_unless_cut(pattern)

    def _complain_unless_cut(self, pattern: re.Pattern[bytes]) -> None:
        if pattern is _SCALAR:
            found = self._buffer[self._at : self._at + 1].decode("latin-1")
            raise Unreadable(f"is not valid JSON (unexpected `{found}`)", hint=INCOMPLETE)
        self._need_more()

    def _cut(self, length: int) -> bytes:
        start, self._at = self._at, self._at + length
        return self._buffer[start : self._at]

    def _take(self, wanted: bytes, *, after: str) -> bytes:
        found = self._next()
        if found not in wanted:
            raise Unreadable(f"is not valid JSON (`{found.decode('latin-1')}` after {after[:80]})", hint=INCOMPLETE)
        self._at += 1
        return found

    def _next(self) -> bytes:
        """The next byte that is not space, which stays where it is."""
        if not self._skip_space():
            raise _too_short()
        return self._buffer[self._at : self._at + 1]

    def _skip_space(self) -> bool:
        """Whether anything but space is left; stands on it."""
        while True:
            space = _SPACE.match(self._buffer, self._at)
            self._at = space.end() if space else self._at
            if self._at < len(self._buffer):
                return True
            if not self._fill():
                return False

    def _need_more(self) -> None:
        if not self._fill():
            raise _too_short()

    def _fill(self) -> bool:
        """Whether more could be read; drops what was consumed.

        It at least doubles what is kept, so that a value longer than the window is still read in linear time.
        """
        kept = self._buffer[self._at :]
        more = self._source.read(max(self._window, len(kept)))
        self._buffer, self._at = kept + more, 0
        return bool(more)


def _too_short() -> Unreadable:
    return Unreadable("ends too early", hint=INCOMPLETE)
