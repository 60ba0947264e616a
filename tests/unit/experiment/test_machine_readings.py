"""Reading containers and GPUs: files and libraries laid out as kernels and drivers lay them out."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from codedag.devices import cgroup
from codedag.experiment import gpus
from codedag.experiment.resources import meter


def _write(root, files):
    for name, text in files.items():
        place = root / name
        place.parent.mkdir(parents=True, exist_ok=True)
        place.write_text(text)


@pytest.fixture
def second(tmp_path):
    _write(tmp_path, {
        "proc/self/cgroup": "0::/\n",
        "sys/cgroup.controllers": "cpu memory\n",
        "sys/cpu.stat": "usage_usec 2500000\nuser_usec 1\n",
        "sys/cpu.max": "50000 100000\n",
        "sys/memory.current": "700\n",
        "sys/memory.max": "1000\n",
        "sys/memory.stat": "anon 1\ninactive_file 200\n",
    })  # fmt: skip
    return tmp_path


@pytest.fixture
def first(tmp_path):
    _write(tmp_path, {
        "proc/self/cgroup": "4:memory:/docker/abc\n3:cpu,cpuacct:/docker/abc\n1:name=systemd:/docker/abc\n",
        "sys/cpu,cpuacct/cpuacct.usage": "2500000000\n",
        "sys/cpu,cpuacct/cpu.cfs_quota_us": "150000\n",
        "sys/cpu,cpuacct/cpu.cfs_period_us": "100000\n",
        "sys/memory/memory.usage_in_bytes": "700\n",
        "sys/memory/memory.limit_in_bytes": "1000\n",
        "sys/memory/memory.stat": "inactive_file 1\ntotal_inactive_file 200\n",
    })  # fmt: skip
    return tmp_path


@pytest.mark.parametrize(("layout", "version", "cpus"), [("first", 1, 1.5), ("second", 2, 0.5)])
def test_a_container_is_read_as_its_group_counts(request, layout, version, cpus):
    root = request.getfixturevalue(layout)
    group = cgroup.find(root / "proc", root / "sys")
    assert group.version == version
    assert group.cpu_seconds() == 2.5
    assert group.cpu_limit() == cpus
    assert (group.memory_nbytes(), group.memory_limit()) == (500, 1000)
    read = meter(root / "proc", root / "sys", root)
    assert read.source == f"cgroup v{version}"
    assert read.memory_percent() == 50.0
    assert read.cpus <= cpus


def test_a_group_below_the_mount_is_found_there(second):
    _write(second, {"proc/self/cgroup": "0::/user.slice/a\n"})
    for name in ("cpu.stat", "memory.current", "memory.stat"):
        _write(second, {f"sys/user.slice/a/{name}": (second / "sys" / name).read_text().replace("2500000", "1000000")})
    group = cgroup.find(second / "proc", second / "sys")
    assert group.cpu_seconds() == 1.0
    assert (group.cpu_limit(), group.memory_limit()) == (None, None)


def test_no_limits_and_no_container_means_the_whole_machine(second, monkeypatch):
    monkeypatch.delenv("KUBERNETES_SERVICE_HOST", raising=False)
    _write(second, {"sys/cpu.max": "max 100000\n", "sys/memory.max": "max\n"})
    assert meter(second / "proc", second / "sys", second).source == "host"
    _write(second, {".dockerenv": ""})
    assert meter(second / "proc", second / "sys", second).source == "cgroup v2"


@pytest.mark.parametrize("broken", ["cpu.stat", "memory.current"])
def test_groups_that_cannot_be_read_mean_the_whole_machine(second, broken):
    (second / "sys" / broken).write_text("what\n" if broken == "memory.current" else "usage_usec what\n")
    assert cgroup.find(second / "proc", second / "sys") is None
    assert meter(second / "proc", second / "sys", second).source == "host"


def test_no_such_files_at_all(tmp_path):
    assert cgroup.find(tmp_path, tmp_path) is None
    assert meter(tmp_path, tmp_path, tmp_path).source == "host"


NVML = r"""
#include <string.h>
int nvmlInit_v2(void) { return 0; }
int nvmlDeviceGetCount_v2(unsigned *count) { *count = 2; return 0; }
int nvmlDeviceGetHandleByIndex_v2(unsigned index, void **device) { *device = (void *)(long)(index + 1); return 0; }
int nvmlDeviceGetName(void *device, char *name, unsigned length) { strncpy(name, "Test GPU", length); return 0; }
int nvmlDeviceGetUtilizationRates(void *device, unsigned *rates) { rates[0] = 40 + (long)device; return BUSY; }
int nvmlDeviceGetMemoryInfo(void *device, unsigned long long *memory) {
    memory[0] = 8ull << 30; memory[2] = (unsigned long long)(long)device << 30; memory[1] = memory[0] - memory[2];
    return 0;
}
"""


def _library(folder, busy=0):
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        pytest.skip("no C compiler to build a stand-in of the driver's library with")
    (folder / "nvml.c").write_text(NVML)
    library = folder / "libnvidia-ml.so.1"
    subprocess.run([compiler, "-shared", "-fPIC", f"-DBUSY={busy}", "-o", library, folder / "nvml.c"], check=True)
    return str(library)


def test_gpus_are_asked_through_the_drivers_library(tmp_path):
    found = gpus.find(_library(tmp_path), tmp_path)
    assert [gpu.name for gpu in found] == ["Test GPU", "Test GPU"]
    assert [gpu.read() for gpu in found] == [gpus.Reading(41.0, 1024.0), gpus.Reading(42.0, 2048.0)]


def test_a_driver_that_refuses_is_an_error_of_the_system(tmp_path):
    (gpu, _) = gpus.find(_library(tmp_path, busy=3), tmp_path)
    with pytest.raises(OSError, match="NVML answered 3"):
        gpu.read()


def test_gpus_of_the_kernel_are_read_from_files(tmp_path):
    _write(tmp_path, {
        "card1/device/gpu_busy_percent": "17\n",
        "card1/device/mem_info_vram_used": f"{3 << 20}\n",
        "card0/device/vendor": "0x1234\n",
    })  # fmt: skip
    (gpu,) = gpus.find("no-such-library.so", tmp_path)
    assert gpu.read() == gpus.Reading(17.0, 3.0)
    assert "card1" in gpu.name


def test_a_machine_without_gpus_has_none(tmp_path):
    assert gpus.find("no-such-library.so", tmp_path / "none") == []
