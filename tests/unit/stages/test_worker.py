"""The process of a PU as those who ask it see it."""

from __future__ import annotations

import pytest

from codedag.stages.measuring.worker import Worker, in_one_line
from codedag.stages.runners.openvino_ import devices_of, is_on


def test_reasons_are_one_line():
    told = "RuntimeError: Exception from core.cpp:117:\\nException from plugin.cpp:54:\\nno such shape\\n\\n"
    assert in_one_line(told) == "RuntimeError: no such shape"
    assert in_one_line("ValueError: short") == "ValueError: short"
    assert len(in_one_line("x" * 5000)) == 300


def test_a_library_that_is_not_there_is_a_reason():
    answer = Worker("ort:nothing", 1).answer({"do": "hello"}, b"")
    assert answer["status"] == "failed"
    assert "has no provider `nothing`" in answer["reason"]


def test_what_nobody_knows_is_a_reason():
    assert Worker("ort:cpu", 1).answer({"do": "dance"}, b"")["status"] == "failed"
    assert Worker("ort:cpu", 1).answer({"do": "run", "key": "none"}, b"")["status"] == "failed"


class _Compiled:
    def __init__(self, said):
        self.said = said

    def get_property(self, name):
        assert name == "EXECUTION_DEVICES"
        return self.said


@pytest.mark.parametrize(
    ("device", "said", "right"),
    [
        ("CPU", ["CPU"], True),
        ("GPU", ["GPU.0"], True),
        ("GPU.1", ["GPU.1"], True),
        ("GPU.1", ["GPU.0"], False),
        ("GPU", ["GPU.0", "GPU.1"], False),
        ("NPU", "NPU", True),
        ("NPU", "NPU.3720", True),
        ("NPU", ["CPU"], False),
        ("GPU", ["GPU.0", "CPU"], False),
        ("GPU", [], False),
    ],
)
def test_the_device_that_openvino_names_is_the_one_that_was_asked(device, said, right):
    assert is_on(device, devices_of(_Compiled(said))) is right
