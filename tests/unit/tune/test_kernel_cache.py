from __future__ import annotations

import dataclasses
import errno
import json
import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from codedag.ir.verdict import No, Yes
from codedag.tune import kernel_cache
from codedag.tune.kernel_cache import Built, build, remember_proof, remembered_proof
from codedag.tune.table import TableSpec, kernel_of

SOURCE = "int codedag_table(void) { return 3; }\n"
PROGRAM = """
import json, numpy as np
from codedag.tune.table import kernel_for
view = np.arange(60, dtype=np.uint8).reshape(4, 5, 3)
out = np.empty(view.shape, np.float32)
kernel = kernel_for(view, (0, 0, 1), np.float32, out)
kernel.apply(view, np.arange(768, dtype=np.float32).reshape(3, 256), (0, 0, 1), out)
print(json.dumps([kernel.engine, kernel.note, float(out.sum()), kernel.declined]))
"""
SUM = float(sum(range(60)) + 20 * (256 + 512))


@pytest.fixture
def folder(codedag_home):
    return codedag_home / "cache" / "kernels"


class Proofs:
    """A prover that counts."""

    def __init__(self, verdict=Yes):
        self.verdict, self.count = verdict, 0

    def __call__(self, library: Path):
        self.count += 1
        assert library.stat().st_size > 0
        return self.verdict


def entries(folder):
    return sorted(path.suffix for path in folder.iterdir())


def sole(folder, suffix):
    (path,) = folder.glob(f"*{suffix}")
    return path


def test_an_entry_is_source_library_and_proof(folder, compiler):
    built = build(SOURCE, compiler, Proofs())
    assert isinstance(built, Built)
    assert not built.note
    assert entries(folder) == [".c", ".json", ".so"]
    entry = json.loads(sole(folder, ".json").read_text())
    assert (entry["format"], entry["version"], entry["proven"]) == ("codedag/kernel", 1, True)
    assert entry["library"] == built.path.name
    assert folder.stat().st_mode & 0o777 == 0o700


def test_the_second_time_nothing_is_compiled_or_proven(folder, compiler):
    first, proofs = build(SOURCE, compiler, Proofs()), Proofs()
    no_compiler = dataclasses.replace(compiler, tried=(("x", "y"),))
    assert build(SOURCE, no_compiler, proofs) == first
    assert proofs.count == 0


def test_another_compiler_or_flag_is_another_kernel(folder, compiler):
    build(SOURCE, compiler, Proofs())
    for other in ({"version": "cc 99"}, {"flags": (*compiler.flags, "-O1")}):
        proofs = Proofs()
        build(SOURCE, dataclasses.replace(compiler, **other), proofs)
        assert proofs.count == 1


def test_another_processor_is_another_kernel(monkeypatch):
    here = kernel_cache.kernel_key("text")
    monkeypatch.setattr(kernel_cache, "machine_key", lambda: "another processor")
    assert kernel_cache.kernel_key("text") != here


def test_parts_of_a_key_do_not_run_together():
    assert kernel_cache.kernel_key("ab", "c") != kernel_cache.kernel_key("a", "bc")


DAMAGE = {
    "truncated": lambda path: path.write_bytes(path.read_bytes()[:1000]),
    "empty": lambda path: path.write_bytes(b""),
    "one bit": lambda path: path.write_bytes(path.read_bytes()[:-1] + bytes([path.read_bytes()[-1] ^ 1])),
    "gone": lambda path: path.unlink(),
}


@pytest.mark.parametrize("damage", DAMAGE)
def test_a_damaged_library_is_built_again(folder, compiler, damage):
    built = build(SOURCE, compiler, Proofs())
    whole = built.path.read_bytes()
    DAMAGE[damage](built.path)
    proofs = Proofs()
    again = build(SOURCE, compiler, proofs)
    assert proofs.count == 1
    assert again.path.read_bytes() == whole


@pytest.mark.parametrize(
    "text", ["", "{", "[]", "null", '{"format": "codedag/kernel", "version": 2}', '{"proven": true}']
)
def test_a_damaged_entry_is_built_again(folder, compiler, text):
    build(SOURCE, compiler, Proofs())
    sole(folder, ".json").write_text(text)
    proofs = Proofs()
    assert isinstance(build(SOURCE, compiler, proofs), Built)
    assert proofs.count == 1
    assert json.loads(sole(folder, ".json").read_text())["proven"] is True


def test_an_entry_cannot_name_a_library_elsewhere(folder, compiler, tmp_path):
    built = build(SOURCE, compiler, Proofs())
    entry = json.loads(sole(folder, ".json").read_text())
    (tmp_path / "evil.so").write_bytes(built.path.read_bytes())
    sole(folder, ".json").write_text(json.dumps({**entry, "library": str(tmp_path / "evil.so")}))
    assert build(SOURCE, compiler, Proofs()).path.parent == folder


def test_a_kernel_that_fails_its_proof_leaves_no_entry(folder, compiler):
    refused = build(SOURCE, compiler, Proofs(No("it differs from numpy")))
    assert refused == No("it differs from numpy")
    assert entries(folder) == [".c"]


def test_a_source_that_does_not_compile_is_a_reason(folder, compiler):
    refused = build("int f( {", compiler, Proofs())
    assert isinstance(refused, No)
    assert "error" in refused.reason


def test_a_cache_that_cannot_be_written_becomes_a_private_folder(monkeypatch, tmp_path, compiler):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CODEDAG_HOME", str(tmp_path / "file"))
    proofs = Proofs()
    built = build(SOURCE, compiler, proofs)
    assert isinstance(built, Built)
    assert "cannot be used" in built.note
    assert built.path.parent.stat().st_mode & 0o777 == 0o700
    assert build(SOURCE, compiler, proofs) == built
    assert proofs.count == 1


def test_a_full_disk_becomes_a_private_folder(monkeypatch, folder, compiler):
    real = Path.replace

    def full(self, target):
        if Path(target).parent == folder:
            raise OSError(errno.ENOSPC, "No space left on device")
        return real(self, target)

    monkeypatch.setattr(Path, "replace", full)
    built = build(SOURCE, compiler, Proofs())
    assert "No space left" in built.note
    assert set(entries(folder)) <= {".c"}


def test_no_folder_at_all_is_a_reason(monkeypatch, tmp_path, compiler):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CODEDAG_HOME", str(tmp_path / "file"))
    monkeypatch.setattr(kernel_cache, "_private", {})
    monkeypatch.setattr(kernel_cache.tempfile, "mkdtemp", lambda **_: (_ for _ in ()).throw(OSError(28, "full")))
    refused = build(SOURCE, compiler, Proofs())
    assert isinstance(refused, No)
    assert "full" in refused.reason


def test_a_folder_that_others_can_write_to_is_not_trusted(folder, compiler):
    text = SOURCE + "/* untrusted */\n"
    build(text, compiler, Proofs())
    folder.chmod(0o777)
    proofs = Proofs()
    built = build(text, compiler, proofs)
    assert proofs.count == 1
    assert "others may write" in built.note


def test_what_killed_processes_left_is_removed_later(folder, compiler):
    build(SOURCE, compiler, Proofs())
    old, new = folder / ".building-old.so", folder / ".building-new.so"
    for path in (old, new):
        path.write_bytes(b"half")
    os.utime(old, (time.time() - 7200,) * 2)
    build(SOURCE + "/* other */\n", compiler, Proofs())
    assert not old.exists()
    assert new.exists()


def test_proofs_without_a_library_are_remembered(folder):
    assert not remembered_proof("abc")
    assert remember_proof("abc", {"numba": "1"}) == ""
    assert remembered_proof("abc")


def test_a_proof_that_cannot_be_kept_says_so(monkeypatch, tmp_path):
    (tmp_path / "file").write_text("in the way")
    monkeypatch.setenv("CODEDAG_HOME", str(tmp_path / "file"))
    assert "not kept" in remember_proof("abc", {})


def run_program(environment, **extra):
    command = [sys.executable, "-c", PROGRAM]
    return subprocess.Popen(
        command, env={**environment, **extra}, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True
    )


def answer(process):
    out, err = process.communicate(timeout=600)
    assert process.returncode == 0, err
    return json.loads(out)


def test_two_processes_at_once(folder, compiler, child_environment):
    processes = [run_program(child_environment) for _ in range(3)]
    assert [answer(process)[:3] for process in processes] == [["c", "", SUM]] * 3
    assert entries(folder) == [".c", ".json", ".so"]


def test_a_killed_build_leaves_no_entry(folder, compiler, child_environment, script, tmp_path):
    started, killed = tmp_path / "started", tmp_path / "killed"
    real = compiler.command[0]
    slow = script(
        "slow-cc",
        f'case "$*" in *kernels*) {real} "$@"; echo > {started}; while [ ! -e {killed} ]; do sleep 0.1; done;; '
        f'*) exec {real} "$@";; esac',
    )
    process = run_program(child_environment, CC=str(slow))
    while not started.exists():
        assert process.poll() is None, process.communicate()
        time.sleep(0.02)
    process.send_signal(signal.SIGKILL)
    process.wait()
    killed.touch()
    process.communicate()
    assert not list(folder.glob("*.json"))
    assert not [path for path in folder.glob("*.so") if not path.name.startswith(kernel_cache.TEMPORARY)]
    assert answer(run_program(child_environment))[:3] == ["c", "", SUM]


def test_a_corrupted_library_is_never_loaded(folder, compiler, child_environment):
    assert answer(run_program(child_environment))[0] == "c"
    library = sole(folder, ".so")
    library.write_bytes(library.read_bytes()[: library.stat().st_size // 2])
    assert answer(run_program(child_environment))[:3] == ["c", "", SUM]


def test_a_private_folder_is_removed_at_exit(compiler, child_environment, tmp_path):
    (tmp_path / "file").write_text("in the way")
    (tmp_path / "tmp").mkdir()
    places = {"CODEDAG_HOME": str(tmp_path / "file"), "TMPDIR": str(tmp_path / "tmp")}
    engine, note, total, _ = answer(run_program(child_environment, **places))
    assert (engine, total) == ("c", SUM)
    assert "temporary folder" in note
    assert list((tmp_path / "tmp").iterdir()) == []


def test_a_forked_child_can_use_and_make_kernels(compiler):
    kernel_of(TableSpec(4, 3))
    child = os.fork()
    if child == 0:
        good = kernel_of(TableSpec(4, 3)).engine == "c" and kernel_of(TableSpec(2, 0)).engine == "c"
        os._exit(0 if good else 1)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
