"""What a compiled kernel depends on besides its text: this processor and this binary interface."""

from __future__ import annotations

import functools
import platform
import sys
import sysconfig
from pathlib import Path

CPUINFO = Path("/proc/cpuinfo")
_TELLING = (
    "vendor_id",
    "cpu family",
    "model",
    "model name",
    "flags",
    "Features",
    "CPU part",
    "CPU implementer",
)


@functools.cache
def machine_key() -> str:
    """Text that differs wherever code built with -march=native may not run."""
    return "\n".join((_processor(), _interface()))


def _processor() -> str:
    """The first processor's own description; what `platform` knows where there is no such file."""
    try:
        first = CPUINFO.read_text(errors="replace").split("\n\n", 1)[0]
    except OSError:
        return f"{platform.machine()} {platform.processor()} {platform.version()}"
    lines = [line for line in first.splitlines() if line.split(":", 1)[0].strip() in _TELLING]
    return "\n".join(lines) or platform.machine()


def _interface() -> str:
    """System, pointer width and C library, as far as the interpreter's own build tells them."""
    return f"{sysconfig.get_platform()} {sysconfig.get_config_var('SOABI')} {sys.maxsize} {sys.byteorder}"
