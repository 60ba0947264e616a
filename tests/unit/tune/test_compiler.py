from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest

from codedag.ir.verdict import No
from codedag.tune import table_numba
from codedag.tune.compiler import Compiler, find_compiler, run_compiler, search_compilers
from codedag.tune.table import kernel_for


@pytest.mark.parametrize("setting", ["none", "numba", "numpy"])
def test_the_setting_switches_c_off(monkeypatch, setting):
    monkeypatch.setenv("CODEDAG_COMPILER", setting)
    found = find_compiler()
    assert isinstance(found, No)
    assert setting in found.reason


def test_a_setting_that_means_nothing_is_named(monkeypatch, compiler):
    monkeypatch.setenv("CODEDAG_COMPILER", "tcc please")
    search = search_compilers()
    assert search.found.command == compiler.command
    assert "tcc please" in search.tried[0][0]


def test_a_failing_cc_is_passed_over_with_its_reason(monkeypatch, compiler):
    monkeypatch.setenv("CC", "/bin/false")
    found = find_compiler()
    assert isinstance(found, Compiler)
    assert found.name != "$CC=/bin/false"
    assert found.tried[0][0] == "$CC=/bin/false"
    assert "exit code 1" in found.tried[0][1]


def test_a_cc_that_only_knows_its_version_is_passed_over(monkeypatch, script, compiler):
    monkeypatch.setenv(
        "CC",
        str(script("cc", '[ "$1" = --version ] && echo fake 1.0 || { echo "fatal error: no" >&2; exit 3; }')),
    )
    assert "exit code 3: fatal error: no" in find_compiler().tried[0][1]


def test_a_cc_that_writes_nothing_is_passed_over(monkeypatch, script, compiler):
    monkeypatch.setenv("CC", str(script("cc", "echo fake 1.0")))
    name, reason = find_compiler().tried[0]
    assert name.startswith("$CC=")
    assert "no result" in reason


def test_cc_may_have_arguments(monkeypatch, compiler):
    monkeypatch.setenv("CC", f"{compiler.command[0]} -pipe")
    assert find_compiler().command == (compiler.command[0], "-pipe")


@pytest.mark.parametrize("text", ["'open quote", "/no/such/compiler"])
def test_a_cc_that_cannot_be_started_is_passed_over(monkeypatch, compiler, text):
    monkeypatch.setenv("CC", text)
    assert "cannot be started" in find_compiler().tried[0][1]


def test_no_compiler_at_all_says_what_was_tried(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path))
    search = search_compilers()
    assert isinstance(search.found, No)
    assert [name for name, _ in search.tried] == ["$CC=/bin/false", "cc", "gcc", "clang", "ziglang"]
    assert all(reason for _, reason in search.tried)
    assert "gcc: not on PATH" in search.found.reason


def test_without_a_compiler_and_numba_the_kernel_is_numpy(monkeypatch, tmp_path):
    monkeypatch.setenv("CC", "/bin/false")
    monkeypatch.setenv("PATH", str(tmp_path))
    monkeypatch.setattr(table_numba, "numba_version", lambda: No("numba is not installed"))
    view, out = np.arange(6, dtype=np.uint8).reshape(2, 3), np.empty((2, 3), np.float32)
    kernel = kernel_for(view, (0, 0), np.float32, out)
    assert kernel.engine == "numpy"
    assert [name for name, _ in kernel.declined] == ["c", "numba"]
    kernel.apply(view, np.arange(256, dtype=np.float32).reshape(1, 256) / 2, (0, 0), out)
    assert out.tolist() == [[0, 0.5, 1], [1.5, 2, 2.5]]


def test_ziglang_is_the_last_resort(monkeypatch, tmp_path, compiler):
    near = f"-B{Path(compiler.command[0]).parent}"  # its assembler and linker: PATH will be empty
    package = tmp_path / "ziglang"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "__main__.py").write_text(
        "import os, sys\n"
        "words = [word for word in sys.argv[2:] if word != '-fno-sanitize=undefined']\n"
        f"os.execv({compiler.command[0]!r}, [{compiler.command[0]!r}, {near!r}, *words])\n"
    )
    monkeypatch.syspath_prepend(str(tmp_path))
    monkeypatch.setenv("PYTHONPATH", str(tmp_path))
    monkeypatch.setenv("CC", "")
    monkeypatch.setenv("PATH", str(tmp_path))
    found = find_compiler()
    assert isinstance(found, Compiler), found
    assert found.name == "ziglang"
    assert found.command == (sys.executable, "-m", "ziglang", "cc")


def test_native_code_is_asked_for_where_the_compiler_knows_it(monkeypatch, script, compiler):
    real = compiler.command[0]
    picky = script("cc", f'for a in "$@"; do [ "$a" = -march=native ] && exit 1; done; exec {real} "$@"')
    assert "-march=native" in compiler.flags
    monkeypatch.setenv("CC", str(picky))
    assert "-march=native" not in find_compiler().flags
    assert "-ffp-contract=off" in find_compiler().flags


def test_an_error_in_the_source_is_reported(compiler, tmp_path):
    source = tmp_path / "bad.c"
    source.write_text("int f( {")
    refused = run_compiler(compiler, source, tmp_path / "bad.so")
    assert isinstance(refused, No)
    assert "error" in refused.reason


def test_importing_the_room_loads_no_numba(child_environment):
    code = "import sys, codedag.tune.table; assert 'numba' not in sys.modules"
    subprocess.run([sys.executable, "-c", code], env=child_environment, check=True)
