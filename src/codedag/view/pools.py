"""What pools of workers (multiprocessing, concurrent.futures, joblib) spend on themselves in the main process."""

from __future__ import annotations

from collections import defaultdict

from codedag.ir import Heat
from codedag.view.call_tree import Tree
from codedag.view.heat import whole
from codedag.view.loader import Part

SHARE_MIN = 0.05  # of the run in them, waiting included, from which they are shown
POOLS = (
    "Pool.", "ThreadPool", "_ExecutorManagerThread", "ProcessPoolExecutor", "Executor.", "Parallel", "_Executor",
    "ApplyResult.", "IMapIterator.", "Future.", "_ThreadWakeup", "LokyBackend", "AsyncResult", "as_completed",
)  # fmt: skip
LOADER = ("DataLoader", "_worker_loop")
PICKLING = ("dumps", "dump", "loads", "load", "reducer_override", "_reduce_memmap", "hasher")
STARTING = ("Popen", "spawnv_passfds", "_launch", "Process.start", "_start_executor", "_repopulate")
WORDS = {
    "waiting for results": "the program stands still until workers have answered",
    "pickling": "turning tasks and results into bytes and back",
    "starting processes": "starting and ending workers",
    "handing over": "queues, pipes and bookkeeping of tasks",
}


def pools(heat: Heat) -> list[Part]:
    """The parts of the time of pools; nothing if they took little."""
    tree, sums = Tree(heat.calls), defaultdict[str, float](float)
    for number, call in enumerate(heat.calls):
        path = [heat.calls[each] for each in tree.callers(number)]
        at = next((depth for depth, one in enumerate(path) if not one.package), len(path))
        names = [one.name for one in path[:at]]  # of packages, between the code that calls a pool and what it calls
        if not any(name.startswith(POOLS) for name in names) or any(n.startswith(LOADER) for n in names):
            continue
        sums[_part_of(names)] += call.self_seconds
        if at < len(path):  # threads of the pool itself always wait
            sums["waiting for results"] += call.waiting_seconds
    run = max(heat.sampled_seconds, whole(heat)) or 1.0
    if sum(sums.values()) < SHARE_MIN * run:
        return []
    return [Part(name, sums[name], words) for name, words in WORDS.items() if sums.get(name)]


def _part_of(names: list[str]) -> str:
    if any(name.rpartition(".")[2] in PICKLING for name in names):
        return "pickling"
    return "starting processes" if any(one in name for name in names for one in STARTING) else "handing over"


def lines(heat: Heat) -> list[str]:
    """The parts as text."""
    found = pools(heat)
    told = ", ".join(f"{part.name} {part.seconds:.1f} s" for part in found)
    return [f"worker pools, in the main process: {told}"] if found else []
