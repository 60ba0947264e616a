"""Sizes of sources that are parsed in the program's own process instead of the compiler process."""

from __future__ import annotations

import math
from pathlib import Path

#: 16 kB take about 120 to 200 ms of CPU (reckoned: 8 kB took 60 to 100); starting the compiler process 300 ms more.
LOCAL_SOURCE_NBYTES_MAX = 16_000


def source_nbytes(paths: str | tuple[str, ...]) -> float:
    """The size of sources together; infinite if one cannot be looked at."""
    try:
        return sum(Path(path).stat().st_size for path in ((paths,) if isinstance(paths, str) else paths))
    except OSError:
        return math.inf
