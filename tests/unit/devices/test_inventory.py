"""The inventory: what is here is found and measured, what is not here has a reason, what is broken hurts nobody."""

from __future__ import annotations

import importlib.util
import json
import subprocess
import sys

import pytest

from codedag.devices import inventory as inventory_module
from codedag.devices.families import FAMILIES, Family, family_of
from codedag.devices.inventory import from_elsewhere, inventory
from codedag.devices.timing import line
from codedag.ir import BadFile, save


def test_the_cpu_is_found_with_its_peaks():
    machine = inventory(["cpu"])
    [cpu] = machine.pus
    assert (cpu.name, cpu.resource, cpu.simulated) == ("cpu", "host", False)
    assert cpu.threads >= 1
    assert cpu.memory_nbytes > 1 << 28
    assert cpu.flop_per_second > 1e8
    assert cpu.stream_bytes_per_second > 1e8


@pytest.mark.long
def test_another_runtime_on_the_same_cores_takes_turns_and_has_measured_links():
    pytest.importorskip("numba")
    machine = inventory(["cpu", "numba"])
    assert {pu.resource for pu in machine.pus} == {"host"}
    there, back = machine.link("cpu", "numba:cpu"), machine.link("numba:cpu", "cpu")
    for link in (there, back):
        assert [each.nbytes for each in link.measured] == sorted(each.nbytes for each in link.measured)
        assert link.bytes_per_second > 0
    assert len(there.converted) == len(there.measured)


@pytest.mark.long
@pytest.mark.parametrize(("family", "pu"), [("openvino", "ov:cpu"), ("onnxruntime", "ort:cpu"), ("jax", "jax:cpu")])
def test_other_runtimes_are_found_where_they_are_installed(family, pu):
    if importlib.util.find_spec(family) is None:
        pytest.skip(f"{family} is not installed")
    machine = inventory([family])
    assert machine.links == []  # the program's own PU was not asked for
    assert pu in {each.name for each in machine.pus}, machine.absent
    assert machine.pu(pu).resource == "host"
    assert isinstance(machine.absent, list)


@pytest.mark.long
def test_torch_says_which_of_its_devices_are_here():
    pytest.importorskip("torch")
    machine = inventory(["torch"], measure=False)
    names = {pu.name for pu in machine.pus} | {each.name for each in machine.absent}
    assert {"torch:cpu", "cuda:0", "xpu:0", "mps"} <= names
    assert all(each.reason for each in machine.absent)


def test_a_library_that_is_not_installed_is_not_looked_for(monkeypatch):
    def never(*args, **settings):
        raise AssertionError("a process was started")

    monkeypatch.setattr(inventory_module.subprocess, "run", never)
    monkeypatch.setitem(FAMILIES, "none", Family("no_such_library", ("none:cpu",), lambda: iter(())))
    machine = inventory(["none"])
    assert machine.pus == []
    assert [(each.name, each.reason) for each in machine.absent] == [("none:cpu", "no_such_library is not installed")]


ENDINGS = {
    "crash": ("import os, signal; os.kill(os.getpid(), signal.SIGSEGV)", "SIGSEGV"),
    "raise": ("raise ImportError('libfoo.so.7 is missing')", "libfoo.so.7 is missing"),
    "nonsense": ("print('hello')", "no sensible answer"),
    "wrong": ('print(\'{"pus": [{"name": 3}], "links": [], "absent": []}\')', "no sensible answer"),
    "hang": ("import time; time.sleep(60)", "no answer in 2 seconds"),
}


@pytest.mark.parametrize("ending", ENDINGS)
def test_a_broken_library_is_absent_with_the_reason(ending, monkeypatch):
    code, reason = ENDINGS[ending]
    run = subprocess.run
    monkeypatch.setattr(
        inventory_module.subprocess, "run", lambda command, **settings: run([sys.executable, "-c", code], **settings)
    )
    machine = inventory(["numba"], most_seconds=2.0 if ending == "hang" else 120.0)
    assert machine.pus == []
    assert [each.name for each in machine.absent] == ["numba:cpu"]
    assert reason in machine.absent[0].reason


def test_a_machine_from_elsewhere_is_simulated(tmp_path):
    save(inventory(["cpu"], measure=False), tmp_path / "machine.json")
    machine = from_elsewhere(tmp_path / "machine.json")
    assert [pu.simulated for pu in machine.pus] == [True]
    (tmp_path / "machine.json").write_text('{"format": "codedag/machine", "version": 1, "pus": [{}]}')
    with pytest.raises(BadFile, match="pus"):
        from_elsewhere(tmp_path / "machine.json")


def test_lines_through_sizes():
    latency, rate = line([(n, 5e-6 + n / 1e10) for n in (64, 4_096, 1 << 20, 1 << 24)])
    assert latency == pytest.approx(5e-6, rel=0.01)
    assert rate == pytest.approx(1e10, rel=0.01)
    latency, rate = line([(n, 1e-6) for n in (64, 4_096, 1 << 20, 1 << 24)])
    assert latency == 1e-6
    assert rate >= (1 << 24) / 1e-6
    latency, rate = line([(64, 1e-6), (1 << 24, 1e-2)])
    assert latency >= 0
    assert rate == pytest.approx((1 << 24) / 1e-2, rel=0.01)


def test_every_family_names_its_own_pus():
    for name, family in FAMILIES.items():
        assert all(family_of(pu) == name for pu in family.names)
    assert family_of("cuda:3") == "torch"
    assert family_of("toaster") is None


def test_the_command_prints_and_writes_machines(codedag_home, tmp_path):
    from click.testing import CliRunner

    from codedag.cli.devices import command

    save(inventory(["cpu"]), tmp_path / "m.json")
    shown = CliRunner().invoke(command, ["--machine", str(tmp_path / "m.json"), "-o", str(tmp_path / "out.json")])
    assert shown.exit_code == 0, shown.output
    assert "cpu (simulated)" in shown.output
    assert shown.output.splitlines()[-1].startswith("next: codedag")
    raw = CliRunner().invoke(command, ["--machine", str(tmp_path / "m.json"), "--json"]).output
    assert [pu["simulated"] for pu in json.loads(raw)["pus"]] == [True]
