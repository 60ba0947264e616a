from __future__ import annotations

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.tune import addresses, table_numba
from codedag.tune.layout import layout_of
from codedag.tune.machine_key import machine_key
from codedag.tune.table import LAYOUTS_MAX, TableKernel, TableSpec, kernel_for, kernel_of
from codedag.tune.table_numpy import apply_numpy

VIEW = np.arange(24, dtype=np.uint8).reshape(2, 4, 3)
TABLE = np.arange(768, dtype=np.float32).reshape(3, 256)
STEP = (0, 0, 1)


def out_of(shape=(2, 4, 3), dtype=np.float32):
    return np.full(shape, 7, dtype)


def frozen():
    out = out_of()
    out.flags.writeable = False
    return out


@pytest.fixture
def kernel():
    return TableKernel("numpy", TableSpec(4, 3), apply_numpy)


MISFITS = [
    (VIEW.astype(np.int8), TABLE, STEP, out_of(), "uint8"),
    (VIEW, TABLE, STEP, out_of((2, 4, 4)), "contiguous|shape"),
    (VIEW, TABLE, STEP, frozen(), "writeable"),
    (VIEW, TABLE.astype(np.float64), STEP, out_of(), "one dtype"),
    (VIEW, TABLE.astype(np.float64), STEP, out_of(dtype=np.float64), "one dtype|contiguous"),
    (VIEW, TABLE.astype(np.int32), STEP, out_of(), "one dtype"),
    (VIEW, TABLE[:2], STEP, out_of(), "3 rows"),
    (VIEW, TABLE[:, ::-1], STEP, out_of(), "contiguous"),
    (VIEW, TABLE[:, :255].copy(), STEP, out_of(), "256"),
    (VIEW, TABLE.ravel(), STEP, out_of(), "256"),
    (VIEW, TABLE, (0, 0, -1), out_of(), "negative"),
    (VIEW, TABLE.tolist(), STEP, out_of(), "numpy arrays"),
]


@pytest.mark.parametrize(("view", "table", "row_step", "out", "why"), MISFITS)
def test_arrays_that_do_not_fit_are_refused_before_anything_is_written(kernel, view, table, row_step, out, why):
    assert not kernel.accepts(view, row_step, table, out)
    with pytest.raises(ValueError, match=why):
        kernel.apply(view, table, row_step, out)
    assert (out == 7).all()


def test_a_broadcast_out_is_refused(kernel):
    shared = np.lib.stride_tricks.as_strided(np.zeros(1, np.float32), (2, 4, 3), (0, 0, 0))
    assert not kernel.accepts(VIEW, STEP, TABLE, shared)


@pytest.mark.parametrize(
    ("view", "dtype", "out", "why"),
    [
        (VIEW.astype(np.int16), "f4", out_of(), "int16"),
        (VIEW, "f8", out_of(), "dtype of the table"),
        (VIEW, "f4", out_of((4, 2, 3)), "shape of view"),
        (VIEW, "O", np.empty((2, 4, 3), "O"), "plain elements"),
        (VIEW, "S3", np.empty((2, 4, 3), "S3"), "plain elements"),
        (VIEW, "f4", np.empty((2, 4, 6), "f4")[..., ::2], "not contiguous"),
    ],
)
def test_kernel_for_says_why_not(view, dtype, out, why):
    refused = kernel_for(view, STEP, dtype, out)
    assert isinstance(refused, No)
    assert why in refused.reason


def test_a_c_kernel_of_other_channels_is_not_the_right_one(compiler):
    big = np.zeros((40, 40, 3), np.uint8)
    kernel = kernel_of(TableSpec(4, 0))
    assert kernel.engine == "c", kernel.declined
    assert not kernel.accepts(big, STEP, TABLE, np.empty(big.shape, np.float32))
    assert kernel.accepts(VIEW, STEP, TABLE, out_of())
    assert kernel.accepts(big[..., 0], (0, 0), TABLE, np.empty((40, 40), np.float32))


def test_a_kernel_is_made_once(compiler):
    assert kernel_of(TableSpec(2, 0)) is kernel_of(TableSpec(2, 0))


def test_numpy_integers_may_be_row_steps(kernel):
    out = out_of()
    kernel.apply(VIEW, TABLE, tuple(np.array(STEP)), out)
    assert (out == TABLE[np.arange(3), VIEW]).all()


def test_remembered_layouts_are_bounded(kernel):
    for n in range(1, LAYOUTS_MAX + 10):
        assert kernel.accepts(np.zeros(n, np.uint8), (0,), TABLE, np.empty(n, np.float32))
    assert len(kernel._layouts) <= LAYOUTS_MAX


def test_a_broken_numba_is_a_reason(monkeypatch):
    monkeypatch.setenv("CODEDAG_COMPILER", "none")
    monkeypatch.setattr(table_numba, "numba_version", lambda: No("numba cannot be imported: it needs numpy 9"))
    kernel = kernel_of(TableSpec(1, 0))
    assert kernel.engine == "numpy"
    assert ("numba", "numba cannot be imported: it needs numpy 9") in kernel.declined


def test_a_numba_walk_that_fails_its_proof_is_not_used(monkeypatch):
    from codedag.tune import table

    monkeypatch.setenv("CODEDAG_COMPILER", "numba")
    monkeypatch.setattr(table_numba, "numba_version", lambda: "0.0")
    monkeypatch.setattr(table, "prove", lambda *_: No("the kernel crashed in its proof (SIGILL)"))
    kernel = kernel_of(TableSpec(8, 0))
    assert kernel.engine == "numpy"
    assert "SIGILL" in dict(kernel.declined)["numba"]


def test_the_address_of_an_array_is_what_numpy_says():
    for array in (VIEW, VIEW[:, ::-1], VIEW[1:, 2:], TABLE, np.empty((0, 3))):
        assert addresses.address_of()(array) == array.ctypes.data


def test_without_cpython_the_official_address_is_used(monkeypatch):
    monkeypatch.setattr(addresses.sys.implementation, "name", "other")
    assert not addresses._header_agrees()
    assert addresses._official(VIEW) == VIEW.ctypes.data


def test_the_machine_key_names_the_processor_and_the_interface():
    assert len(machine_key().splitlines()) >= 2


def test_a_size_of_zero_runs_nothing():
    def never(*_):
        raise AssertionError("called")

    TableKernel("c", TableSpec(4, 3), never).apply(VIEW[:0], TABLE, STEP, np.empty((0, 4, 3), np.float32))
    assert layout_of((0, 4, 3), VIEW.strides, STEP, (48, 12, 4), 4).size == 0
