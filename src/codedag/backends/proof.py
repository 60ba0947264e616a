"""Proof by experiment: a substitution is trusted on a machine only after it agreed with its original there.

One proof per substitution, source text, library versions, interpreter and processor is kept in the cache; a
failed proof is kept too, with its reason.
"""

from __future__ import annotations

import contextlib
import functools
import inspect
import json
import os
import platform
import random
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import msgspec

from codedag.backends.registry import Call, Equivalence, Outcome, Substitution, attempt
from codedag.backends.requirements import installed_version, parse
from codedag.backends.same import same
from codedag.instrument.guard import Declined
from codedag.ir.errors import CannotWrite
from codedag.ir.files import write_atomically
from codedag.ir.places import cache_dir
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import No, Verdict, Yes

FILE = "proofs.json"
HEAD = {"format": "codedag/proofs", "version": 1}
KEPT = 512
# Settings by which libraries choose other kernels on the same processor.
SETTINGS = (
    "OPENCV_",
    "NPY_DISABLE_CPU_FEATURES",
    "NPY_ENABLE_CPU_FEATURES",
    "ATEN_CPU_CAPABILITY",
    "MKL_",
    "SCIPY_",
)


class Proof(msgspec.Struct, frozen=True):
    """What came of running generated calls through a substitution and its original."""

    substitution: str
    calls: int
    accepted: int
    verdict: Verdict


def prove(substitution: Substitution, calls: int = 60, seed: int = 0) -> Proof:
    """The outcome of comparing substitute and original on random calls, up to the first difference.

    What numpy would warn about is not said: the calls are not the program's.
    """
    numpy = sys.modules.get("numpy")
    with numpy.errstate(all="ignore") if numpy is not None else contextlib.nullcontext():
        return _prove(substitution, calls, seed)


def _prove(substitution: Substitution, calls: int, seed: int) -> Proof:
    rng = random.Random(seed)
    accepted = 0
    for index in range(calls):
        number = rng.getrandbits(64)
        call = _call(substitution, number)
        if not substitution.accepts(call.args, call.kwargs):
            continue
        accepted += 1
        verdict = _agree(substitution, number)
        if isinstance(verdict, No):
            reason = f"call {index} of seed {seed}: {verdict.reason}"
            return Proof(substitution.name, index + 1, accepted, No(reason))
    verdict = Yes if accepted else No(f"none of {calls} calls was accepted")
    return Proof(substitution.name, calls, accepted, verdict)


def proven_here(substitution: Substitution) -> Verdict:
    """Yes if the substitution keeps its promise on this machine; proves it at the first question."""
    available = substitution.available()
    return _proven(substitution, str(cache_dir() / FILE), key(substitution)) if available else available


def known_here(substitution: Substitution) -> Verdict | None:
    """What an earlier proof on this machine has found, or that there can be none; None if it is to be proven."""
    available = substitution.available()
    if not available:
        return available
    known = _read(cache_dir() / FILE).get(key(substitution))
    return None if known is None else Yes if known["ok"] else No(str(known["reason"]))


def forget() -> None:
    """Forgets what this process remembers of proofs; the cache file stays."""
    _proven.cache_clear()


@functools.cache
def _proven(substitution: Substitution, file: str, identity: str) -> Verdict:
    known = _read(Path(file)).get(identity)
    if known is not None:
        return Yes if known["ok"] else No(str(known["reason"]))
    outcome = attempt(prove, substitution)
    proof = outcome.value or Proof(substitution.name, 0, 0, No(f"the proof could not be run: {outcome.error!r}"))
    _remember(Path(file), identity, proof)
    return proof.verdict


def _call(substitution: Substitution, number: int) -> Call:
    return substitution.random_call(random.Random(number))


def _agree(substitution: Substitution, number: int) -> Verdict:
    """Yes if original and substitute do the same to three equal copies of one call."""
    theirs, ours, again = (_call(substitution, number) for _ in range(3))
    expected = attempt(substitution.original(), *theirs.args, **theirs.kwargs)
    if expected.error is not None:
        return No(f"the guard accepted a call for which the original raises {expected.error!r}")
    got = [attempt(substitution.run, *call.args, **call.kwargs) for call in (ours, again)]
    for outcome in got:
        if isinstance(outcome.error, Declined):
            return Yes  # it gave its result up, and the original would have run
        if outcome.error is not None:
            return No(f"the substitute raises {outcome.error!r}")
    return _same_effects(substitution.equivalence, (theirs, expected), (ours, got[0]), got[1])


def _same_effects(
    promise: Equivalence, theirs: tuple[Call, Outcome], ours: tuple[Call, Outcome], again: Outcome
) -> Verdict:
    verdict = near(theirs[1].value, ours[1].value, promise)
    if not verdict:
        return verdict
    for argument, left, right in _pairs(theirs[0], ours[0]):
        verdict = same(left, right)
        if isinstance(verdict, No):
            return No(f"argument {argument} was left in another state: {verdict.reason}")
        if _overlap(left, theirs[1].value) != _overlap(right, ours[1].value):
            return No(f"the result shares memory with argument {argument} in one of the two only")
    if _overlap(ours[1].value, again.value):
        return No("two results of the substitute share memory")
    return Yes


def _pairs(theirs: Call, ours: Call) -> Iterator[tuple[int | str, Any, Any]]:
    for index, (left, right) in enumerate(zip(theirs.args, ours.args, strict=True)):
        yield index, left, right
    for name in theirs.kwargs:
        yield name, theirs.kwargs[name], ours.kwargs[name]


def _overlap(left: Any, right: Any) -> bool:
    numpy = sys.modules.get("numpy")
    if numpy is None or not (isinstance(left, numpy.ndarray) and isinstance(right, numpy.ndarray)):
        return False
    return bool(numpy.may_share_memory(left, right))


#: Rounding steps of the largest value by which results of class ULP may differ, in single and in double precision.
#: 32 were too few for both on a processor with AVX-512: torch's transforms and scipy's were more than 32 steps apart in
#: single and up to 210 in double precision, in some hundred random calls.
STEPS, STEPS_DOUBLE, DOUBLE = 64, 1024, 1e-12


def near(expected: Any, got: Any, promise: Equivalence) -> Verdict:
    """Yes if the values are as near as promised; below EXACT the elements of arrays may differ."""
    verdict = same(expected, got)
    numpy = sys.modules.get("numpy")
    if verdict or promise is Equivalence.EXACT or numpy is None or not isinstance(expected, numpy.ndarray):
        return verdict
    if type(got) is not type(expected) or got.dtype != expected.dtype or got.shape != expected.shape:
        return verdict
    if promise is Equivalence.LEVEL1:
        levels = numpy.abs(expected.astype(numpy.int64) - got.astype(numpy.int64))
        return Yes if expected.dtype == numpy.uint8 and levels.max(initial=0) <= 1 else verdict
    if expected.dtype.kind not in "fc":
        return verdict
    eps = float(numpy.finfo(expected.dtype).eps)
    rtol = (STEPS if eps > DOUBLE else STEPS_DOUBLE) * eps
    scale = float(numpy.abs(expected[numpy.isfinite(expected)]).max(initial=0.0))
    return Yes if numpy.allclose(got, expected, rtol=rtol, atol=rtol * scale, equal_nan=True) else verdict


def key(substitution: Substitution) -> str:
    """The fingerprint of everything that a proof depends on."""
    names = {parse(need)[0] for need in (substitution.needs, substitution.source_needs) if need} | {"numpy"}
    facts = {
        "substitution": [substitution.name, substitution.module, substitution.equivalence.value],
        "sources": _sources(substitution),
        "libraries": {name: installed_version(name) for name in sorted(names)},
        "python": [platform.python_implementation(), sys.version],
        "processor": _processor(),
        "settings": sorted(f"{name}={value}" for name, value in os.environ.items() if name.startswith(SETTINGS)),
    }
    if substitution.stays:
        from codedag.backends.on_device import device  # it needs numpy, which such a substitution has loaded

        facts["device"] = str(device())
    return sha256(json.dumps(facts, sort_keys=True).encode()).hexdigest()


def _sources(substitution: Substitution) -> str:
    """A hash of the substitution's file; of all files of this room, which share helpers, for one of ours."""
    file = Path(inspect.getsourcefile(substitution.run) or __file__)
    return _room() if file.parent == Path(__file__).parent else _hash([file])


@functools.cache
def _room() -> str:
    """A hash of all files of this room: once, as there are many, and those that are loaded do not change any more."""
    return _hash(sorted(Path(__file__).parent.glob("*.py")))


def _hash(files: list[Path]) -> str:
    digest = sha256()
    for path in files:
        digest.update(path.read_bytes() if path.exists() else b"")
    return digest.hexdigest()


@functools.lru_cache(maxsize=1)
def _processor() -> str:
    """The processor's model and instruction sets; without /proc, what the platform module knows."""
    try:
        lines = Path("/proc/cpuinfo").read_text().splitlines()
    except OSError:
        return f"{platform.machine()} {platform.processor()}"
    wanted = ("flags", "Features", "model name", "CPU part")
    found = {line.partition(":")[0].strip(): line.partition(":")[2].strip() for line in reversed(lines)}
    return " | ".join([platform.machine(), *(found[name] for name in wanted if name in found)])


def _read(path: Path) -> dict[str, Any]:
    """The proofs in a file; a file that is missing or not ours counts as empty."""
    try:
        content = json.loads(path.read_bytes())
    except (OSError, ValueError):
        return {}
    proofs = content.get("proofs") if isinstance(content, dict) else None
    if not isinstance(proofs, dict) or any(content.get(name) != value for name, value in HEAD.items()):
        return {}
    return {name: entry for name, entry in proofs.items() if _legal(entry)}


def _legal(entry: Any) -> bool:
    return isinstance(entry, dict) and isinstance(entry.get("ok"), bool) and isinstance(entry.get("reason"), str)


def _remember(path: Path, identity: str, proof: Proof) -> None:
    """Adds a proof to the file; where that is not possible each process proves for itself."""
    entry = {
        "substitution": proof.substitution,
        "ok": bool(proof.verdict),
        "reason": getattr(proof.verdict, "reason", ""),
        "calls": proof.calls,
        "accepted": proof.accepted,
    }
    entries = [*((name, old) for name, old in _read(path).items() if name != identity), (identity, entry)]
    try:
        write_atomically(path, json.dumps({**HEAD, "proofs": dict(entries[-KEPT:])}, indent=1).encode())
    except CannotWrite:
        pass
