"""Stacks for flame graphs: the weights add up to the time, and the file is what speedscope reads."""

from __future__ import annotations

import json

import pytest
from msgspec.structs import replace
from synthetic_reports import heat

from codedag.ir import Graph, HotCall, Op
from codedag.view.call_tree import hot_stacks, speedscope, stacks


def _op(number, name, context, seconds, kind="call"):
    return Op(id=number, name=name, kind=kind, file="a.py", line=number, context=context, count=1,
              self_seconds=seconds, total_seconds=seconds, out_nbytes=8)  # fmt: skip


def test_operations_stand_below_the_users_functions():
    graph = Graph.build([
        _op(1, "cv2.resize", "main/Photos.__getitem__/cv2.resize", 2.0), _op(2, "numpy.sum", "numpy.sum", 1.0),
        _op(3, "f", "main/f", 9.0, kind="region"),
    ])  # fmt: skip
    found = list(stacks(graph))
    assert [([frame[0] for frame in stack], seconds) for stack, seconds in found] == [
        (["main", "Photos.__getitem__", "cv2.resize"], 2.0),
        (["numpy.sum"], 1.0),
    ]
    made = json.loads(speedscope("a.py", found))
    (profile,) = made["profiles"]
    assert profile["endValue"] == sum(profile["weights"]) == 3.0
    names = [made["shared"]["frames"][at]["name"] for at in profile["samples"][0]]
    assert names == ["main", "Photos.__getitem__", "cv2.resize"]
    assert made["shared"]["frames"][2]["line"] == 1


def test_of_a_sampled_run_functions_stand_below_their_packages():
    found = list(hot_stacks(heat()))
    assert sum(seconds for _, seconds in found) == pytest.approx(sum(f.self_seconds for f in heat().functions))
    assert {stack[0][0] for stack, _ in found} == {"your code", "albumentations", "cv2", "torch"}


def test_a_sampled_run_has_whole_stacks_and_those_of_its_workers():
    calls = [
        HotCall(parent=-1, name="main", file="a.py", line=3),
        HotCall(parent=0, name="findall", file="re.py", line=7, package="python", self_seconds=2.0),
    ]
    found = list(hot_stacks(replace(heat(), calls=calls, worker_calls=[*calls[:1], replace(calls[1], name="sub")])))
    assert [([frame[0] for frame in stack], seconds) for stack, seconds in found] == [
        (["main", "findall"], 2.0), (["workers", "main", "sub"], 2.0),
    ]  # fmt: skip
