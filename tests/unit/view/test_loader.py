"""A DataLoader taken apart: its parts add up to its time, and programs without one have none."""

from __future__ import annotations

import pytest
from msgspec.structs import replace
from synthetic_reports import heat

from codedag.ir import HotFunction
from codedag.view.hints import hint_for
from codedag.view.loader import lines, loader


def _function(name, total, own=0.0, package="torch"):
    return HotFunction(name=name, file="x.py", line=1, package=package, self_seconds=own, total_seconds=total)


LOADER = [
    _function("_BaseDataLoaderIter.__next__", 12.0),
    _function("_MapDatasetFetcher.fetch", 11.0),
    _function("_MapDatasetFetcher.fetch.<locals>.<listcomp>", 4.0),
    _function("Pets.__getitem__", 3.9, package=""),
    _function("default_collate", 7.0),
    _function("collate_tensor_fn", 7.0, 7.0),
]


def test_the_parts_add_up():
    found = loader(replace(heat(), functions=LOADER, cpu_seconds=16.0))
    assert found.share == pytest.approx(0.75)
    assert {part.name: part.seconds for part in found.parts} == {"items": 4.0, "collate": 7.0, "hand-over": 1.0}
    assert not found.workers
    assert lines(replace(heat(), functions=LOADER, cpu_seconds=16.0)) == [
        "DataLoader: 75% of CPU time (all in the main process): items 4.0 s, collate 7.0 s, hand-over 1.0 s"
    ]


def test_collating_that_takes_much_has_a_hint_of_its_own():
    seen = replace(heat(), functions=LOADER, cpu_seconds=16.0)
    assert hint_for(seen, LOADER[-1]).words == "run with OMP_NUM_THREADS=1"


def test_a_program_without_a_loader_has_none():
    assert loader(heat()) is None
    assert lines(heat()) == []
