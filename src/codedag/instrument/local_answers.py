"""Sizes of sources that are parsed in the program's own process instead of the compiler process."""

from __future__ import annotations

import math
import os

#: 8 kB take 60 to 100 ms of CPU; starting the compiler process takes 300 ms more.
LOCAL_SOURCE_NBYTES_MAX = 8_000


def source_nbytes(paths: str | tuple[str, ...]) -> float:
    """The size of sources together; infinite if one cannot be looked at."""
    try:
        return sum(os.stat(path).st_size for path in ((paths,) if isinstance(paths, str) else paths))
    except OSError:
        return math.inf
