"""Where CodeDAG keeps its files: runs in the data folder, everything that can be made again in the cache."""

from __future__ import annotations

import os
from pathlib import Path


def data_dir() -> Path:
    """The folder of runs: `$CODEDAG_HOME/data`, or the user's data folder."""
    home = os.environ.get("CODEDAG_HOME")
    if home:
        return Path(home) / "data"
    import platformdirs

    return Path(platformdirs.user_data_dir("codedag", appauthor=False))


def cache_dir() -> Path:
    """The folder of kernels, proofs and measured costs: `$CODEDAG_HOME/cache`, or the user's cache folder."""
    home = os.environ.get("CODEDAG_HOME")
    if home:
        return Path(home) / "cache"
    import platformdirs

    return Path(platformdirs.user_cache_dir("codedag", appauthor=False))
