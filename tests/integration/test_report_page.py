"""The report in a real browser: every page opens, clicks work, nothing is asked of the network, names are only text."""

from __future__ import annotations

import itertools
import json
import random

import pytest
from browser import CHROMIUM, Browser
from plan_instances import Ambiguous, changed, instance, peaks, plan_of, times

from codedag.ir import RunDirectory
from codedag.view.html.page import write_page

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium here (Debian package: chromium)")

INSTANCES = 1000


@pytest.fixture(scope="module")
def browser():
    with Browser() as found:
        yield found


def _close(one: float, other: float) -> bool:
    return abs(one - other) <= 1e-9 * max(1.0, abs(other))


JUDGE = """((all) => all.map((one) => {
  const data = { machine: { pus: one.pus, links: one.links }, plan: one.plan, edges: one.edges,
    nbytes: new Map(Object.entries(one.nbytes).map(([op, n]) => [Number(op), n])),
    scratch: new Map(Object.entries(one.scratch).map(([op, n]) => [Number(op), n])) };
  const made = instanceOf(data), replayed = simulate(made, null);
  const name = (item) => item.copy ? `copy ${item.op} ${item.dst}` : `op ${item.op}`;
  const told = (result) => result.error ? result : { makespan: result.makespan,
    items: Object.fromEntries(result.items.map((item) => [name(item), [item.start, item.end]])),
    path: criticalPath(result).map((item) => [item.start, item.end]) };
  const live = liveBytes(made, replayed.items, (op) => data.nbytes.get(op));
  return { replayed: told(replayed), peaks: Object.fromEntries([...live].map(([pu, level]) => [pu, level.peak])),
    other: told(simulate(made, new Map(Object.entries(one.choice).map(([op, to]) => [Number(op), to])))) };
}))"""


def _name(item) -> str:
    return f"op {item[1]}" if item[0] == "op" else f"copy {item[1][0]} {item[1][1]}"


def test_the_page_simulates_plans_as_the_model_says(browser, tmp_path):
    """1,000 plans are replayed, changed and measured for memory, by the page and by an independent checker."""
    (tmp_path / "run").mkdir()
    write_page(RunDirectory(tmp_path / "run"), tmp_path / "page.html")
    browser.open(f"file://{tmp_path}/page.html")
    begin = random.randrange(10**6)
    asked, expected, seed = [], [], begin
    while len(asked) < INSTANCES:
        seed += 1
        made = instance(seed)
        found = times(made, made["order"])
        rng = random.Random(seed)
        moved = {
            op: rng.choice(sorted(made["costs"][op])) for op in rng.sample(sorted(made["place"]), 1 + len(found) // 9)
        }
        try:
            other = changed(made, found, moved)
        except Ambiguous:
            continue
        choice = {op: {"pu": pu, "seconds": made["costs"][op][pu]} for op, pu in moved.items()}
        asked.append(
            {
                **{k: made[k] for k in ("pus", "links", "edges", "nbytes", "scratch")},
                "plan": plan_of(made, found),
                "choice": choice,
            }
        )
        expected.append((seed, found, times(made, other), peaks(made, made["order"], found)))
    told = []
    for first in range(0, INSTANCES, 100):
        told += browser.run(f"{JUDGE}({json.dumps(asked[first : first + 100])})")
    for (number, found, other, most), said in zip(expected, told, strict=True):
        for wanted, result in ((found, said["replayed"]), (other, said["other"])):
            assert "error" not in result, (number, result)
            assert result["items"].keys() == {_name(item) for item in wanted}, number
            for item, (start, end) in wanted.items():
                assert _close(result["items"][_name(item)][0], start), (number, item)
                assert _close(result["items"][_name(item)][1], end), (number, item)
            assert _close(result["makespan"], max(end for _, end in wanted.values())), number
            steps = result["path"]
            assert all(_close(a[1], b[0]) for a, b in itertools.pairwise(steps)), number
            assert not steps or (steps[0][0] == 0 and _close(steps[-1][1], result["makespan"])), number
        assert {pu: size for pu, size in said["peaks"].items() if size} == {
            pu: size for pu, size in most.items() if size
        }, number
