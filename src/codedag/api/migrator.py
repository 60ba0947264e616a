"""The guides' names for a plan in force: `PipelineMigrator`, and what the first CodeDAG called its parts."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Collection, Mapping
from types import TracebackType
from typing import Any

from codedag.backends.registry import EXACT, Equivalence
from codedag.ir import Plan
from codedag.migrate.patches import proxies
from codedag.migrate.placement.migrator import Migrator
from codedag.migrate.placement.modes import Mode
from codedag.migrate.placement.requests import BadPlan, Request, Requests, requests_of

AnyPlan = Plan | Mapping[str, Any] | str | os.PathLike[str]
Allowed = Collection[str | Equivalence]


class PipelineMigrator:
    """A plan that can be applied to this process and taken back.

    `mode` says how results are verified (off, sample, shadow, strict), `allow` which classes of equivalence may be
    used beside `exact` (ulp, level1).  Without `demote` substitutes stay although they are not faster: for tests.
    """

    def __init__(
        self, requests: Requests, mode: str | Mode = "sample", allow: Allowed = (EXACT,), demote: bool = True
    ) -> None:
        named = [allow] if allow is None or isinstance(allow, str | Equivalence) else allow
        classes = [equivalence(one) for one in named]
        self._migrator = Migrator(requests, mode, classes, demote)
        self._blocks = 0  # `with` blocks of this migrator that were entered and not left, in any thread
        self._entering = threading.Lock()

    @classmethod
    def from_plan(cls, plan: AnyPlan, default_device: str | None = None, **options: Any) -> PipelineMigrator:
        """The migrator of a plan; the default device is that of entries which name none."""
        return cls(requests_of(plan, default_device), **options)

    @classmethod
    def from_json(
        cls, path: str | os.PathLike[str], default_device: str | None = None, **options: Any
    ) -> PipelineMigrator:
        """The migrator of a plan.json or migration_plan.json."""
        if not isinstance(path, str | os.PathLike):
            raise BadPlan(
                f"path: {path!r:.80} is not a path", hint="Give the path of a plan; `from_plan` takes others."
            )
        return cls(requests_of(os.fspath(path), default_device), **options)

    @classmethod
    def from_optimizer(
        cls,
        optimizer: Any,
        partitions: Any = None,
        dag: Any = None,
        gpu_count: int | None = None,
        default_device: str | None = None,
        **options: Any,
    ) -> PipelineMigrator:
        """The migrator of what an OptimizerManager decided; `partitions` may be all that `optimize` returned."""
        make = getattr(optimizer, "get_migration_plan", None)
        if make is None:
            return cls.from_plan(optimizer, default_device, **options)
        if isinstance(partitions, Mapping):
            partitions, dag = partitions.get("optimized_partitions"), dag or partitions.get("coarsened_dag")
        if partitions is None or dag is None:
            raise BadPlan("partitions: none are given", hint="Give what `optimizer.optimize(dag)` returned.")
        given = {"partitions": partitions, "dag": dag, "gpu_count": gpu_count}
        plan = make(**{name: value for name, value in given.items() if value is not None})
        return cls.from_plan(plan, default_device, **options)

    def apply(self) -> dict[str, int]:
        """How many functions were `patched`, `failed` and `skipped`; zeros if it is applied already."""
        return self._migrator.apply()

    def restore(self) -> int:
        """How many functions were put back."""
        return self._migrator.restore()

    def is_applied(self) -> bool:
        """Whether the plan is in force."""
        return self._migrator.is_applied

    def get_stats(self) -> dict[str, dict[str, Any]]:
        """Per function: calls, fast, checked, declined with reasons, mismatches, gain, active, reason."""
        return self._migrator.stats()

    def verdict(self) -> dict[str, Any]:
        """IDENTICAL, DIFFERENT or UNCHECKED, how many were compared, and used unchecked before a difference."""
        return self._migrator.verdict()

    @property
    def notes(self) -> tuple[str, ...]:
        """The parts of the plan that need `codedag run`, and what other processes counted and could not tell."""
        return (*self._migrator.requests.notes, *self._migrator.missing)

    def __enter__(self) -> PipelineMigrator:
        with self._entering:
            self.apply()
            self._blocks += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        with self._entering:
            self._blocks -= 1
            if not self._blocks:  # an inner block leaves the outer one as it is
                self.restore()


def apply(plan: AnyPlan, **options: Any) -> PipelineMigrator:
    """The migrator of a plan, applied already; used as a context manager it restores at the end of the block."""
    migrator = PipelineMigrator.from_plan(plan, **options)
    migrator.apply()
    return migrator


def create_custom_migrator(functions: Mapping[str, str], **options: Any) -> PipelineMigrator:
    """The migrator that replaces these functions, by dotted name, with what is registered for the given device."""
    if not isinstance(functions, Mapping):
        raise BadPlan("functions: is not a mapping", hint="Map dotted names of functions to devices.")
    return PipelineMigrator.from_plan({"context_device_map": dict(functions)}, **options)


class PatchInjector:
    """What the guides call the part that puts wrappers in place: a migrator under its other names."""

    def __init__(
        self, context_device_map: Mapping[str, str], default_device: str | None = None, **ignored: Any
    ) -> None:
        plan = {"context_device_map": dict(context_device_map)}
        self._migrator = PipelineMigrator.from_plan(plan, default_device)

    def apply_all(self) -> dict[str, int]:
        """How many functions were `patched`, `failed` and `skipped`."""
        return self._migrator.apply()

    def restore_all(self) -> int:
        """How many functions were put back."""
        return self._migrator.restore()


class UniversalWrapper:
    """One function with its registered substitutes on trial, without anything being replaced."""

    def __init__(self, func_path: str, original_func: Callable[..., Any] | None = None, device: str = "cpu") -> None:
        self._migrator = Migrator(Requests((Request(func_path, func_path, device),)))
        self._patch = self._migrator.only_patch()
        function = original_func if self._patch is None else original_func or self._patch.original
        if function is None:
            raise BadPlan(f"{func_path} is not loaded", hint="Import its library first, or give original_func.")
        self._stand = proxies.make(proxies.behind(function))
        if self._patch is not None and self._patch.possible():
            proxies.native.set_layers(self._stand, (self._patch.layer,))

    def __call__(self, *args: Any, **kwargs: Any) -> Any:
        """What the original gives."""
        return self._stand(*args, **kwargs)

    def get_stats(self) -> dict[str, Any]:
        """What became of the calls."""
        return self._migrator.stats_of(self._patch)


def equivalence(name: str | Equivalence) -> Equivalence:
    """The class of equivalence of this name."""
    try:
        return Equivalence(name)
    except ValueError as error:
        known = ", ".join(one.value for one in Equivalence)
        raise BadPlan(f"allow: there is no class {name!r}", hint=f"Use some of {known}.") from error


__all__ = [
    "PatchInjector",
    "PipelineMigrator",
    "UniversalWrapper",
    "apply",
    "create_custom_migrator",
]
