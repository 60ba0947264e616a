"""A DataLoader taken apart: its parts add up to its time, waiting is measured, and advice says what it rests on."""

from __future__ import annotations

import pytest

from codedag.ir import Heat, HotCall, HotProcess
from codedag.view.loader import lines, loader


def call(parent, name, own=0.0, waiting=0.0, package="torch", text=""):
    return HotCall(
        parent=parent, name=name, file="x.py", line=1, package=package, text=text, self_seconds=own,
        waiting_seconds=waiting,
    )  # fmt: skip


def fetch(at):
    """The nodes of a fetch; `at`: the number of the first."""
    return [
        call(at - 1, "_MapDatasetFetcher.fetch", 0.25),
        call(at, "_MapDatasetFetcher.fetch.<locals>.<listcomp>"),
        call(at + 1, "Pets.__getitem__", 0.5, package="", text="i % 2"),
        call(at + 1, "Pets.__getitem__", 0.0, package="", text="Image.open(f).convert()"),
        call(at + 3, "Image.convert", 1.0, package="PIL"),
        call(at + 4, "ImageFile.load", 4.0, package="PIL"),
        call(at + 1, "Pets.__getitem__", 2.0, package="", text="cv2.resize()"),
        call(at, "default_collate", 0.0),
        call(at + 7, "collate_tensor_fn", 3.0),
    ]


MAIN = [
    call(-1, "main", 5.0, package=""),
    call(0, "_BaseDataLoaderIter.__next__", 0.25),
    *fetch(2),
]


def test_without_workers_the_parts_add_up():
    found = loader(Heat(sampled_seconds=16.0, cpu_seconds=16.0, calls=MAIN))
    parts = {part.name: part.seconds for part in found.parts}
    assert parts == {"reading": 4.0, "transforms": 3.0, "own code": 0.5, "collate": 3.0, "hand-over": 0.5}
    assert found.seconds == pytest.approx(sum(parts.values()))
    assert found.share == pytest.approx(11 / 16)
    workers, threads = found.advice
    assert (workers.words, workers.evidence) == ("use num_workers", "items took 10.5 of 16.0 s; not measured")
    assert (threads.words, threads.evidence) == ("set OMP_NUM_THREADS=1", "collate 3.0 of 11.0 s; not measured")


def with_workers(waiting, lives, cpu, starting=0.0):
    main = [
        call(-1, "main", 5.0, package=""),
        call(0, "_MultiProcessingDataLoaderIter._try_get_data", 0.1),
        call(1, "_ConnectionBase.poll", 0.0, waiting, package="python"),
        call(0, "_MultiProcessingDataLoaderIter.__init__", starting),
    ]
    below = [call(-1, "_worker_loop", 0.0, 9.0), *fetch(1)]
    workers = [HotProcess(process=number, seconds=lives / 2, cpu_seconds=cpu / 2) for number in (1, 2)]
    return Heat(sampled_seconds=20.0, cpu_seconds=6.0, calls=main, workers=workers, worker_calls=below)


def test_with_workers_waiting_is_told_and_the_workers_have_parts_of_their_own():
    found = loader(with_workers(8.0, 12.0, 11.0))
    assert {part.name: part.seconds for part in found.parts} == {"hand-over": 0.1, "waiting for workers": 8.0}
    assert sum(part.seconds for part in found.worker_parts) == pytest.approx(10.75)
    assert found.per_worker == pytest.approx([11 / 12] * 2)
    (hint,) = found.advice
    assert (hint.words, hint.evidence) == ("use more workers", "waited 8.0 of 20.0 s, 90% busy")
    assert any("2 workers computed 92%, 92%" in line for line in lines(with_workers(8.0, 12.0, 11.0)))


def test_workers_that_are_started_for_each_pass():
    found = loader(with_workers(8.0, 40.0, 11.0, starting=3.0))
    words = [hint.words for hint in found.advice]
    assert words == ["send less, start once", "set persistent_workers=True"]
    assert found.advice[1].evidence == "starting took 3.0 of 20.0 s"


def test_workers_that_idle():
    (hint,) = loader(with_workers(0.1, 40.0, 11.0)).advice
    assert hint.words == "use fewer workers"


def test_pinned_memory_has_a_price():
    calls = [*MAIN, call(1, "pin_memory", 2.0)]
    hints = loader(Heat(sampled_seconds=18.0, cpu_seconds=18.0, calls=calls)).advice
    assert any("pin_memory" in hint.words and "2.0 of 18.0 s" in hint.evidence for hint in hints)


def test_a_program_without_a_loader_has_none():
    assert loader(Heat(sampled_seconds=9.0)) is None
    assert lines(Heat(sampled_seconds=9.0)) == []


def test_queues_of_other_programs_are_no_loader():
    """A program that feeds a multiprocessing.Queue had a DataLoader with much hand-over."""
    calls = [call(-1, "Queue._feed", 5.0, package="python"), call(-1, "spread", 3.0)]
    assert loader(Heat(sampled_seconds=9.0, cpu_seconds=9.0, calls=calls)) is None


def test_only_whole_names_read():
    calls = [*MAIN[:2], *fetch(2)[:2], call(3, "spread", 4.0), call(3, "Image.open", 2.0, package="PIL")]
    parts = loader(Heat(sampled_seconds=9.0, cpu_seconds=9.0, calls=calls)).parts
    assert {part.name: part.seconds for part in parts} == {"reading": 2.0, "transforms": 4.0, "hand-over": 0.5}
