from __future__ import annotations

import json
import subprocess
import sys

import pytest

from codedag.ir.verdict import No
from codedag.tune.compiler import run_compiler
from codedag.tune.prove_kernel import NUMBA, prove
from codedag.tune.table_numba import numba_version
from codedag.tune.table_source import source

LAST = "codedag_table(const uint8_t *view, const T *table, T *out, const Axis *a)\n{"


@pytest.fixture
def library(compiler, tmp_path):
    """Compiles a text to a shared library."""

    def make(text: str):
        (tmp_path / "kernel.c").write_text(text)
        assert run_compiler(compiler, tmp_path / "kernel.c", tmp_path / "kernel.so") is None
        return tmp_path / "kernel.so"

    return make


WRONG = source(4, 3).replace("t[v[i * step]]", "t[v[i * step] ^ 1]")


def planted(statement: str) -> str:
    """A kernel with a fault: `statement` runs before the right walk."""
    text = source(4, 3)
    assert LAST in text
    return text.replace(LAST, f"{LAST}\n    {statement}")


@pytest.mark.parametrize(("itemsize", "channels"), [(1, 0), (2, 4), (4, 3), (8, 2), (16, 16)])
def test_a_right_kernel_is_proven(library, itemsize, channels):
    assert prove(library(source(itemsize, channels)), itemsize, channels)


FAULTS = {
    "overruns the table": ("table += 256;", "differs from numpy|SIGSEGV"),
    "forgets a rare case": ("if (a[4].n == 2) return;", "differs from numpy"),
    "writes before out": ("memset((char *)out - 3, 1, 2);", "outside of out"),
    "writes behind out": (
        "memset((char *)(out + a[0].n * a[1].n * a[2].n * a[3].n * a[4].n) + 90, 1, 2);",
        "outside",
    ),
    "crashes": ("*(volatile int *)8 = 1;", "SIGSEGV"),
    "aborts": ("__builtin_trap();", "crashed"),
    "reads behind the view": ("volatile uint8_t x = view[(1 << 20) + 1]; (void)x;", "SIGSEGV|SIGBUS"),
}


@pytest.mark.parametrize("fault", FAULTS)
def test_a_wrong_kernel_is_caught(library, fault):
    statement, why = FAULTS[fault]
    verdict = prove(library(planted(statement)), 4, 3)
    assert isinstance(verdict, No)
    assert any(word in verdict.reason for word in why.split("|")), verdict.reason


def test_a_wrong_element_is_caught(library):
    assert source(4, 3) != WRONG
    assert "differs from numpy" in prove(library(WRONG), 4, 3).reason


def test_a_stray_read_of_a_whole_vector_is_caught(library):
    careless = source(4, 0).replace("_mm512_maskz_loadu_epi8(k->last, end)", "_mm512_loadu_si512(end + 3)")
    assert careless != source(4, 0)
    if not _has_vbmi():
        pytest.skip("no byte permutes here")
    assert isinstance(prove(library(careless), 4, 0), No)


def _has_vbmi() -> bool:
    try:
        with open("/proc/cpuinfo") as text:
            return "avx512vbmi" in text.read()
    except OSError:
        return False


def test_a_kernel_that_never_ends_is_caught(library):
    verdict = prove(library(planted("for (volatile int i = 1; i;);")), 4, 3, seconds=2)
    assert isinstance(verdict, No)
    assert "did not finish" in verdict.reason


def test_what_is_no_kernel_is_caught(library, tmp_path):
    assert "cannot be loaded" in prove(library("int other(void) { return 1; }\n"), 4, 3).reason
    (tmp_path / "text.so").write_text("not a library")
    assert "cannot be loaded" in prove(tmp_path / "text.so", 4, 3).reason


def test_the_command_line(library, child_environment):
    spec = json.dumps({"itemsize": 4, "channels": 3})
    for text, code in ((source(4, 3), 0), (WRONG, 1)):
        command = [sys.executable, "-m", "codedag.tune.prove_kernel", str(library(text)), spec]
        done = subprocess.run(command, env=child_environment, capture_output=True, text=True)
        assert done.returncode == code, done.stderr
        assert bool(done.stderr) == bool(code)


def test_the_numba_walk_is_proven():
    if isinstance(numba_version(), No):
        pytest.skip(numba_version().reason)
    assert prove(NUMBA, 4, 3)


def test_without_an_interpreter_nothing_is_proven(monkeypatch):
    monkeypatch.setattr(sys, "executable", "")
    assert isinstance(prove("anything", 4, 3), No)
