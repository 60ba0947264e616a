"""What is gathered: templates, chains of sites, and what user code handed back to a library call."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Any, Literal

OpKind = Literal["call", "operator", "subscript", "region", "source", "sink"]
EdgeKind = Literal["flow", "anti"]


@dataclass(slots=True)
class Template:
    """One operation as it is being gathered: everything at one chain of call sites with one signature."""

    number: int
    name: str
    kind: OpKind
    path: int
    site: Any
    in_sig: str
    out_sig: str = ""
    count: int = 0
    self_ns: int = 0
    total_ns: int = 0
    least_ns: int = 1 << 62
    most_ns: int = 0
    out_nbytes: int = 0
    peak_nbytes: int = 0  # the most that one call allocated while it ran; of a memory pass

    def add(self, other: Template) -> None:
        """Takes in the counts of another template of the same operation."""
        self.count += other.count
        self.self_ns += other.self_ns
        self.total_ns += other.total_ns
        self.out_nbytes += other.out_nbytes
        self.peak_nbytes = max(self.peak_nbytes, other.peak_nbytes)
        self.least_ns, self.most_ns = min(self.least_ns, other.least_ns), max(self.most_ns, other.most_ns)


@dataclass(slots=True)
class Chain:
    """A chain of call sites: the parent chain and the site at its end."""

    parent: int
    site: Any
    depth: int


@dataclass(slots=True)
class Returned:
    """What user code handed back to a library call: its producers, with sizes, without the values.

    Tokens stand for batches that another process made.
    """

    flows: dict[int, int] = field(default_factory=dict)
    tokens: list[int] = field(default_factory=list)
