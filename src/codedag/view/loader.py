"""A torch DataLoader taken apart: reading, transforms, collating, hand-over, waiting; advice with its figures."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterator

import msgspec

from codedag.ir import Heat, HotCall
from codedag.view.call_tree import Tree
from codedag.view.heat import whole
from codedag.view.hints import Hint

SHARE_MIN = 0.1  # of the run in the loader, from which it is shown
ITEMS_SHARE_MIN = 0.4  # of the run in the main process's own items, from which workers are worth a try
COLLATE_SHARE_MIN = 0.25  # of the loader's time in collating, from which torch's threads are suspected
WAITING_SHARE_MIN = 0.1  # of the run in waiting for workers, from which there are too few
BUSY_SHARE_MIN = 0.7  # of a worker's life in work, from which it is the limit
IDLE_WAITING_SHARE_MAX, IDLE_BUSY_SHARE_MAX = 0.02, 0.5  # below both, there are more workers than needed
PINNING_SHARE_MIN = 0.02  # of the run
STARTING_SECONDS_MIN = 0.3  # from which persistent workers are worth a word

#: Functions, and calls on the user's lines, that read and decode.
READS = (
    "imread", "imdecode", "ImageFile.load", "Image.open", "open", "pil_loader", "default_loader", "decode_image",
    "read_image", "decode_jpeg", "librosa.load", "core.audio.load", "soundfile.read", "SoundFile.read",
    "torchaudio.load", "np.load", "numpy.load", "read_csv", "read_parquet", "json.load", "json.loads", "fromfile",
    "frombuffer", "read", "read_bytes", "read_text",
)  # fmt: skip
WORDS = {
    "reading": "opening and decoding files, in the Dataset's own code and below it",
    "transforms": "calls of libraries on what was read",
    "own code": "the Dataset's own Python code",
    "collate": "stacking items into a batch",
    "pinning": "copying batches into pinned memory",
    "hand-over": "taking batches from workers, the sampler, bookkeeping",
    "starting workers": "starting and ending worker processes",
    "waiting for workers": "the main process stands still until a batch is there",
}


class Part(msgspec.Struct, frozen=True):
    """One part of the loader's time."""

    name: str
    seconds: float
    words: str


class Loader(msgspec.Struct, frozen=True):
    """Where the time of a DataLoader goes, in the main process and in its workers (of all of them together)."""

    seconds: float
    share: float  # of the run
    parts: list[Part]
    workers: int  # that told what they did
    worker_seconds: float  # of their lives
    worker_parts: list[Part]
    per_worker: list[float]  # share of its life in which each computed
    advice: list[Hint]


def loader(heat: Heat) -> Loader | None:
    """The DataLoader of a run as the samplers saw it, or None if it took little."""
    main, below = _sums(heat.calls), _sums(heat.worker_calls)
    seconds, worker_cpu = sum(main.values()), sum(below.values())
    run = max(heat.sampled_seconds, whole(heat)) or 1.0
    share = seconds / run
    if share < SHARE_MIN and worker_cpu < SHARE_MIN * run:
        return None
    lives = sum(worker.seconds for worker in heat.workers) if below else 0.0
    return Loader(
        seconds, share, _parts(main), len(heat.workers) if below else 0, lives, _parts(below),
        [min(w.cpu_seconds / w.seconds, 1.0) for w in heat.workers if w.seconds] if below else [],
        _advice(main, below, run, lives),
    )  # fmt: skip


def _parts(sums: dict[str, float]) -> list[Part]:
    return [Part(name, sums[name], words) for name, words in WORDS.items() if sums.get(name, 0.0) > 0]


def _sums(calls: list[HotCall]) -> dict[str, float]:
    """Seconds of each part of the loader in a call tree."""
    tree, sums = Tree(calls), defaultdict[str, float](float)
    if not any("DataLoaderIter" in call.name or call.name == "_worker_loop" for call in calls):
        return {}
    for number, call in enumerate(calls):
        path = [calls[each] for each in tree.callers(number)]
        name = _part_of(path)
        if name is not None:
            sums[name] += call.self_seconds
        wait = "starting workers" if name == "starting workers" else _wait_of(path)
        if wait is not None:
            sums[wait] += call.waiting_seconds
    return dict(sums)


def _part_of(path: list[HotCall]) -> str | None:
    """The part of the loader that a node belongs to; `path`: the node and its callers, the nearest first."""
    names = [each.name for each in path]
    at = next((i for i, name in enumerate(names) if name.endswith("DatasetFetcher.fetch")), None)
    if at is None:
        return _around(path, names)
    inner = path[:at]
    if not inner:
        return "hand-over"
    # what fetch calls: the Dataset, by an index or in a list of its own, or else what makes the batch
    call = next((each for each in reversed(inner) if "<listcomp>" not in each.name), None)
    if call is not None and (call.name.endswith("collate") or "collate" in call.name or "collate" in call.file):
        return "collate"
    return _of_item(inner)


def _of_item(inner: list[HotCall]) -> str:
    """The part of an item: reading, a call of a library, or the code itself."""
    called = [each.text.removesuffix("()") for each in inner if each.text.endswith("()")]
    if any(name == read or name.endswith(f".{read}") for name in [*called, *(i.name for i in inner)] for read in READS):
        return "reading"
    leaf = inner[0]
    return "transforms" if leaf.package or leaf.text.endswith("()") else "own code"


def _around(path: list[HotCall], names: list[str]) -> str | None:
    if any(n.endswith(("_MultiProcessingDataLoaderIter.__init__", "DataLoaderIter._shutdown_workers")) for n in names):
        return "starting workers" if not any(n == "_worker_loop" for n in names) else "hand-over"
    if any("pin_memory" in name for name in names):
        return "pinning"
    is_loader = any("DataLoaderIter" in name or name in ("_worker_loop", "Queue._feed") for name in names)
    return "hand-over" if is_loader else None


def _wait_of(path: list[HotCall]) -> str | None:
    names = [each.name for each in path]
    is_waiting = any("_MultiProcessingDataLoaderIter._" in name for name in names)
    return "waiting for workers" if is_waiting and "_worker_loop" not in names else None


# -- advice


def _advice(main: dict[str, float], below: dict[str, float], run: float, lives: float) -> list[Hint]:
    """What to change about the loader, with the figures of this run that it rests on."""
    found = [*_on_workers(main, below, run, lives)]
    items, collate = _items(main), main.get("collate", 0.0)
    if items + collate >= ITEMS_SHARE_MIN * run and not below:
        took = f"items took {items + collate:.1f} of {run:.1f} s; not measured"
        sentence = "The main process makes all items; `num_workers=2` or more makes them beside the training."
        found.append(Hint("use num_workers", sentence, took))
    if (total := sum(main.values())) and collate >= COLLATE_SHARE_MIN * total:
        took = f"collate {collate:.1f} of {total:.1f} s; not measured"
        sentence = "Collating only copies; if it takes much, torch's threads wait for each other: `OMP_NUM_THREADS=1`."
        found.append(Hint("set OMP_NUM_THREADS=1", sentence, took))
    if (pinning := main.get("pinning", 0.0)) >= PINNING_SHARE_MIN * run:
        sentence = "Copying batches into pinned memory (`pin_memory`) only helps copies to a GPU."
        found.append(Hint("leave pin_memory off without a GPU", sentence, f"it took {pinning:.1f} of {run:.1f} s"))
    return found


def _items(sums: dict[str, float]) -> float:
    return sum(sums.get(name, 0.0) for name in ("reading", "transforms", "own code"))


def _on_workers(main: dict[str, float], below: dict[str, float], run: float, lives: float) -> Iterator[Hint]:
    """What their number and their starts cost, as it was measured in this run."""
    waiting, starting = main.get("waiting for workers", 0.0), main.get("starting workers", 0.0)
    busy = sum(below.values()) / lives if lives else 0.0
    waited = f"waited {waiting:.1f} of {run:.1f} s, {busy:.0%} busy"
    if waiting >= WAITING_SHARE_MIN * run:
        if busy >= BUSY_SHARE_MIN:
            sentence = "The main process waits for workers that are at work: use more of them, or make items cheaper."
            yield Hint("use more workers", sentence, waited)
        elif lives:
            sentence = (
                "The main process waits for workers that idle: starting them or handing over batches holds them up."
            )
            yield Hint("send less, start once", sentence, waited)
    elif below and waiting < IDLE_WAITING_SHARE_MAX * run and busy < IDLE_BUSY_SHARE_MAX:
        yield Hint("use fewer workers", "The workers idle, and nobody waits for them.", waited)
    if starting >= STARTING_SECONDS_MIN:
        sentence = "`persistent_workers=True` starts workers once instead of for every pass."
        yield Hint("set persistent_workers=True", sentence, f"starting took {starting:.1f} of {run:.1f} s")


def lines(heat: Heat) -> list[str]:
    """The loader as text: its share, its parts, what each worker did, and advice."""
    found = loader(heat)
    if found is None:
        return []
    told = [f"DataLoader: {found.share:.0%} of the run in the main process: {_listed(found.parts)}"]
    if found.worker_parts:
        busy = ", ".join(f"{share:.0%}" for share in found.per_worker[:8])
        told.append(f"  {found.workers} workers computed {busy} of their time: {_listed(found.worker_parts)}")
    return told + [f"  you could {hint.words} ({hint.evidence})" for hint in found.advice]


def _listed(parts: list[Part]) -> str:
    return ", ".join(f"{part.name} {part.seconds:.1f} s" for part in parts)
