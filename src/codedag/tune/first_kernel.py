"""Kernels for running programs: the point that a search has found here, else the model's first pick; never a search.

Another process chooses, compiles and proves, with low priority: it holds up no thread of the program, and goes on if
the program ends before, so that the next run finds the kernel in the cache.
"""

from __future__ import annotations

import hashlib
import json
import os
import subprocess
import sys
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np

from codedag.ir.errors import CodedagError
from codedag.tune import kernel_cache
from codedag.tune.declined import CannotTune
from codedag.tune.kernel import Kernel, build_kernel
from codedag.tune.measure import protocol
from codedag.tune.measure.probes import library_threads, product_order
from codedag.tune.model.shipped import shipped_records
from codedag.tune.program.program import Program, decoded
from codedag.tune.program.record import record
from codedag.tune.schedule.family import EXACT, family_of
from codedag.tune.schedule.space import Point, point_of, point_text

NICE = 10


def first_kernel(function: Callable[..., Any], like: Sequence[tuple[str, tuple[int, ...]]], name: str) -> Kernel:
    """The kernel of a function of arrays of these types and shapes, proven and EXACT; CannotTune if there is none."""
    program = nameless(record(function, [np.ones(shape, dtype) for dtype, shape in like], name))
    choice = _remembered(program) or _asked(program)
    if choice.get("declined"):
        raise CannotTune(f"{name}: {choice['declined']}")
    order = str(choice["order"])
    return build_kernel(family_of(program, order), point_of(str(choice["point"])), order, function)


def nameless(program: Program) -> Program:
    """The program without what only people read: its name, and the lines of its statements."""
    statements = tuple(replace(one, line="") for one in program.statements)
    return replace(program, name="region", statements=statements)


def remember_choice(program: Program, point: Point, order: str) -> None:
    """Makes a point the choice for programs that run; a search has found it."""
    _remember(nameless(program), {"point": point_text(point), "order": order, "found": "search"})


def _key(program: Program) -> tuple[str, list[Any]]:
    question = ["first kernel", shipped_records(), np.__version__, program.encoded(), library_threads()]
    return kernel_cache.kernel_key(hashlib.sha256(json.dumps(question).encode()).hexdigest()), question


def _remembered(program: Program) -> dict[str, Any] | None:
    key, question = _key(program)
    entry = kernel_cache.remembered_fact(key)
    return entry if entry is not None and entry.get("question") == question else None


def _remember(program: Program, choice: dict[str, Any]) -> None:
    key, question = _key(program)
    kernel_cache.remember_proof(key, {"question": question, **choice})


def _asked(program: Program) -> dict[str, Any]:
    """What another process chooses, after it has built and proven the kernel."""
    roots = json.dumps([str(Path(__file__).parents[2]), str(Path(np.__file__).parents[1])])
    try:
        with subprocess.Popen(
            (sys.executable, "-I", "-c", protocol.start_of(__name__), roots),
            stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, start_new_session=True,
            env={**os.environ, "CODEDAG_DISABLE": "1"},
        ) as child:  # fmt: skip
            said, _ = child.communicate(program.encoded().encode())
        return protocol.decoded(said)
    except (OSError, ValueError) as error:
        raise CannotTune(f"the process that builds kernels gave no answer ({error})") from None


def choose(program: Program) -> dict[str, Any]:
    """The point and the order of a program, its kernel built and proven in the cache; or why there is none."""
    from codedag.tune.task import Task

    order = product_order(program)
    with Task(program, _never_called, order, program.name) as task:
        if task.exactness != EXACT:
            return {"declined": task.family.why_not_exact}
        point = task.first_pick()
        if point is None:
            return {"declined": "the model has no pick"}
        task.kernel(point)
        return {"point": point_text(point), "order": order}


def _never_called(*_: Any) -> Any:
    raise AssertionError("the program as written does not run here")


def main() -> None:
    """Reads a program, answers with the choice for it, and remembers it unless something was missing here."""
    os.nice(NICE)
    program = decoded(sys.stdin.read())
    try:
        choice = choose(program)
    except CodedagError as error:  # no compiler, no time: another run may have them
        choice = {"declined": error.message}
    else:
        _remember(program, choice)
    sys.stdout.write(json.dumps(choice))


if __name__ == "__main__":
    main()
