"""Whether a processing unit that a plan names is here; libraries that the program does not use are not asked."""

from __future__ import annotations

import importlib
import sys
from typing import Any

from codedag.devices import opencl
from codedag.instrument.guard import Failed, attempt
from codedag.ir.verdict import Code, No, Verdict, Yes

# Runtimes that are libraries: they are here if the program itself has loaded them.
_RUNTIMES = {"torch": "torch", "ov": "openvino", "ort": "onnxruntime", "numba": "numba", "jax": "jax"}
_ACCELERATORS = ("cuda", "xpu", "mps")


def present(pu: str) -> Verdict:
    """Yes if the unit can be used by this program, else why not."""
    family, _, resource = pu.lower().partition(":")
    if pu == "cpu":
        return Yes
    if family in _RUNTIMES and resource == "cpu":
        return Yes if _RUNTIMES[family] in sys.modules else _unused(f"{pu}: {_RUNTIMES[family]}")
    if pu == opencl.CPU:
        return opencl.usable()
    if family == "jax":
        return _of_jax(sys.modules.get("jax"), pu, resource)
    torch = sys.modules.get("torch")
    if family in _ACCELERATORS or _is_private(torch, family):
        return _of_torch(torch, pu, family, resource)
    if torch is None and is_accelerator(pu):
        return _unused(f"{pu[:80]} is not known, and torch, which may know it,")
    return No(f"{pu[:80]} is not on this machine; `codedag devices` lists what is")


def _unused(what: str) -> No:
    return No(f"{what} is not used by this program", Code.NOT_USED)


def is_accelerator(pu: str) -> bool:
    """Whether a unit is an accelerator that torch runs, or may turn out to be one once torch is loaded."""
    family, torch = pu.lower().partition(":")[0], sys.modules.get("torch")
    if family in _ACCELERATORS or _is_private(torch, family):
        return True
    return torch is None and family.isidentifier() and family not in {*_RUNTIMES, "cpu", "opencl", "loopback"}


def bring(pu: str) -> Verdict:
    """Yes if the library of a unit on the processor is loaded, which is done here if it is not.

    Only for a plan that names the unit and what runs there: a program gets no library that nobody asked for.
    """
    family, _, resource = pu.lower().partition(":")
    if family not in _RUNTIMES or resource != "cpu":
        return present(pu)
    loaded = load(_RUNTIMES[family])
    return No(f"{pu}: {loaded.reason}") if isinstance(loaded, No) else Yes


def load(library: str) -> Verdict:
    """Yes once a library is loaded, else why it cannot be."""
    loaded = None if library in sys.modules else attempt(importlib.import_module, library)
    return No(f"{library} cannot be loaded ({loaded.reason})") if isinstance(loaded, Failed) else Yes


def _of_jax(jax: Any, pu: str, resource: str) -> Verdict:
    """Yes for a device that JAX has: it numbers all but the first of a kind."""
    if jax is None:
        return _unused(f"{pu}: jax")
    kind = resource.rstrip("0123456789")
    number = int(resource[len(kind) :] or 0)
    try:
        count = len(jax.devices(kind))
    except RuntimeError:  # that is how JAX says that it has none
        return No(f"{pu} is not on this machine")
    return Yes if number < count else No(f"{pu} is not on this machine: it has {count} of its kind")


def _is_private(torch: Any, family: str) -> bool:
    """Whether torch knows a device of this name that was registered from outside."""
    name = getattr(getattr(torch, "_C", None), "_get_privateuse1_backend_name", None)
    return name is not None and name() == family != "privateuseone"


def _of_torch(torch: Any, pu: str, family: str, resource: str) -> Verdict:
    if torch is None:
        return _unused(f"{pu}: torch, through which it would be used,")
    room = getattr(torch, family, None) or getattr(torch.backends, family, None)
    if room is None or not room.is_available():
        return No(f"{pu} is not on this machine")
    count = room.device_count() if hasattr(room, "device_count") else 1
    number = int(resource) if resource.isdecimal() else 0
    return Yes if number < count else No(f"{pu} is not on this machine: it has {count} of its kind")
