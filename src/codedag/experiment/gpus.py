"""Utilisation and memory of each GPU, read from the driver: NVIDIA through its own library, AMD through the kernel."""

from __future__ import annotations

import ctypes
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

_MB = 1 << 20


@dataclass(frozen=True, slots=True)
class Reading:
    """One GPU at one moment: how busy it was, and how much of its memory is in use."""

    percent: float
    used_mb: float


class Gpu(Protocol):
    """A GPU that can be asked how busy it is."""

    name: str

    def read(self) -> Reading:
        """How busy it is now; raises OSError if the driver does not say."""


class _Utilization(ctypes.Structure):
    _fields_ = [("gpu", ctypes.c_uint), ("memory", ctypes.c_uint)]


class _Memory(ctypes.Structure):
    _fields_ = [("total", ctypes.c_ulonglong), ("free", ctypes.c_ulonglong), ("used", ctypes.c_ulonglong)]


class NvidiaGpu:
    """A GPU of NVIDIA, asked through NVML; no package is needed, the library comes with the driver."""

    def __init__(self, library: ctypes.CDLL, index: int) -> None:
        self._library = library
        self._handle = ctypes.c_void_p()
        _check(library.nvmlDeviceGetHandleByIndex_v2(ctypes.c_uint(index), ctypes.byref(self._handle)))
        name = ctypes.create_string_buffer(96)
        _check(library.nvmlDeviceGetName(self._handle, name, ctypes.c_uint(96)))
        self.name = name.value.decode(errors="replace")

    def read(self) -> Reading:
        """How busy it is now."""
        busy, memory = _Utilization(), _Memory()
        _check(self._library.nvmlDeviceGetUtilizationRates(self._handle, ctypes.byref(busy)))
        _check(self._library.nvmlDeviceGetMemoryInfo(self._handle, ctypes.byref(memory)))
        return Reading(float(busy.gpu), memory.used / _MB)


class AmdGpu:
    """A GPU whose kernel driver (amdgpu) writes its state into files."""

    def __init__(self, device: Path) -> None:
        self._device = device
        self.name = f"amdgpu {device.parent.name}"

    def read(self) -> Reading:
        """How busy it is now."""
        busy, used = (self._device / name for name in ("gpu_busy_percent", "mem_info_vram_used"))
        return Reading(float(busy.read_text()), int(used.read_text()) / _MB)


def find(library: str = "libnvidia-ml.so.1", drm: Path = Path("/sys/class/drm")) -> list[Gpu]:
    """The GPUs of this machine that say how busy they are, in the order of their drivers."""
    return [*_nvidia(library), *_amd(drm)]


def _nvidia(library: str) -> list[Gpu]:
    try:
        nvml = ctypes.CDLL(library)
        _check(nvml.nvmlInit_v2())
        count = ctypes.c_uint()
        _check(nvml.nvmlDeviceGetCount_v2(ctypes.byref(count)))
        return [NvidiaGpu(nvml, index) for index in range(count.value)]
    except (OSError, AttributeError):  # no driver, or one that is too old to be asked
        return []


def _amd(drm: Path) -> list[Gpu]:
    if not drm.is_dir():
        return []
    return [AmdGpu(busy.parent) for busy in sorted(drm.glob("card*/device/gpu_busy_percent"))]


def _check(code: int) -> None:
    if code != 0:
        raise OSError(f"NVML answered {code}")
