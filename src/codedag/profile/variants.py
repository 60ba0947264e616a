"""Which functions can do the work of an operation, and on which PU: the original, and what the registry has."""

from __future__ import annotations

import functools
import hashlib
import json
import os
import platform
from dataclasses import dataclass
from pathlib import Path

from codedag.backends.proof import key as proof_key
from codedag.backends.registry import Equivalence, Substitution, all_substitutions, find, runs_on
from codedag.backends.requirements import installed_version

ORIGINAL = "original"
FRESH, REUSED = "fresh", "reused"
_SETTINGS = ("OMP_NUM_THREADS", "OPENBLAS_NUM_THREADS", "MKL_NUM_THREADS", "CODEDAG_THREADS")


@dataclass(frozen=True, slots=True)
class Variant:
    """One way to do an operation: on a PU, by a function, into fresh memory or into memory that is reused."""

    pu: str
    name: str = ORIGINAL
    buffers: str = FRESH
    equivalence: Equivalence = Equivalence.EXACT

    @property
    def shown(self) -> str:
        """The name in reports."""
        return self.name if self.buffers == FRESH else f"{self.name}, reused buffers"


def variants_of(name: str, pus: frozenset[str]) -> list[Variant]:
    """The ways in which the operation of this name can be done on these PUs, the original first."""
    found = [Variant("cpu"), Variant("cpu", buffers=REUSED)]
    for each in find(name):
        found += [Variant(pu, each.name, FRESH, each.equivalence) for pu in sorted(pus) if runs_on(each, pu)]
    return found


def substitution_of(source: str, variant: str) -> Substitution | None:
    """The substitution of that name for an operation."""
    return next((each for each in find(source) if each.name == variant), None)


def pus_of_registry() -> frozenset[str]:
    """The PUs that some substitution is for."""
    return frozenset(each.pu for each in all_substitutions())


def has_variants(pu: str) -> bool:
    """Whether some substitution runs on a PU."""
    return any(runs_on(each, pu) for each in all_substitutions())


def fingerprint(name: str, variant: Variant) -> str:
    """What a measurement of this variant depends on besides its inputs: versions, sources, the processor."""
    substitution = substitution_of(name, variant.name)
    library = name.partition(".")[0]
    facts = {
        "variant": [variant.pu, variant.name, variant.buffers],
        "library": [library, _version(library), installed_version("numpy")],
        "substitution": proof_key(substitution) if substitution is not None else "",
        "machine": _machine(),
    }
    return hashlib.sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()[:32]


def _version(library: str) -> str | None:
    distribution = {"cv2": "opencv-python-headless", "PIL": "pillow", "skimage": "scikit-image"}.get(library, library)
    return installed_version(distribution)


@functools.lru_cache(maxsize=1)
def _machine() -> list[str]:
    """The processor, how many of it there are, Python, and settings by which libraries use more or fewer of them."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        lines = []
    model = next((line.partition(":")[2].strip() for line in lines if line.startswith("model name")), "")
    threads = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count()
    settings = [f"{name}={os.environ[name]}" for name in _SETTINGS if name in os.environ]
    return [platform.machine(), model, str(threads), platform.python_version(), *settings]
