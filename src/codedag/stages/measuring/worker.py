"""The process of one PU: it is asked line by line in JSON to load a block, to time it, to run it, to forget it.

    python -P -m codedag.stages.measuring.worker PU [--threads N] [--cores 0,1]

It measures and it executes, so that what was measured is what runs. A library that prints, crashes or hangs hurts
nobody but this process.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import sys
import time
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from codedag.instrument.guard import Failed
from codedag.instrument.guard import attempt as guarded
from codedag.profile.orphan import end_with_parent, without_telemetry
from codedag.stages.measuring.arena import attached
from codedag.stages.model import Arrays
from codedag.stages.runners import Loaded, Program, RanElsewhere, Runner, Unsupported, cores_of, runner_of

Answer = dict[str, Any]

MOST_CHARACTERS = 300  # of a reason
#: PUs that take no model whose sizes are not fixed.
STATIC_ONLY = ("ov:npu",)


@dataclass(slots=True)
class Timed:
    """The seconds of one call: bringing the inputs, and all of it."""

    transfer: float
    total: float


class Worker:
    """The blocks that are loaded in this process, by the key that the asker gave them."""

    def __init__(self, pu: str, threads: int, static: bool = False) -> None:
        self.pu, self.threads = pu, threads
        self.is_static = static or pu.partition(".")[0] in STATIC_ONLY
        self._runner: Runner | None = None
        self._loaded: dict[str, Loaded] = {}

    def answer(self, request: dict[str, Any], payload: bytes) -> Answer:
        """What comes of a request; never raises."""
        done = guarded(self._do, request, payload)
        return {"status": "failed", "reason": in_one_line(done.reason)} if isinstance(done, Failed) else done

    def _do(self, request: dict[str, Any], payload: bytes) -> Answer:
        try:
            return _ACTIONS[request["do"]](self, request, payload)
        except Unsupported as reason:
            return {"status": "unsupported", "reason": str(reason)}
        except RanElsewhere as reason:
            return {"status": "failed", "reason": str(reason)}

    def hello(self, _: dict[str, Any], __: bytes) -> Answer:
        """Loads the library of the PU and says its version."""
        return {"status": "ok", "version": self.runner.version}

    @property
    def runner(self) -> Runner:
        """The runtime, loaded when it is first used."""
        if self._runner is None:
            self._runner = runner_of(self.pu, self.threads)
        return self._runner

    def load(self, request: dict[str, Any], payload: bytes) -> Answer:
        """Compiles a block and calls it once; says how long that took and where it ran."""
        before, begun = _memory_nbytes(), time.perf_counter()
        program = Program.of(request["program"], payload)
        inputs, outputs = (
            {name: attached(reference) for name, reference in request[side].items()} for side in ("inputs", "outputs")
        )
        loaded = self._loaded[request["key"]] = self._load(program, request["sizes"], inputs, outputs)
        _call(loaded)
        loaded.fetch()
        seconds = time.perf_counter() - begun
        for _warm in range(request.get("warmup", 0)):
            _call(loaded)
        again = _call(loaded)
        grown = max(0, _memory_nbytes() - before)
        return {
            "status": "ok",
            "setup_seconds": seconds,
            "call_seconds": again.total,
            "ran_on": loaded.ran_on(),
            "precision": loaded.precision,
            "peak_nbytes": grown,
        }

    def _load(self, program: Program, sizes: dict[str, int], inputs: Arrays, outputs: Arrays) -> Loaded:
        if not self.is_static or not sizes:
            return self.runner.load(program, sizes, inputs, outputs)
        from codedag.stages.measuring.padding import Padded

        return Padded(self.runner, program, sizes, inputs, outputs)

    def time(self, request: dict[str, Any], _: bytes) -> Answer:
        """Calls a block once or several times."""
        loaded = self._loaded[request["key"]]
        calls = [_call(loaded) for _repeat in range(request["repeats"])]
        loaded.fetch()
        return {
            "status": "ok", "ran_on": loaded.ran_on(), "total": [call.total for call in calls],
            "transfer": [call.transfer for call in calls],
        }  # fmt: skip

    def run(self, request: dict[str, Any], _: bytes) -> Answer:
        """Calls a block once, with its outputs where others can read them; says when, by the system's clock."""
        loaded, start = self._loaded[request["key"]], time.time()
        call = _call(loaded)
        loaded.fetch()
        return {"status": "ok", "start": start, "end": time.time(), "transfer": call.transfer, "total": call.total}

    def forget(self, request: dict[str, Any], _: bytes) -> Answer:
        """Gives up blocks."""
        for key in request["keys"]:
            self._loaded.pop(key, None)
        gc.collect()
        gc.freeze()  # the next time only what is new is looked at: with torch loaded, all of it takes 0.2 s
        return {"status": "ok"}


_ACTIONS = {"hello": Worker.hello, "load": Worker.load, "time": Worker.time, "run": Worker.run, "forget": Worker.forget}


def in_one_line(reason: str) -> str:
    """An error of a runtime with its kind and its last line: OpenVINO tells the whole way through its sources."""
    lines = [line.strip() for line in reason.replace("\\n", "\n").splitlines() if line.strip()]
    told = f"{lines[0].partition(':')[0]}: {lines[-1]}" if len(lines) > 1 else reason
    return told[:MOST_CHARACTERS]


def _call(loaded: Loaded) -> Timed:
    begun = time.perf_counter()
    loaded.bring()
    there = time.perf_counter()
    loaded.run()
    return Timed(there - begun, time.perf_counter() - begun)


def _memory_nbytes() -> int:
    import psutil

    return int(psutil.Process().memory_info().rss)


def _bind(cores: Sequence[int]) -> None:
    """Keeps this process on some cores, where the system can do that."""
    import psutil

    process = psutil.Process()
    if cores and hasattr(process, "cpu_affinity"):
        process.cpu_affinity(list(cores))


def _options() -> argparse.Namespace:
    parser = argparse.ArgumentParser()
    parser.add_argument("pu")
    parser.add_argument("--threads", type=int, default=0)
    parser.add_argument("--cores", default="")
    parser.add_argument("--static", action="store_true")
    return parser.parse_args()


def main() -> None:
    """Answers requests until there are no more; what libraries print goes to stderr."""
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    end_with_parent()
    without_telemetry()
    options = _options()
    cores = [int(core) for core in options.cores.split(",") if core] or cores_of(options.pu)
    _bind(cores)
    worker = Worker(options.pu, options.threads or len(cores) or os.cpu_count() or 1, options.static)
    gc.disable()
    answers.write('{"status": "ready"}\n')
    answers.flush()
    requests = sys.stdin.buffer
    while line := requests.readline():
        request = json.loads(line)
        payload = requests.read(request.get("payload_nbytes", 0))
        answers.write(json.dumps(worker.answer(request, payload)) + "\n")
        answers.flush()


if __name__ == "__main__":
    main()
