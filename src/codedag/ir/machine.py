"""The machine a plan is for: processing units and the links between them."""

from __future__ import annotations

from typing import Literal

import msgspec
from msgspec import UNSET, UnsetType

from codedag.ir.fields import Natural, NBytes, Rate, Seconds, Watts


class Copied(msgspec.Struct, frozen=True, kw_only=True):
    """One measured size of a copy."""

    nbytes: NBytes
    seconds: Seconds


class Pu(msgspec.Struct, frozen=True, kw_only=True):
    """A processing unit: one runtime on one resource; without `resource` it has one of its own."""

    name: str
    resource: str | UnsetType | None = UNSET
    memory_nbytes: NBytes
    launch_seconds: Seconds
    simulated: bool = False
    runtime: str | UnsetType = UNSET
    threads: Natural | UnsetType = UNSET
    cores: list[Natural] | UnsetType = UNSET  # of the host, to which its process is bound
    capability: list[str] | UnsetType = UNSET
    settings: dict[str, str] | UnsetType = UNSET
    watts: Watts | UnsetType = UNSET  # while it works: measured, or as declared by whoever wrote the file
    flop_per_second: Rate | UnsetType = UNSET
    stream_bytes_per_second: Rate | UnsetType = UNSET
    fresh_bytes_per_second: Rate | UnsetType = UNSET  # memory that is used for the first time
    stream_levels: list[Copied] | UnsetType = UNSET  # a copy within so many bytes, its source and its target together

    def __post_init__(self) -> None:
        if not self.name or "," in self.name:
            raise ValueError(f"name: `{self.name}` is empty or has a comma")
        _absent_if_none(self, "resource", self.resource)

    @property
    def turn(self) -> tuple[str, str]:
        """The key of what this PU occupies: PUs with equal keys take turns."""
        return ("resource", self.resource) if isinstance(self.resource, str) else ("pu", self.name)


class Absent(msgspec.Struct, frozen=True, kw_only=True):
    """A PU that was looked for and not found, and why."""

    name: str
    reason: str


class Link(msgspec.Struct, frozen=True, kw_only=True):
    """A one-way connection between two PUs; links with the same `shared` name take turns."""

    src: str
    dst: str
    latency_seconds: Seconds
    bytes_per_second: Rate
    shared: str | UnsetType | None = UNSET
    how: str | UnsetType = UNSET
    measured: list[Copied] | UnsetType = UNSET
    converted: list[Copied] | UnsetType = UNSET  # with a change from float64 to float32 on the way

    def __post_init__(self) -> None:
        _absent_if_none(self, "shared", self.shared)

    @property
    def turn(self) -> tuple[str, str]:
        """The key of the copy engine: copies over links with equal keys take turns."""
        return ("shared", self.shared) if isinstance(self.shared, str) else (self.src, f"->{self.dst}")


class Machine(msgspec.Struct, frozen=True, kw_only=True):
    """machine.json: the PUs found (or simulated, and then labelled) and the measured links."""

    format: Literal["codedag/machine"] = "codedag/machine"
    version: Literal[1] = 1
    pus: list[Pu]
    links: list[Link] = msgspec.field(default_factory=list)
    absent: list[Absent] | UnsetType = UNSET

    def __post_init__(self) -> None:
        names: set[str] = set()
        for at, pu in enumerate(self.pus):
            if pu.name in names:
                raise ValueError(f"pus[{at}].name: a second PU named `{pu.name}`")
            names.add(pu.name)
        self._check_links(names)

    def _check_links(self, names: set[str]) -> None:
        seen: set[tuple[str, str]] = set()
        for at, link in enumerate(self.links):
            for end in ("src", "dst"):
                if getattr(link, end) not in names:
                    raise ValueError(f"links[{at}].{end}: there is no PU `{getattr(link, end)}`")
            if (link.src, link.dst) in seen:
                raise ValueError(f"links[{at}]: a second link from `{link.src}` to `{link.dst}`")
            seen.add((link.src, link.dst))

    def pu(self, name: str) -> Pu | None:
        """The PU with this name, or None."""
        return next((pu for pu in self.pus if pu.name == name), None)

    def link(self, src: str, dst: str) -> Link | None:
        """The link from one PU to another, or None: then they cannot exchange data directly."""
        return next((one for one in self.links if (one.src, one.dst) == (src, dst)), None)


def _absent_if_none(owner: msgspec.Struct, field: str, value: object) -> None:
    # A reader in another language may take `null` for a name that several PUs share: it is never written.
    if value is None:
        msgspec.structs.force_setattr(owner, field, UNSET)
