"""The families of processing units: one per library, each looked for in a process of its own.

A family knows which PUs it may have, the library it needs, and how an array gets there and back.
Only a probing process calls `find`: it imports the library.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from codedag.devices.host import host_memory, host_threads, processor
from codedag.ir.verdict import No

Move = Callable[[Any], Any]


@dataclass(slots=True)
class Found:
    """A PU that a probe found, with how arrays get there and back."""

    name: str
    resource: str
    runtime: str
    memory_nbytes: int
    threads: int = 1
    capability: list[str] = field(default_factory=list)
    settings: dict[str, str] = field(default_factory=dict)
    bring: Move | None = None
    fetch: Move | None = None
    multiply: Callable[[int], Callable[[], Any]] | None = None  # of two square matrices of this size
    copy: Callable[[int], Callable[[], Any]] | None = None  # of so many bytes from one place to another


@dataclass(slots=True)
class Missing:
    """A PU that a probe did not find, and why."""

    name: str
    reason: str


@dataclass(frozen=True, slots=True)
class Family:
    """One library, the PUs it may have, and the function that looks for them."""

    library: str
    names: tuple[str, ...]
    find: Callable[[], Iterator[Found | Missing]]


def _settings(*names: str) -> dict[str, str]:
    return {name: os.environ[name] for name in names if name in os.environ}


def _cpu() -> Iterator[Found | Missing]:
    import numpy as np

    capability = [*filter(None, [processor()]), f"numpy {np.__version__}", *_simd(np)]
    threads = host_threads()
    for name in ("cv2", "scipy"):
        try:
            library = __import__(name)
        except ImportError:
            continue
        capability.append(f"{name} {library.__version__}")
        if name == "cv2":
            capability.append(f"cv2 uses {library.getNumThreads()} threads")
    yield Found(
        "cpu", "host", "the program as written", host_memory(), threads, capability,
        _settings("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS"), multiply=_numpy_multiply,
        copy=_numpy_copy,
    )  # fmt: skip


def _simd(np: Any) -> list[str]:
    features = getattr(getattr(getattr(np, "_core", None), "_multiarray_umath", None), "__cpu_features__", {})
    wide = [name for name in ("AVX512F", "AVX2", "FMA3", "NEON", "SVE") if features.get(name)]
    return [" ".join(wide)] if wide else []


def _numpy_multiply(size: int) -> Callable[[], Any]:
    import numpy as np

    left, right, out = (np.full((size, size), 0.5, np.float32) for _ in range(3))
    return lambda: np.dot(left, right, out)


def _numpy_copy(nbytes: int) -> Callable[[], Any]:
    import numpy as np

    source, target = np.ones(nbytes, np.uint8), np.zeros(nbytes, np.uint8)
    return lambda: np.copyto(target, source)


def _torch() -> Iterator[Found | Missing]:
    import torch

    yield Found(
        "torch:cpu", "host", f"torch {torch.__version__}", host_memory(), torch.get_num_threads(),
        [torch.backends.cpu.get_cpu_capability()], _settings("OMP_NUM_THREADS", "MKL_NUM_THREADS"),
        torch.from_numpy, lambda tensor: tensor.numpy(), _torch_multiply("cpu"),
        _torch_copy("cpu"),
    )  # fmt: skip
    yield from _accelerators(torch)


def _accelerators(torch: Any) -> Iterator[Found | Missing]:
    for kind in ("cuda", "xpu"):
        module = getattr(torch, kind, None)
        count = module.device_count() if module is not None and module.is_available() else 0
        for number in range(count):
            yield _accelerator(torch, module, f"{kind}:{number}")
        if not count:
            built = getattr(torch.version, "cuda", None) if kind == "cuda" else getattr(torch.version, "xpu", None)
            why = "torch sees no such device" if built else "this torch was built without it"
            yield Missing(f"{kind}:0", why)
    yield from _registered(torch)
    mps = getattr(torch.backends, "mps", None)
    if mps is not None and mps.is_available():
        yield _accelerator(torch, torch.mps, "mps")
    else:
        yield Missing("mps", "torch sees no such device")


def _registered(torch: Any) -> Iterator[Found]:
    """The devices of a backend that was added to torch from outside, which torch loads by itself."""
    name = getattr(torch._C, "_get_privateuse1_backend_name", lambda: "privateuseone")()
    module = getattr(torch, name, None) if name != "privateuseone" else None
    if module is None or not module.is_available():
        return
    for number in range(module.device_count() if hasattr(module, "device_count") else 1):
        found = _accelerator(torch, module, f"{name}:{number}")
        found.multiply = found.copy = None  # it may lack what peaks are measured with
        yield found


def _accelerator(torch: Any, module: Any, name: str) -> Found:
    """A PU of its own; every move ends only when the device has done it."""
    about = getattr(module, "get_device_properties", lambda _: None)(name)
    memory = int(getattr(about, "total_memory", 0)) or host_memory()
    wait = getattr(module, "synchronize", lambda: None)

    def bring(array: Any) -> Any:
        tensor = torch.from_numpy(array).to(name)
        wait()
        return tensor

    return Found(
        name, name, f"torch {torch.__version__}", memory, 1, [str(getattr(about, "name", name))], {}, bring,
        lambda tensor: tensor.cpu().numpy(), _torch_multiply(name, wait),
        _torch_copy(name, wait),
    )  # fmt: skip


def _torch_multiply(device: str, wait: Callable[[], Any] = lambda: None) -> Callable[[int], Callable[[], Any]]:
    def made(size: int) -> Callable[[], Any]:
        import torch

        left, right, out = (torch.full((size, size), 0.5, device=device) for _ in range(3))
        return lambda: (torch.mm(left, right, out=out), wait())

    return made


def _torch_copy(device: str, wait: Callable[[], Any] = lambda: None) -> Callable[[int], Callable[[], Any]]:
    def made(nbytes: int) -> Callable[[], Any]:
        import torch

        source, target = (torch.zeros(nbytes, dtype=torch.uint8, device=device) for _ in range(2))
        return lambda: (target.copy_(source), wait())

    return made


def _inductor() -> Iterator[Found | Missing]:
    import torch

    compiler = next((name for name in (os.environ.get("CXX"), "g++", "clang++") if name and shutil.which(name)), None)
    if compiler is None:
        yield Missing("inductor:cpu", "it needs a C++ compiler, and there is none")
        return
    import torch._inductor  # is a part of torch that may be missing or broken

    yield Found(
        "inductor:cpu", "host", f"torch.compile of {torch.__version__}", host_memory(), torch.get_num_threads(),
        [f"compiles with {compiler}"], {}, torch.from_numpy, lambda tensor: tensor.numpy(),
    )  # fmt: skip


def _openvino() -> Iterator[Found | Missing]:
    import openvino

    core, runtime = openvino.Core(), f"OpenVINO {openvino.__version__.partition('-')[0]}"
    names = [str(name) for name in core.available_devices]  # CPU, GPU or GPU.0 and GPU.1, NPU
    for kind in ("CPU", "GPU", "NPU"):
        if not any(name.partition(".")[0] == kind for name in names):
            yield Missing(f"ov:{kind.lower()}", f"{runtime} sees no such device")
    for name in names:
        can = core.get_property(name, "OPTIMIZATION_CAPABILITIES")
        pu = f"ov:{name.lower()}"
        yield Found(
            pu, "host" if name == "CPU" else pu, runtime, host_memory(), host_threads() if name == "CPU" else 1,
            [str(core.get_property(name, "FULL_DEVICE_NAME")), *can], {},
            lambda array: openvino.Tensor(array, shared_memory=True), lambda tensor: tensor.data,
        )  # fmt: skip


#: Providers that compute on the host's cores: they take turns with the others there.
_ON_HOST = ("cpu", "dnnl", "xnnpack", "acl", "armnn", "tvm")


def _onnxruntime() -> Iterator[Found | Missing]:
    import onnxruntime

    providers = list(onnxruntime.get_available_providers())
    for provider in providers:
        kind = provider.removesuffix("ExecutionProvider").lower()
        if kind == "azure":
            yield Missing("ort:azure", "it sends data to a service elsewhere")
            continue
        # Models are given the memory of arrays (io_binding): nothing is copied, so what is measured is its address.
        yield Found(
            f"ort:{kind}", "host" if kind in _ON_HOST else f"ort:{kind}", f"ONNX Runtime {onnxruntime.__version__}",
            host_memory(), host_threads(), [provider] if kind != "cpu" else providers, {},
            lambda array: (array, array.ctypes.data), lambda pair: pair[0],
        )  # fmt: skip


def _numba() -> Iterator[Found | Missing]:
    import numba

    yield Found(
        "numba:cpu", "host", f"numba {numba.__version__}", host_memory(), numba.config.NUMBA_NUM_THREADS,
        [f"threads by {numba.config.THREADING_LAYER}"],
        _settings("NUMBA_NUM_THREADS"), lambda array: array, lambda array: array,
    )  # fmt: skip


def _jax() -> Iterator[Found | Missing]:
    import jax
    import numpy as np

    for device in jax.devices():
        kind = str(device.platform).lower()
        name = f"jax:{kind}" if device.id == 0 else f"jax:{kind}{device.id}"
        yield Found(
            name, "host" if kind == "cpu" else name, f"JAX {jax.__version__}", host_memory(), host_threads(),
            [str(device.device_kind)], {}, _onto(jax, device), np.asarray,
        )  # fmt: skip


def _onto(jax: Any, device: Any) -> Move:
    return lambda array: jax.device_put(array, device).block_until_ready()


def _opencl() -> Iterator[Found | Missing]:
    import cv2

    from codedag.devices import opencl

    verdict = opencl.usable()
    if isinstance(verdict, No):
        yield Missing(opencl.CPU, verdict.reason.removeprefix(f"{opencl.CPU}: "))
        return
    device = cv2.ocl.Device.getDefault()
    yield Found(
        opencl.CPU, "host", f"{device.version()}, by cv2.UMat of OpenCV {cv2.__version__}", host_memory(),
        int(device.maxComputeUnits()), [str(device.name())], _settings("OPENCV_OPENCL_DEVICE"), _as_umat,
        lambda umat: umat.get().reshape(-1),
    )  # fmt: skip


def _as_umat(array: Any) -> Any:
    """The bytes of an array as one row on the device."""
    import cv2
    import numpy as np

    return cv2.UMat(array.reshape(1, -1).view(np.uint8))


#: Hardware on which nobody has tried CodeDAG, and what its code for such units is tested with instead.
NEVER_TRIED = {
    "cuda": "a torch device written in Python",
    "xpu": "a torch device written in Python",
    "mps": "a torch device written in Python",
    "opencl on a GPU": "OpenCL on a processor",
    "jax on a GPU or TPU": "four devices of JAX on the processor",
    "ov:gpu": "OpenVINO's processor device",
    "ov:npu": "OpenVINO's processor device",
}

FAMILIES: dict[str, Family] = {
    "cpu": Family("numpy", ("cpu",), _cpu),
    "torch": Family("torch", ("torch:cpu", "cuda:0", "xpu:0", "mps"), _torch),
    "inductor": Family("torch", ("inductor:cpu",), _inductor),
    "openvino": Family("openvino", ("ov:cpu", "ov:gpu", "ov:npu"), _openvino),
    "onnxruntime": Family("onnxruntime", ("ort:cpu",), _onnxruntime),
    "numba": Family("numba", ("numba:cpu",), _numba),
    "jax": Family("jax", ("jax:cpu",), _jax),
    "opencl": Family("cv2", ("opencl:cpu",), _opencl),
}


def family_of(pu: str) -> str | None:
    """The family that a PU belongs to; None for a name that no family has."""
    for name, family in FAMILIES.items():
        if pu in family.names:
            return name
    head = pu.partition(":")[0]
    return {"cuda": "torch", "xpu": "torch", "mps": "torch", "jax": "jax"}.get(head)
