"""`codedag cache`: what is kept to be fast the next time, how much it is, and how to be rid of it."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click

from codedag.cli.options import tell
from codedag.cli.settings import nbytes
from codedag.ir.errors import CannotWrite

#: What lies in the cache folder: everything in it can be made again.
KINDS = {
    "code": "rewritten code of programs",
    "kernels": "compiled and proven kernels",
    "plans": "what earlier runs found out about programs",
    "vain": "the same by older versions, not read any more",
    "proofs": "proofs that substitutes are exact on this machine",
    "costs": "measured costs of operations",
    "samples": "sampled inputs of operations",
    "tuning": "measurements of `codedag tune`",
    "demo": "program and pictures of `codedag demo`",
    "other": "anything else",
}


@dataclass(frozen=True, slots=True)
class Kept:
    """One file in the cache."""

    path: str
    kind: str
    nbytes: int
    seconds: float  # when it was written


@click.group("cache", short_help="Show or clear what is kept to be fast the next time.")
def command() -> None:
    """Show or clear the caches. All that is in them can be made again: clearing costs only time."""


@command.command("show")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def show(as_json: bool) -> None:
    """Show what is kept, where, and how much it is."""
    from codedag.ir import cache_dir

    facts = _facts(cache_dir())
    if as_json:
        tell(json.dumps(facts))
        return
    tell(f"{facts['folder']}: {_amount(facts['nbytes'])}")
    for name, each in facts["kinds"].items():
        tell(f"  {name}: {_many(each['files'])}, {_amount(each['nbytes'])} ({KINDS[name]})")
    tell("next: codedag cache clear [KIND]... or codedag cache clear --to SIZE")


@command.command("clear")
@click.argument("kinds", nargs=-1, type=click.Choice(list(KINDS)))
@click.option("--older", type=click.FloatRange(0), metavar="DAYS", help="Only what was written so many days ago.")
@click.option("--to", "size", metavar="SIZE", help="Only the oldest, until no more than this is left, such as 500M.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
def clear(kinds: tuple[str, ...], older: float | None, size: str | None, as_json: bool) -> None:
    """Remove what is kept: all of it, or some KINDS, or only what is old or too much."""
    from codedag.ir import cache_dir

    found = [kept for kept in _kept(cache_dir()) if not kinds or kept.kind in kinds]
    chosen = _chosen(found, older, None if size is None else nbytes(size))
    removed = _removed(chosen)
    facts = {"removed": len(removed), "nbytes": sum(kept.nbytes for kept in removed), "left": len(found) - len(removed)}
    if as_json:
        tell(json.dumps(facts))
    else:
        tell(f"removed {_many(facts['removed'])}, {_amount(facts['nbytes'])}", "next: codedag cache show")
    if len(removed) < len(chosen):
        left = next(kept.path for kept in chosen if kept not in removed)
        raise CannotWrite(f"{len(chosen) - len(removed)} files could not be removed, such as {left}")


def _kept(folder: Path) -> list[Kept]:
    """Every file in the cache, oldest first; links are not followed."""
    found = []
    for path in _files(folder):
        name = Path(path).relative_to(folder).parts[0].split(".")[0]
        try:
            status = os.lstat(path)
        except OSError:
            continue  # another process has removed it
        found.append(Kept(path, name if name in KINDS else "other", status.st_size, status.st_mtime))
    return sorted(found, key=lambda kept: kept.seconds)


def _files(folder: Path) -> Iterator[str]:
    for at, _, names in os.walk(folder):
        yield from (os.path.join(at, name) for name in names)  # noqa: PTH118


def _facts(folder: Path) -> dict[str, Any]:
    found = _kept(folder)
    kinds: dict[str, dict[str, int]] = {}
    for name in KINDS:
        own = [kept.nbytes for kept in found if kept.kind == name]
        if own or name != "other":
            kinds[name] = {"files": len(own), "nbytes": sum(own)}
    return {"folder": str(folder), "nbytes": sum(kept.nbytes for kept in found), "kinds": kinds}


def _chosen(found: list[Kept], older: float | None, size: int | None) -> list[Kept]:
    if older is not None:
        found = [kept for kept in found if kept.seconds <= time.time() - older * 86_400]
    if size is None:
        return found
    total, chosen = sum(kept.nbytes for kept in found), []
    for kept in found:
        if total <= size:
            break
        chosen.append(kept)
        total -= kept.nbytes
    return chosen


def _removed(chosen: list[Kept]) -> list[Kept]:
    done = []
    for kept in chosen:
        try:
            Path(kept.path).unlink(missing_ok=True)
            done.append(kept)
        except OSError:
            continue
    return done


def _many(files: int) -> str:
    return f"{files} file{'' if files == 1 else 's'}"


def _amount(count: int) -> str:
    amount = float(count)
    for unit in ("bytes", "kB", "MB"):
        if amount < 1000:
            return f"{amount:.0f} {unit}" if unit == "bytes" else f"{amount:.1f} {unit}"
        amount /= 1000
    return f"{amount:.1f} GB"
