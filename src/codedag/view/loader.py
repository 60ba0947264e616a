"""A torch DataLoader taken apart: CPU time of making items, collating them and handing them over, in this process."""

from __future__ import annotations

import msgspec

from codedag.ir import Heat, HotFunction
from codedag.view.heat import whole

SHARE_MIN = 0.1  # of CPU time in the loader, from which it is shown
COLLATE_SHARE = 0.25  # of the loader's time in collating, from which threads of torch are suspected


class Part(msgspec.Struct, frozen=True):
    """One part of the loader's time."""

    name: str
    seconds: float
    words: str


class Loader(msgspec.Struct, frozen=True):
    """Where the time of a DataLoader goes; `workers`: its items are made by other processes."""

    seconds: float
    share: float
    workers: bool
    parts: list[Part]


def loader(heat: Heat) -> Loader | None:
    """The DataLoader of a run as the sampler saw it, or None if it took little."""
    total = _most(heat, "_BaseDataLoaderIter.__next__")
    share = total / (whole(heat) or 1.0)
    if share < SHARE_MIN:
        return None
    workers = _most(heat, "_MultiProcessingDataLoaderIter._next_data") > 0
    fetch = _most(heat, "_MapDatasetFetcher.fetch", "_IterableDatasetFetcher.fetch")
    items = _most(heat, "_MapDatasetFetcher.fetch.<locals>.<listcomp>", *_item_names(heat))
    collate = _most(heat, "default_collate", "collate")
    items = max(items, fetch - collate) if items == 0 else items
    found = [
        Part("items", min(items, total), "the Dataset's own code: reading, decoding, transforms"),
        Part("collate", min(collate, total), "stacking items into a batch"),
        Part("pinning", _most(heat, "pin_memory"), "copying batches into pinned memory"),
    ]
    rest = total - sum(part.seconds for part in found)
    found.append(
        Part("hand-over", max(rest, 0.0), "taking batches from workers" if workers else "sampler and bookkeeping")
    )
    return Loader(total, share, workers, [part for part in found if part.seconds > 0])


def _item_names(heat: Heat) -> list[str]:
    return [f.name for f in heat.functions if f.name.endswith(".__getitem__") and not f.package]


def _most(heat: Heat, *names: str) -> float:
    """The most seconds, with all that is called, of functions of these names."""
    return max((each.total_seconds for each in heat.functions if each.name in names), default=0.0)


def is_collating(heat: Heat, function: HotFunction) -> bool:
    """Whether the function is torch's collating and takes more of the loader's time than copying bytes should."""
    found = loader(heat)
    if found is None or "collate" not in function.name:
        return False
    collate = sum(part.seconds for part in found.parts if part.name == "collate")
    return collate >= COLLATE_SHARE * found.seconds


def lines(heat: Heat) -> list[str]:
    """The loader as text: its share, and its parts."""
    found = loader(heat)
    if found is None:
        return []
    parts = ", ".join(f"{part.name} {part.seconds:.1f} s" for part in found.parts)
    who = "batches come from workers" if found.workers else "all in the main process"
    return [f"DataLoader: {found.share:.0%} of CPU time ({who}): {parts}"]
