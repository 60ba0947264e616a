"""Every engine of table kernels against one line of numpy, over random shapes, strides and dtypes."""

from __future__ import annotations

import dataclasses
import platform
import threading

import numpy as np
import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from codedag.ir.verdict import No, Yes
from codedag.tune import kernel_cache, table_numba
from codedag.tune.compiler import find_compiler
from codedag.tune.layout import layout_of
from codedag.tune.table import TableKernel, TableSpec, kernel_for, kernel_of
from codedag.tune.table_c import load_c
from codedag.tune.table_reference import table_reference
from codedag.tune.table_source import source

DTYPES = ("u1", "?", "i2", "f4", ">f4", "f8", "i8", "c8", "c16", "m8[s]")
SETTINGS = {"c": "", "c without byte permutes": "", "numba": "none", "numpy": "numpy"}
ENGINES = tuple(SETTINGS)
CHANNELS = (0, 3, 6)  # compiled into the kernels under test; 3 has the widest code, 6 the plain loops


@pytest.fixture(scope="module")
def home(tmp_path_factory):
    """One cache for the module, so that each kernel is compiled once."""
    return tmp_path_factory.mktemp("kernels-home")


@pytest.fixture(params=ENGINES)
def engine(request, home, monkeypatch):
    """The name of an engine, in a process where it is the one that is chosen."""
    monkeypatch.setenv("CODEDAG_HOME", str(home))
    monkeypatch.setenv("CODEDAG_COMPILER", SETTINGS[request.param])
    if request.param.startswith("c") and not find_compiler():
        pytest.skip(find_compiler().reason)
    if request.param == "numba" and not table_numba.numba_version():
        pytest.skip(table_numba.numba_version().reason)
    return request.param


@st.composite
def jobs(draw):
    """(view, table, row_step, out): any strides of `view`, any order of the axes of `out`."""
    ndim = draw(st.integers(1, 5))
    most = (3000, 90, 40, 12, 7)[ndim - 1]
    shape = [draw(st.one_of(st.sampled_from((1, 2, 3, 6)), st.integers(0, most))) for _ in range(ndim)]
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    view = strided(draw, numbers, shape)
    row_step = tuple(draw(st.sampled_from((0, 0, 0, 1, 2))) for _ in range(ndim))
    table = table_of(numbers, rows_of(view, row_step), np.dtype(draw(st.sampled_from(DTYPES))))
    order = draw(st.permutations(range(ndim)))
    out = np.empty([view.shape[a] for a in order], table.dtype).transpose(np.argsort(order))
    return view, table, row_step, out


@st.composite
def images(draw):
    """Jobs as pipelines have them: NHWC, flipped or cropped, to the same order or channels first."""
    batch, high, wide = draw(st.integers(1, 3)), draw(st.integers(1, 50)), draw(st.integers(1, 150))
    many = draw(st.sampled_from((1, 2, 3, 4, 6)))
    numbers = np.random.default_rng(draw(st.integers(0, 2**32)))
    view = numbers.integers(0, 256, (batch, high, wide, many), dtype=np.uint8)
    view = view[:, high // 7 :, wide // 9 :] if draw(st.booleans()) else view
    view = view[:, :, ::-1] if draw(st.booleans()) else view
    view = view[:, ::-1] if draw(st.booleans()) else view
    view = view[..., ::-1] if draw(st.booleans()) else view
    table = table_of(numbers, many, np.dtype(draw(st.sampled_from(DTYPES))))
    if draw(st.booleans()):
        view, row_step = view.transpose(0, 3, 1, 2), (0, 1, 0, 0)
    else:
        row_step = (0, 0, 0, 1)
    out = np.empty(view.shape, table.dtype) if draw(st.booleans()) else np.empty_like(view, table.dtype)
    return view, table, row_step, out


def strided(draw, numbers, shape):
    order = draw(st.permutations(range(len(shape))))
    view = numbers.integers(0, 256, [shape[a] for a in order], dtype=np.uint8).transpose(np.argsort(order))
    cuts = {
        "whole": lambda n: slice(None),
        "flipped": lambda n: slice(None, None, -1),
        "cropped": lambda n: slice(n // 4, n - n // 5),
        "thinned": lambda n: slice(None, None, draw(st.integers(2, 6))),
        "backwards": lambda n: slice(None, None, -3),
    }
    view = view[tuple(cuts[draw(st.sampled_from(("whole", *cuts)))](n) for n in shape)]
    return np.broadcast_to(view[:1], view.shape) if draw(st.integers(0, 9)) == 0 else view


def rows_of(view, row_step):
    return 1 + sum(max(n - 1, 0) * step for n, step in zip(view.shape, row_step))


def table_of(numbers, rows, dtype):
    """All bit patterns, NaNs with payloads among them: a table is copied, never computed with."""
    numbers_of_bytes = numbers.integers(0, 2 if dtype.kind == "b" else 256, rows * 256 * dtype.itemsize, np.uint8)
    return numbers_of_bytes.view(dtype).reshape(rows, 256)


def same_bytes(left, right):
    same_kind = left.dtype == right.dtype and left.shape == right.shape
    return same_kind and np.ascontiguousarray(left).tobytes() == np.ascontiguousarray(right).tobytes()


def kernel(engine, itemsize, channels):
    if engine != "c without byte permutes":
        return kernel_of(TableSpec(itemsize, channels))
    compiler = find_compiler()
    if platform.machine() in ("x86_64", "AMD64"):
        compiler = dataclasses.replace(compiler, flags=(*compiler.flags, "-mno-avx512vbmi"))
    built = kernel_cache.build(source(itemsize, channels), compiler, lambda library: Yes)
    return TableKernel("c", TableSpec(itemsize, channels), load_c(built.path))


def check(engine, channels, job):
    view, table, row_step, out = job
    if isinstance(layout_of(view.shape, view.strides, row_step, out.strides, out.itemsize), No):
        pytest.fail("a job that a kernel should take was declined")
    used = kernel(engine, out.itemsize, channels)
    wanted = "numpy" if engine == "numba" and out.itemsize == 16 else engine.split()[0]
    assert used.engine == wanted, used.declined
    used.apply(view, table, row_step, out)
    assert same_bytes(out, table_reference(view, table, row_step))
    return used


relaxed = settings(
    max_examples=80,
    deadline=None,
    suppress_health_check=[HealthCheck.too_slow, HealthCheck.function_scoped_fixture],
)


@pytest.mark.long
@relaxed
@given(job=jobs(), channels=st.sampled_from(CHANNELS))
def test_any_job_equals_numpy(engine, job, channels):
    check(engine, channels, job)


@pytest.mark.long
@relaxed
@given(job=images(), channels=st.sampled_from(CHANNELS))
def test_images_equal_numpy(engine, job, channels):
    check(engine, channels, job)


def test_the_chosen_engine_is_the_one_asked_for(engine):
    name = "c" if engine.startswith("c") else engine
    used = kernel_of(TableSpec(4, 0))
    assert used.engine == name, used.declined
    assert [engine for engine, _ in used.declined] == ["c", "numba"][: {"c": 0, "numba": 1, "numpy": 1}[name]]


def test_many_rows_on_several_axes(engine, seed):
    numbers = np.random.default_rng(seed)
    view = numbers.integers(0, 256, (16, 32, 8), dtype=np.uint8)
    table = table_of(numbers, 4096, np.dtype("f4"))
    check(engine, 0, (view, table, (256, 8, 1), np.empty(view.shape, "f4")))
    check(engine, 0, (view[::-1], table, (1, 128, 16), np.empty(view.shape, "f4")))


@pytest.mark.parametrize("dtype", ["u2", "f4", "f8", "c16"])
def test_tables_and_results_need_no_alignment(engine, seed, dtype):
    numbers, dtype = np.random.default_rng(seed), np.dtype(dtype)
    view = numbers.integers(0, 256, (30, 70, 3), dtype=np.uint8)
    table = np.empty(768 * dtype.itemsize + 1, np.uint8)[1:].view(dtype).reshape(3, 256)
    table[:] = table_of(numbers, 3, dtype)
    out = np.empty(view.size * dtype.itemsize + 1, np.uint8)[1:].view(dtype)
    assert not out.flags.aligned
    check(engine, 3, (view, table, (0, 0, 1), out.reshape(view.shape)))
    check(engine, 3, (view.transpose(2, 0, 1), table, (1, 0, 0), out.reshape(3, 30, 70)))


def test_read_only_inputs_are_taken(engine, seed):
    numbers = np.random.default_rng(seed)
    view, table = numbers.integers(0, 256, (30, 70, 3), dtype=np.uint8), table_of(numbers, 3, np.dtype("f4"))
    view.flags.writeable = table.flags.writeable = False
    check(engine, 3, (view, table, (0, 0, 1), np.empty(view.shape, "f4")))


def test_images_of_all_sizes_share_a_kernel(engine, seed):
    numbers = np.random.default_rng(seed)
    first = kernel_for(numbers.integers(0, 256, (9, 8, 3), dtype=np.uint8), (0, 0, 1), "f4", np.empty((9, 8, 3), "f4"))
    table = table_of(numbers, 3, np.dtype("f4"))
    for high, wide in ((224, 224), (31, 1), (1, 77), (1, 1), (128, 65)):
        view = numbers.integers(0, 256, (high, wide, 3), dtype=np.uint8)[:, ::-1]
        out = np.empty(view.shape, "f4")
        assert first.accepts(view, (0, 0, 1), table, out)
        assert kernel_for(view, (0, 0, 1), "f4", out) is first or high * wide == 1
        first.apply(view, table, (0, 0, 1), out)
        assert same_bytes(out, table_reference(view, table, (0, 0, 1)))


def test_threads_share_a_kernel(engine, seed):
    numbers = np.random.default_rng(seed)
    used = kernel(engine, 4, 0)
    wrong = []

    def work(number):
        view = numbers_of(number).integers(0, 256, (40 + number, 50, 3), dtype=np.uint8).transpose(2, 0, 1)
        table = table_of(numbers_of(number), 3, np.dtype("f4"))
        for _ in range(30):
            out = np.empty(view.shape, "f4")
            used.apply(view, table, (1, 0, 0), out)
            if not same_bytes(out, table_reference(view, table, (1, 0, 0))):
                wrong.append(number)

    def numbers_of(number):
        return np.random.default_rng(number)

    numbers.shuffle(order := list(range(4)))
    threads = [threading.Thread(target=work, args=(number,)) for number in order]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert wrong == []
