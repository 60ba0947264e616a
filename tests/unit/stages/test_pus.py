"""Names and phases of PUs."""

from __future__ import annotations

import pytest

from codedag.ir import Machine, Pu
from codedag.ir.machine import Absent
from codedag.stages.measuring.measure import teams
from codedag.stages.measuring.pus import UnknownPu, chosen, guide_name, our_name, phase_of, with_layouts
from codedag.stages.runners import cores_of


@pytest.mark.parametrize(
    ("ours", "guides"),
    [("ov:cpu", "CPU"), ("ov:gpu", "GPU"), ("ov:gpu.1", "GPU.1"), ("ov:npu", "NPU"), ("ort:cpu", "ort:cpu")],
)
def test_the_guides_names_are_openvinos(ours, guides):
    assert guide_name(ours) == guides
    assert our_name(guides) == ours
    assert our_name(ours) == ours


def _machine() -> Machine:
    names = ("cpu", "torch:cpu", "ort:cpu", "ov:npu", "ov:cpu")
    pus = [Pu(name=name, memory_nbytes=1, launch_seconds=0.0) for name in names]
    return Machine(pus=pus, absent=[Absent(name="ov:gpu", reason="there is no driver")])


def test_phases_come_in_the_guides_order():
    assert chosen(_machine()) == ["ov:cpu", "ov:npu", "torch:cpu", "ort:cpu"]
    assert [phase_of(pu) for pu in chosen(_machine())] == ["CPU", "NPU", "other runtimes", "other runtimes"]
    assert chosen(_machine(), ["ort:cpu", "CPU"]) == ["ov:cpu", "ort:cpu"]


def test_a_pu_that_is_not_here_is_named_with_its_reason():
    with pytest.raises(UnknownPu, match="`ov:gpu` here: there is no driver") as told:
        chosen(_machine(), ["GPU"])
    assert "ort:cpu" in told.value.hint
    with pytest.raises(UnknownPu, match="does not know it"):
        chosen(_machine(), ["tpu:9"])
    assert chosen(_machine(), ["GPU", "CPU"]) == ["ov:cpu"]


def test_host_runtimes_on_halves_of_the_cores_are_pus_of_their_own():
    found = with_layouts(_machine(), 4)
    bound = {pu.name: pu for pu in found.pus if "@" in pu.name}
    assert set(bound) == {f"{name}@{cores}" for name in ("torch:cpu", "ort:cpu", "ov:cpu") for cores in ("0-1", "2-3")}
    assert bound["ov:cpu@2-3"].cores == [2, 3]
    assert bound["ov:cpu@2-3"].resource != bound["ov:cpu@0-1"].resource
    assert cores_of("ov:cpu@2-3") == (2, 3)
    assert cores_of("ov:cpu@1") == (1,)
    assert cores_of("ov:cpu") == ()
    assert with_layouts(found, 4) == found
    assert guide_name("ov:cpu@0") == "CPU@0"
    assert our_name("CPU@0") == "ov:cpu@0"
    assert phase_of("ov:cpu@0") == "CPU"


def test_runtimes_on_two_halves_are_timed_beside_each_other():
    pus = ["ov:cpu", "ov:cpu@0", "ov:cpu@1", "ort:cpu@0", "ort:cpu@1"]
    assert teams(pus) == [("ov:cpu",), ("ov:cpu@0", "ort:cpu@1"), ("ort:cpu@0", "ov:cpu@1")]
    assert teams(["a:cpu@0"]) == [("a:cpu@0",)]
