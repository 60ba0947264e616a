"""Processes of the PUs that execute a plan: started when first asked, bound to cores, every failure a Fault."""

from __future__ import annotations

import os
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from codedag.ir.verdict import No
from codedag.profile.process import LOADING_SECONDS, Ended, PuProcess
from codedag.stages.measuring.measure import program_of
from codedag.stages.measuring.quantise import variant_file
from codedag.stages.model import Block, StagedModel
from codedag.stages.onnx_models.export import packed
from codedag.stages.runners import RUNTIMES, Program, cores_of

#: A PU that gives no answer to a run for the larger of these is left.
ANSWER_SECONDS, ANSWER_TIMES = 10.0, 20.0
#: For compiling a block and its first call: Inductor takes half a minute on a busy machine.
SETUP_SECONDS = 120.0
WORKER = "codedag.stages.measuring.worker"


class Fault(Exception):  # noqa: N818 - control flow of the executor
    """A PU that cannot go on: it crashed, hangs, has no memory, does not take a block, or gives wrong results."""

    def __init__(self, pu: str, reason: str, stage: int | None = None) -> None:
        super().__init__(f"{pu}: {reason}")
        self.pu, self.reason, self.stage = pu, reason, stage


class PuPool:
    """One process per PU."""

    def __init__(self, cores: Mapping[str, tuple[int, ...]], setup_seconds: float = SETUP_SECONDS) -> None:
        self.cores = dict(cores)
        self.setup_seconds = setup_seconds
        self._processes: dict[str, PuProcess] = {}

    def __enter__(self) -> PuPool:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def start(self, pus: Iterable[str]) -> None:
        """Starts PUs that are not up, all at once; raises Fault for one whose library cannot be loaded."""
        new = [pu for pu in pus if pu not in self._processes]
        for pu in new:
            self._processes[pu] = PuProcess(pu, module=WORKER, arguments=self._arguments(pu))
            self._sent(pu, {"do": "hello"})
        for pu in new:
            self._received(pu, LOADING_SECONDS)

    def _arguments(self, pu: str) -> tuple[str, ...]:
        cores = self.cores.get(pu, ())
        return ("--threads", str(len(cores)), "--cores", ",".join(map(str, cores))) if cores else ()

    def setup(self, pu: str, request: dict[str, Any], payload: bytes = b"") -> dict[str, Any]:
        """The answer to a request that may compile."""
        self._sent(pu, request, payload)
        return self._received(pu, self.setup_seconds)

    def forget(self, shares: Iterable[Any]) -> None:
        """Gives up loaded blocks; PUs that are left by then do not matter."""
        keys: dict[str, list[str]] = {}
        for share in shares:
            keys.setdefault(share.pu, []).append(share.key)
        for pu, names in keys.items():
            try:
                self.setup(pu, {"do": "forget", "keys": names})
            except (Fault, KeyError):
                continue

    def run(self, pu: str, key: str, predicted_seconds: float) -> dict[str, Any]:
        """The answer to one run of a loaded block."""
        self._sent(pu, {"do": "run", "key": key})
        return self._received(pu, max(ANSWER_SECONDS, ANSWER_TIMES * predicted_seconds))

    def _sent(self, pu: str, request: dict[str, Any], payload: bytes = b"") -> None:
        try:
            self._processes[pu].send(request, payload)
        except Ended as reason:
            raise Fault(pu, str(reason)) from None

    def _received(self, pu: str, most_seconds: float) -> dict[str, Any]:
        try:
            answer = self._processes[pu].receive(most_seconds)
        except Ended as reason:
            raise Fault(pu, str(reason)) from None
        if answer.get("status") != "ok":
            raise Fault(pu, str(answer.get("reason", "it gave no sensible answer")))
        return answer

    def claims(self, pu: str) -> frozenset[object]:
        """What a PU occupies while it works: cores of the host, or its own device; PUs that share one take turns."""
        if not is_on_host(pu):
            return frozenset((pu,))
        return frozenset(self.cores.get(pu) or cores_of(pu) or range(os.cpu_count() or 1))

    def leave(self, pu: str) -> None:
        """Ends the process of a PU."""
        process = self._processes.pop(pu, None)
        if process is not None:
            process.close()

    def close(self) -> None:
        """Ends all processes."""
        for pu in list(self._processes):
            self.leave(pu)


def is_on_host(pu: str) -> bool:
    """Whether a PU computes on the cores of this machine, in its memory."""
    family, _, resource = pu.partition(":")
    return family in RUNTIMES and resource.startswith("cpu")


class BlockPrograms:
    """The programs of blocks, made when first asked for."""

    def __init__(self, model: StagedModel, directory: Path) -> None:
        self._model, self._directory = model, directory
        self._made: dict[tuple[str, bool, str], Program] = {}

    def of(self, block: Block, pu: str, variant: str = "") -> Program:
        """The program of a block for a PU; raises Fault where torch is asked and the model has no such form."""
        of_torch = pu.partition(":")[0] not in ("ov", "ort", "numba")
        key = (block.name, of_torch, variant)
        if key not in self._made:
            payload = packed(self._model, block) if of_torch else b""
            if isinstance(payload, No):
                raise Fault(pu, payload.reason)
            program = program_of(self._model, block, self._directory, payload)
            file = variant_file(self._model, block, self._directory, variant) if variant else program.onnx
            self._made[key] = replace(program, onnx=str(file))
        return self._made[key]
