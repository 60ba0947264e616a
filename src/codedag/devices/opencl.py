"""Whether OpenCV computes on an OpenCL device in this process, and which one."""

from __future__ import annotations

import functools
import os
import sys
from typing import Any

from codedag.ir.verdict import Code, No, Verdict, Yes

CPU = "opencl:cpu"
_KINDS = {2: "cpu", 4: "gpu", 8: "accelerator"}  # CL_DEVICE_TYPE_*
_OFF = "OpenCV has OpenCL switched off"
# OpenCV takes no processor as OpenCL device unless it is named.  We do not name it for a program: its own UMats would
# then be computed by other code, with other results.
_HINT = "; for a processor set OPENCV_OPENCL_DEVICE=:CPU: before the program starts, with an OpenCL driver (PoCL)"
_FORKED = "a forked process cannot use the OpenCL threads of its parent"
_born = os.getpid()


def usable() -> Verdict:
    """Yes if functions of cv2 run on a processor by OpenCL when they are given a UMat, else why not."""
    cv2 = sys.modules.get("cv2")
    if cv2 is None:
        return No(f"{CPU}: cv2 is not used by this program", Code.NOT_USED)
    if os.getpid() != _born:
        return No(f"{CPU}: {_FORKED}")
    if not cv2.ocl.haveOpenCL():
        return No(f"{CPU}: OpenCV finds no OpenCL")
    if not cv2.ocl.useOpenCL():  # by thread, and a program may switch it off at any time
        return No(f"{CPU}: {_OFF}{_HINT}")
    kind = kind_of(cv2)
    return Yes if kind == "cpu" else No(f"{CPU}: the OpenCL device that OpenCV uses is a {kind}")


@functools.lru_cache(maxsize=1)
def kind_of(cv2: Any) -> str:
    """The kind of the OpenCL device that OpenCV uses."""
    return _KINDS.get(cv2.ocl.Device.getDefault().type() & 14, "device of another kind")
