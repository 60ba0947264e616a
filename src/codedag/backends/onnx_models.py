"""ONNX models of one operation, written by hand: a model is a few fields in the format of protocol buffers.

The package `onnx`, which writes such files, is large and not needed for this.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence

TYPES = {"f": 1, "d": 11, "i": 6, "l": 7, "B": 2}  # TensorProto.DataType by numpy's character
OPSET = 17
_IR_VERSION = 8
_INT, _INTS = 2, 7  # AttributeProto.AttributeType


def model(operation: str, inputs: Sequence[str], output: str, attributes: Mapping[str, int | Sequence[int]]) -> bytes:
    """A model of one operation on tensors of any shape: numpy's characters of the inputs and of the output."""
    names = [f"x{number}" for number in range(len(inputs))]
    node = b"".join(_text(1, name) for name in names) + _text(2, "y") + _text(4, operation)
    node += b"".join(_bytes(5, _attribute(name, value)) for name, value in attributes.items())
    graph = _bytes(1, node) + _text(2, operation)
    graph += b"".join(_bytes(11, _tensor(name, code)) for name, code in zip(names, inputs, strict=True))
    graph += _bytes(12, _tensor("y", output))
    return _number(1, _IR_VERSION) + _bytes(7, graph) + _bytes(8, _text(1, "") + _number(2, OPSET))


def _tensor(name: str, code: str) -> bytes:
    """A value with the type of its elements and no word about its shape."""
    return _text(1, name) + _bytes(2, _bytes(1, _number(1, TYPES[code])))


def _attribute(name: str, value: int | Sequence[int]) -> bytes:
    if isinstance(value, int):
        return _text(1, name) + _number(3, value) + _number(20, _INT)
    return _text(1, name) + b"".join(_number(8, each) for each in value) + _number(20, _INTS)


def _number(field: int, value: int) -> bytes:
    return _varint(field << 3) + _varint(value)


def _text(field: int, value: str) -> bytes:
    return _bytes(field, value.encode())


def _bytes(field: int, value: bytes) -> bytes:
    return _varint(field << 3 | 2) + _varint(len(value)) + value


def _varint(value: int) -> bytes:
    value &= (1 << 64) - 1  # negative numbers take ten bytes
    found = bytearray()
    while value > 127:
        found.append(value & 127 | 128)
        value >>= 7
    found.append(value)
    return bytes(found)
