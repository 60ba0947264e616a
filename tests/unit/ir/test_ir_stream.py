from __future__ import annotations

import io
import json

import pytest

from codedag.ir.reject import Unreadable
from codedag.ir.stream import JsonStream

ODD = ["}],{", '"', '\\"', "\\", "[{", "é\n", "", 'a":{"b', "\\\\"]
ITEMS = [{"a": 1, "b": text} for text in ODD] + [{"n": {"m": [text, {}]}} for text in ODD] + [3, None, "x", [], {}]


def walk(raw, window, many):
    stream, found = JsonStream(io.BytesIO(raw), window), {}
    for key in stream.fields():
        if key == "list":
            batches = stream.batches() if many else stream.items()
            found[key] = [one for batch in batches for one in json.loads(b"[%b]" % batch)]
        else:
            found[key] = json.loads(stream.value())
    return found


@pytest.mark.parametrize("indent", [None, 3])
@pytest.mark.parametrize("window", [1, 2, 7, 64, 1 << 20])
@pytest.mark.parametrize("many", [True, False])
def test_every_window_finds_the_same_boundaries(window, indent, many):
    whole = {"a": 1.5e3, "list": ITEMS, 'k"e}y': {"x": ITEMS}, "empty": [], "t": True, "s": "}"}
    assert walk(json.dumps(whole, indent=indent).encode(), window, many) == whole


def test_values_can_be_skipped():
    stream = JsonStream(io.BytesIO(json.dumps({"a": ITEMS, "b": {"c": ITEMS}, "d": 4}).encode()), 5)
    names = []
    for key in stream.fields():
        names.append(key)
        stream.skip()
    assert names == ["a", "b", "d"]


@pytest.mark.parametrize("window", [1, 1 << 20])
@pytest.mark.parametrize(
    ("raw", "words"),
    [
        (b"", "is empty"),
        (b" \n ", "is empty"),
        (b"[]", "is not a JSON object"),
        (b"\x89PNG\r\n", "is not a JSON object"),
        (b"{", "ends too early"),
        (b'{"a', "ends too early"),
        (b'{"a"', "ends too early"),
        (b'{"a":', "ends too early"),
        (b'{"a":1', "ends too early"),
        (b'{"a":[1', "ends too early"),
        (b'{"a":[1,', "ends too early"),
        (b'{"a":{"b":"', "ends too early"),
        (b'{"a":1}x', "follows"),
        (b'{"a":1}{', "follows"),
        (b'{"a" 1}', "after a"),
        (b'{"a":1 "b"}', "after a"),
        (b'{"a":1,}', "unexpected `}`"),
        (b'{"a":[1,]}', "unexpected `]`"),
        (b'{"a":[1 2]}', "after an item"),
        (b'{"a":}', "unexpected `}`"),
        (b"{a:1}", "expected `str`|valid JSON"),
        (b"{1:1}", "expected `str`"),
    ],
)
def test_faults(raw, words, window):
    with pytest.raises(Unreadable, match=words):
        skip_all(JsonStream(io.BytesIO(raw), window))


def skip_all(stream):
    for _ in stream.fields():
        stream.skip()


class CountingSource(io.BytesIO):
    def __init__(self, raw):
        super().__init__(raw)
        self.sizes = []

    def read(self, size=-1):
        self.sizes.append(size)
        return super().read(size)


def test_a_value_longer_than_the_window_takes_few_reads():
    source = CountingSource(b'{"a":"' + b"x" * 1_000_000 + b'"}')
    stream = JsonStream(source, 16)
    for _ in stream.fields():
        assert len(stream.value()) == 1_000_002
    assert len(source.sizes) < 30  # doubling: 16 * 2**16 is a million


def test_a_long_array_is_never_held_whole():
    source = CountingSource(json.dumps({"a": [{"b": i} for i in range(20_000)]}).encode())
    stream = JsonStream(source, 1000)
    for _ in stream.fields():
        assert max(map(len, stream.batches())) < 4000
    assert max(source.sizes) == 1000
