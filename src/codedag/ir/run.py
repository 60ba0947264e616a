"""What was run: the command, its arguments and how it ended."""

from __future__ import annotations

from typing import Annotated, Literal

import msgspec

from codedag.ir.fields import RunStatus, Seconds


class RunInfo(msgspec.Struct, frozen=True, kw_only=True):
    """run.json: one run of CodeDAG; `running` in a file means that the process was killed or still runs."""

    format: Literal["codedag/run"] = "codedag/run"
    version: Literal[1] = 1
    command: str
    argv: list[str]
    cwd: str
    versions: dict[str, str]
    status: RunStatus
    started: str = ""
    exit_code: int | None = None
    script: str = ""
    notes: list[str] = msgspec.field(default_factory=list)
    recorder_seconds: Seconds = 0.0
    held_up: Annotated[float, msgspec.Meta(ge=0, lt=1)] = 0.0  # the share of its time that it waited for a processor
