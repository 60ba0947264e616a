"""The field types that the files share: a number's range is part of its type, so reading checks it."""

from __future__ import annotations

from typing import Annotated, Literal

from msgspec import Meta

# Columns are 64-bit arrays: a number that does not fit is refused when it is read, not when it is stored.
LARGEST = 2**63 - 1

OpId = Annotated[int, Meta(ge=0, le=LARGEST, description="id of an op of graph.json")]
Index = Annotated[int, Meta(ge=-1, le=LARGEST, description="-1 = not known")]
Line = Annotated[int, Meta(ge=0, le=LARGEST, description="line of the source, from 1; 0 = none")]
Count = Annotated[int, Meta(ge=1, le=LARGEST, description="how many calls this row sums up")]
Natural = Annotated[int, Meta(ge=0, le=LARGEST)]
NBytes = Annotated[int, Meta(ge=0, le=LARGEST, description="bytes")]
Seconds = Annotated[float, Meta(ge=0, description="seconds")]
Watts = Annotated[float, Meta(ge=0, description="watts")]
Joules = Annotated[float, Meta(ge=0, description="joules")]
Factor = Annotated[float, Meta(ge=0, description="times as much")]
Share = Annotated[float, Meta(ge=0, description="part of a whole: 0.25 = 25 %")]
Rate = Annotated[float, Meta(gt=0, description="bytes per second")]

OpKind = Literal["call", "operator", "subscript", "region", "source", "sink"]
EdgeKind = Literal["flow", "anti"]
Status = Literal["ok", "failed", "unsupported"]
RunStatus = Literal["ok", "running", "failed", "error"]

OP_KINDS: frozenset[str] = frozenset(("call", "operator", "subscript", "region", "source", "sink"))
EDGE_KINDS: frozenset[str] = frozenset(("flow", "anti"))
