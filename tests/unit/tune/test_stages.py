"""Stages: what is fused, what is kept apart, which rows all stages share, and which class follows."""

from __future__ import annotations

import subprocess

import numpy as np
import pytest

from codedag.tune.declined import CannotTune
from codedag.tune.program.record import record
from codedag.tune.schedule.byte_map import byte_map_of
from codedag.tune.schedule.contraction import contraction_of
from codedag.tune.schedule.family import EXACT, ULP, family_of
from codedag.tune.schedule.stages import choices_of, staged
from codedag.tune.task import Task, arrays_like


def _staged(function, like, apart=()):
    return staged(record(function, arrays_like(like)), apart)


def test_operations_on_elements_are_fused_into_the_result(codedag_home):
    assert len(_staged(lambda x: (x * 2 + 1) / 3, "f4[5,6]").stages) == 1


def test_rows_are_the_axes_that_all_stages_share(codedag_home):
    found = _staged(lambda x: x - x.mean(-1, keepdims=True), "f4[3,5,70]")
    assert (found.rows_axes, found.rows) == (2, 15)
    assert _staged(lambda x: x - x.mean(), "f4[3,5,70]").rows_axes == 0


def test_the_same_sum_is_computed_once(codedag_home):
    found = _staged(lambda x: (x - x.mean(1, keepdims=True)) / x.std(1, keepdims=True), "f4[9,50]")
    assert sum(stage.reduction is not None for stage in found.stages) == 2


def test_a_value_that_is_used_twice_may_be_kept_apart(codedag_home):
    def function(x):
        y = np.sqrt(x) + 1
        return y / y.sum(1, keepdims=True)

    program = record(function, arrays_like("f4[9,50]"))
    (name,) = choices_of(program)
    assert len(staged(program, (name,)).stages) == len(staged(program).stages) + 1


def test_what_does_not_lie_in_one_line_is_written_before_it_is_added_up(codedag_home):
    found = _staged(lambda x, m: (x - m).mean(), "f4[9,11,3],f4[3]")
    assert [stage.reduction is not None for stage in found.stages] == [False, True, False]


def test_exp_of_a_flipped_array_is_not_exact(codedag_home):
    """numpy takes another function for it."""
    flipped = family_of(record(lambda x: np.exp(x[::-1]), arrays_like("f8[100]")))
    assert flipped.exactness == ULP
    assert family_of(record(lambda x: np.exp(x), arrays_like("f8[100]"))).exactness == EXACT


def test_a_function_whose_order_is_unknown_needs_leave(codedag_home):
    def function(x):
        return x.T - x.T.sum(0)

    with pytest.raises(CannotTune, match="adds up in an order"):
        Task.of(function, like="f4[30,40]")
    assert Task.of(function, like="f4[30,40]", allow=("ulp",)).exactness == ULP


def test_a_product_within_other_operations_is_declined(codedag_home):
    with pytest.raises(CannotTune, match="a product within other operations"):
        Task.of(lambda a, b: (a @ b) + 1, like="f4[4,5],f4[5,6]")


def test_chains_on_bytes_are_maps_by_channel(codedag_home):
    found = _staged(lambda x, m: ((x / 255.0) - m).transpose(2, 0, 1).astype(np.float32).copy(), "u1[4,5,3],f8[3]")
    mapping = byte_map_of(found)
    assert (mapping.pixels, mapping.channels, mapping.pixel, mapping.out_channel) == (20, 3, 3, 20)
    assert byte_map_of(_staged(lambda x: x * 2.0, "f4[4,5]")) is None


def test_operands_are_swapped_so_that_columns_are_contiguous(codedag_home):
    program = record(lambda a, b: np.einsum("ki,jk->ji", a, b), arrays_like("f4[4,50],f4[60,4]"))
    found = contraction_of(program)
    assert found.swapped
    assert [axis.extent for axis in (*found.rows, *found.columns, *found.inner)] == [60, 50, 4]


LIMITED = {
    "relu": (lambda x: np.maximum(x, 0), "f4[200,300]"),
    "relu f8": (lambda x: np.maximum(x, 0) + 1, "f8[200,300]"),
    "unit interval": (lambda x: np.clip(x * 2, 0, 1), "f4[200,300]"),
    "relu 6": (lambda x: np.minimum(np.maximum(x, 0), 6) / 6, "f4[200,300]"),
    "bytes": (lambda x: np.clip(x * 2 + 3, 0, 255).astype(np.uint8), "f4[200,300]"),
}


@pytest.mark.parametrize("name", LIMITED)
def test_a_limit_of_zero_leaves_the_loop_its_vectors(name, compiler, codedag_home, tmp_path):
    """What is told of zeros of both signs and of NaN must not become branches."""
    if "gcc" not in compiler.version.lower() and "free software" not in compiler.version.lower():
        pytest.skip("another compiler does not say what it made vectors of")
    function, like = LIMITED[name]
    source = tmp_path / "kernel.c"
    emitted = Task.of(function, like=like).family.emitted({"sketch": "rows", "vb": 32, "unroll": 1})
    source.write_text(emitted.source)
    command = [*compiler.command, *compiler.flags, *emitted.flags, "-fopt-info-vec-optimized", "-c", str(source)]
    said = subprocess.run([*command, "-o", str(tmp_path / "k.o")], capture_output=True, text=True, check=True)
    assert "loop vectorized" in said.stderr
