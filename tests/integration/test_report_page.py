"""The report in a real browser: every page opens, clicks work, nothing is asked of the network, names are only text."""

from __future__ import annotations

import itertools
import json
import os
import random
import threading
from pathlib import Path

import msgspec
import pytest
import report_runs
from browser import CHROMIUM, Browser
from msgspec.structs import replace
from page_instances import Ambiguous, as_files, changed, instance, peaks, plan_of, times
from synthetic_reports import GAINS, synthetic

from codedag.ir import (
    Block,
    Edge,
    Event,
    Events,
    Graph,
    Heat,
    HotCall,
    HotFunction,
    HotProcess,
    Lane,
    Mark,
    RunDirectory,
    Speed,
    save,
)
from codedag.plan.decide import make_plan
from codedag.view.claim import verdict
from codedag.view.fold import picture
from codedag.view.html.page import data_of, write_page
from codedag.view.html.pictures import FEW_BOXES
from codedag.view.layout import lay_out
from codedag.view.serve import Server
from codedag.view.summary import net_seconds
from codedag.view.svg import frames_of, weight_of

pytestmark = pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium here (Debian package: chromium)")

INSTANCES = 1000
HOSTILE = "<img src=x onerror=alert(1)>"


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


def test_the_page_simulates_plans_as_the_model_says(browser, tmp_path, seed):
    """1,000 plans are replayed, changed and measured for memory, by the page and by an independent checker."""
    (tmp_path / "run").mkdir()
    write_page(RunDirectory(tmp_path / "run"), tmp_path / "page.html")
    browser.open(f"file://{tmp_path}/page.html")
    number = random.Random(seed).randrange(10**6)
    asked, expected = [], []
    while len(asked) < INSTANCES:
        number += 1
        made = instance(number)
        found = times(made, made["order"])
        rng = random.Random(number)
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
        expected.append((number, found, times(made, other), peaks(made, made["order"], found)))
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


# In these an operation that takes no time comes after others at the same moment.
NO_TIME = (5174, 9043, 10570, 11993, 12105, 14360)


@pytest.mark.slow
def test_the_page_replays_the_plans_of_the_planner(browser, tmp_path, seed):
    """1,000 plans that `codedag plan` would write take in the page what their files say."""
    (tmp_path / "run").mkdir()
    write_page(RunDirectory(tmp_path / "run"), tmp_path / "page.html")
    browser.open(f"file://{tmp_path}/page.html")
    begin = random.Random(seed).randrange(10**6)
    asked, plans = [], []
    for number in (*NO_TIME, *range(begin, begin + INSTANCES)):
        made = instance(number)
        plan = msgspec.to_builtins(make_plan(*as_files(made), budget=0.0, seed=number))
        facts = {
            "placement": [[one["op"], one["pu"], one["variant"]] for one in plan["placement"]],
            "schedule": [[one["op"], one["start"], one["end"]] for one in plan["schedule"]],
            "transfers": plan["transfers"],
        }
        kept = {k: made[k] for k in ("pus", "links", "edges", "nbytes", "scratch")}
        asked.append({**kept, "plan": facts, "choice": {}})
        plans.append((number, plan))
    told = []
    for first in range(0, len(asked), 100):
        told += browser.run(f"{JUDGE}({json.dumps(asked[first : first + 100])})")
    for (number, plan), said in zip(plans, told, strict=True):
        result = said["replayed"]
        assert "error" not in result, (number, result)
        assert _near(result["makespan"], plan["makespan_seconds"]), number
        for step in plan["schedule"]:
            assert _near(result["items"][f"op {step['op']}"][1], step["end"]), (number, step)
        for copy in plan["transfers"]:
            assert _near(result["items"][f"copy {copy['op']} {copy['dst']}"][1], copy["end"]), (number, copy)


def _near(one: float, other: float) -> bool:
    """Equal as the model asks: within a millionth."""
    return abs(one - other) <= 1e-6 * max(other, 1e-3)


ROOT = Path(__file__).resolve().parents[2]
PAGES = ("summary", "graph", "timeline", "operations", "plan", "log", "memory", "method")


def _open(browser: Browser, folder: Path) -> float:
    """Writes the page of a run, opens it and returns the seconds that it took to open; nothing was asked or said."""
    page = folder.parent / f"{folder.name}.html"
    write_page(RunDirectory(folder), page)
    browser.complaints.clear()
    browser.requests.clear()
    return browser.open(f"file://{page}")


def _show(browser: Browser, page: str) -> str:
    """The text of one page of the report."""
    browser.run(f"location.hash = {json.dumps(page)}")
    browser.wait(f"document.querySelector('[role=tab][aria-selected=true]').id === 'tab-{page}'")
    browser.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    return browser.run("document.querySelector('main').innerText")


def _quiet(browser: Browser) -> None:
    assert browser.complaints == []
    assert [one for one in browser.requests if not one.startswith(("file:", "data:"))] == []


def _keep_picture(browser: Browser, name: str) -> None:
    """Screenshots are kept to be looked at: where CODEDAG_SCREENSHOTS says, else in build/ of this tree."""
    folder = Path(os.environ.get("CODEDAG_SCREENSHOTS") or ROOT / "build" / "screenshots")
    folder.mkdir(parents=True, exist_ok=True)
    browser.picture(folder / f"{name}.png")


@pytest.fixture
def two_units(tmp_path):
    report_runs.two_units(tmp_path / "run")
    return tmp_path / "run"


@pytest.mark.parametrize("theme", ["light", "dark"])
@pytest.mark.parametrize("size", [(1500, 1000), (1280, 720)])
def test_every_page_opens_in_both_themes(browser, two_units, theme, size):
    browser.resize(*size)
    browser.theme(theme)
    _open(browser, two_units)
    shown = {}
    for page in PAGES:
        shown[page] = _show(browser, page)
        _keep_picture(browser, f"{page}-{theme}-{size[0]}")
    browser.resize(1500, 1000)
    _quiet(browser)
    for page, words in {
        "summary": ("2.00\u00d7", "identical", "cuda:0 (simulated)", "one table kernel"),
        "graph": ("Whole program", "6 operations in 6 boxes", "was considered and left as it is"),
        "timeline": ("switched", "cuda:0 (simulated)", "copy cpu → cuda:0", "critical path"),
        "operations": ("cv2.imread", "train.py:10", "sure", "measured in use"),
        "plan": ("101 ms", "ten times faster there", "fuse: truediv \u203a clip"),
        "log": ("no exact variant is known", "train.py:12-13", "bit-equal"),
        "memory": ("240 MB", "Who holds the peak on cuda:0"),
        "method": ("numpy", "4 forked processes", "60 of 600 calls"),
    }.items():
        for each in words:
            assert each in shown[page], (page, each)


def test_no_page_is_wider_than_a_laptop(browser, two_units):
    browser.resize(1280, 720)
    _open(browser, two_units)
    for page in PAGES:
        _show(browser, page)
        assert browser.run("document.documentElement.scrollWidth") <= 1280, page
    browser.resize(1500, 1000)


def test_a_change_that_is_only_planned_is_not_called_measured_in_use(browser, two_units):
    """A plan that was made from costs: its gains are those of the costs, on both pages that tell them."""
    run = RunDirectory(two_units)
    move = msgspec.structs.replace(run.plan.moves[0], kind="substitute", ops=[5], variant="torch", chain=["torch"])
    move = msgspec.structs.replace(move, seconds=None, baseline_seconds=None, gain_low=None, gain_high=None)
    save(msgspec.structs.replace(run.plan, moves=[move]), two_units / "plan.json")
    (two_units / "report.json").unlink()
    _open(browser, two_units)
    assert "measured in use" not in _show(browser, "operations")
    assert browser.run("document.getElementById('op-5').innerText").split("\t")[-3:] == [
        "cuda:0 (simulated) / torch", "10.0\u00d7", "sure",
    ]  # fmt: skip
    assert "train.py:12\u201313\tsubstitute: torch\ttorch\texact\t200 ms\t20.0 ms\t10.0\u00d7" in _show(browser, "plan")


def test_what_was_changed_later_has_no_ring(browser, two_units):
    """The first calls of a chain are left alone while its kernel is built; that is no refusal."""
    report = RunDirectory(two_units).report
    waits = msgspec.structs.replace(report.declined[0], where="train.py:12-13", reason="its kernel was being built")
    save(msgspec.structs.replace(report, declined=[*report.declined, waits]), two_units / "report.json")
    _open(browser, two_units)
    _show(browser, "graph")
    assert browser.run("document.querySelectorAll('.b.declined').length") == 1  # cv2.imread, in line 10


def test_a_long_folder_hides_no_line(browser, two_units):
    """A program that was not started in its own folder: its places are absolute paths."""
    run, folder = RunDirectory(two_units), "/a/folder/with/quite/a/long/name/that/leaves/no/room"
    changes = [msgspec.structs.replace(one, where=f"{folder}/train.py:12-13") for one in run.report.changes]
    declined = [msgspec.structs.replace(one, where=f"{folder}/train.py:10") for one in run.report.declined]
    save(msgspec.structs.replace(run.report, changes=changes, declined=declined), two_units / "report.json")
    moves = [msgspec.structs.replace(one, file=f"{folder}/train.py") for one in run.plan.moves]
    save(msgspec.structs.replace(run.plan, moves=moves), two_units / "plan.json")
    _open(browser, two_units)
    for page, line in {"summary": "12-13", "plan": "12\u201313", "log": "10"}.items():
        shown = _show(browser, page)
        assert f"train.py:{line}" in shown, page
        assert folder not in shown, page
    assert f"{folder}/train.py:10" in browser.run("[...document.querySelectorAll('code')].map((one) => one.title)")


def test_a_run_that_was_slower_claims_no_gain(browser, two_units):
    report = RunDirectory(two_units).report
    save(msgspec.structs.replace(report, gain=0.9, gain_low=0.8, gain_high=0.95), two_units / "report.json")
    _open(browser, two_units)
    shown = _show(browser, "summary")
    assert "slower over the whole run" in shown
    assert "The gain comes" not in shown


def test_the_machine_is_told_by_name_and_threads(browser, two_units):
    machine = RunDirectory(two_units).machine
    units = [msgspec.structs.replace(machine.pus[0], threads=2, capability=["Old Faithful"]), machine.pus[1]]
    save(msgspec.structs.replace(machine, pus=units), two_units / "machine.json")
    _open(browser, two_units)
    assert "cpu Old Faithful, 2 threads, 17.2 GB" in _show(browser, "summary")


def test_a_choice_is_simulated_at_once(browser, two_units):
    _open(browser, two_units)
    _show(browser, "plan")
    seconds = "Number(document.getElementById('whatif').dataset.seconds)"
    assert browser.run(seconds) == pytest.approx(0.101)
    browser.run("(() => { const s = document.querySelector('select[data-op=\"5\"]'); s.value = '0';"
                " s.dispatchEvent(new Event('change')); })()")  # fmt: skip
    assert browser.run(seconds) == pytest.approx(0.275)  # no copy, and 0.2 s as written
    browser.click("main input[type=checkbox]")  # the change is taken back: 0.03 + 0.01 s instead of 0.01
    assert browser.run(seconds) == pytest.approx(0.305)
    assert "+204 ms" in browser.run("document.querySelector('main').innerText")
    browser.run("[...document.querySelectorAll('button')].find((b) => b.textContent === 'back to the plan').click()")
    assert browser.run(seconds) == pytest.approx(0.101)
    _quiet(browser)


def test_a_click_opens_a_folded_box_in_its_place_and_a_key_closes_it(browser, tmp_path):
    report_runs.large(tmp_path / "run", 400)
    _open(browser, tmp_path / "run")
    _show(browser, "graph")
    boxes, headings = (f"document.querySelectorAll('svg g.{kind}').length" for kind in "bo")
    few = browser.run(boxes)
    assert few <= 150
    assert browser.run(headings) == 0
    browser.click("#fit")  # fit: everything is in sight
    name = browser.run("document.querySelector('svg g.b.folded text.n').textContent")
    browser.click("svg g.b.folded rect.box")
    browser.wait(f"{headings} === 1")
    assert few < browser.run(boxes) <= 150
    assert name in browser.run("document.querySelector('svg g.o').textContent")
    browser.run("document.querySelector('.canvas svg').focus()")
    browser.press("Escape")
    browser.wait(f"{headings} === 0")
    assert browser.run(boxes) == few
    browser.run("document.querySelector('svg g.b.folded').focus()")
    browser.press("Enter")
    browser.wait(f"{headings} === 1")
    browser.run("document.querySelector('svg g.o').focus()")
    browser.press("Enter")
    browser.wait(f"{headings} === 0")
    _quiet(browser)


def test_a_page_of_two_thousand_operations_is_small_and_holds_all_of_them(browser, tmp_path):
    report_runs.large(tmp_path / "run", 2000)
    _open(browser, tmp_path / "run")
    assert (tmp_path / "run.html").stat().st_size <= 400_000
    assert 'type="application/json"' not in (tmp_path / "run.html").read_text()  # so much data is deflated
    assert browser.run("[DATA.ops.id.length, OPS.length]") == [2000, 2000]
    data = json.loads(data_of(RunDirectory(tmp_path / "run")))
    assert browser.run("[DATA.ops, DATA.edges, DATA.events]") == [data["ops"], data["edges"], data["events"]]
    _quiet(browser)


def test_a_sampled_run_has_whole_stacks_and_hot_places(browser, tmp_path):
    calls = [
        HotCall(parent=-1, name="<module>", file="train.py", line=9, text="main()"),
        HotCall(parent=0, name="main", file="train.py", line=5, text=HOSTILE, self_seconds=3.0),
        HotCall(parent=0, name="main", file="train.py", line=6, text="re.findall()"),
        HotCall(parent=2, name="findall", file="/lib/re.py", line=2, package="python", self_seconds=1.0),
    ]
    below = [HotCall(parent=-1, name="Pets.get", file="train.py", line=2, text="cv2.imread()", self_seconds=2.0)]
    heat = Heat(sampled_seconds=4.0, cpu_seconds=4.0, calls=calls, worker_calls=below,
                workers=[HotProcess(process=7, seconds=4.0, cpu_seconds=2.0)],
                functions=[HotFunction(name="main", file="train.py")])  # fmt: skip
    (tmp_path / "run").mkdir()
    report_runs.info(tmp_path / "run")
    save(replace(synthetic("unchanged"), heat=heat), tmp_path / "run" / "report.json")
    _open(browser, tmp_path / "run")
    _show(browser, "summary")
    cells = "[...document.querySelectorAll('main table')][0].querySelectorAll('tbody tr')"
    rows = browser.run(f"[...{cells}].map((row) => [...row.cells].map((cell) => cell.textContent))")
    assert [(row[0], row[1], row[3]) for row in rows] == [
        ("train.py:5", HOSTILE, "75.0 %"), ("train.py:2", "cv2.imread() in the workers", "50.0 %"),
        ("train.py:6", "re.findall()", "25.0 %"),
    ]  # fmt: skip
    assert "you could use str methods" in rows[2][4]
    assert "not measured here" in rows[2][4]
    _show(browser, "timeline")
    titles = "[...document.querySelectorAll('.icicle rect title')].map((one) => one.textContent.split('\\n')[0])"
    assert sorted(browser.run(titles)) == sorted([
        "all", "<module> :9 main()", f"main :5 {HOSTILE}", "main :6 re.findall()", "findall", "worker processes",
        "Pets.get :2 cv2.imread()",
    ])  # fmt: skip
    _quiet(browser)


def test_opening_box_after_box_never_shows_too_many(browser, tmp_path):
    report_runs.large(tmp_path / "run", 2000)
    _open(browser, tmp_path / "run")
    _show(browser, "graph")
    shown = browser.run(
        "(() => { const found = []; for (let at = 0; at < 12; at++) {"
        " const next = shownNow().boxes.filter((box) => box.key)[at * 2]; openFold(next.key);"
        " found.push([shownNow().boxes.length, LOOK.open.includes(next.key)]); } return found; })()"
    )
    assert all(count <= 150 and is_open for count, is_open in shown)
    browser.run("document.querySelector('[role=tab]').click()")
    _show(browser, "graph")
    browser.click("#fold-all")
    browser.wait("document.querySelectorAll('svg g.o').length === 0")
    _quiet(browser)


def test_what_is_opened_inside_a_box_is_closed_with_it(browser, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    report_runs.info(run)
    save(report_runs.graph(1800, functions=6), run / "graph.json")
    _open(browser, run)
    _show(browser, "graph")
    hidden, nested = browser.run(
        "(() => { const hidden = []; let nested = 0; for (let at = 0; at < 14; at++) {"
        " const folds = shownNow().boxes.filter((box) => box.key), last = LOOK.open[LOOK.open.length - 1];"
        " const inside = folds.find((box) => at % 2 && box.key.startsWith(`${last}/`)); nested += Boolean(inside);"
        " openFold((inside || folds[(at * 7) % folds.length]).key);"
        " const frames = placedNow().frames.map(([frame]) => frame.key);"
        " hidden.push(...LOOK.open.filter((key) => !frames.includes(key))); } return [hidden, nested]; })()"
    )
    assert hidden == []
    assert nested > 1
    _show(browser, "summary")
    _show(browser, "graph")
    for _ in range(20):
        browser.run("document.querySelector('.canvas svg').focus()")
        browser.press("Escape")
    assert browser.run("LOOK.open.length") == 0
    _quiet(browser)


PLACES = """(() => { const picture = shownNow(), links = picture.links.map((link) =>
  [Math.min(link.source, link.target), Math.max(link.source, link.target),
    link.kind === "flow" ? thickness(link) : 0.5]);
  const found = layOut(picture.root, picture.boxes.length, links), at = (one) => [one.x, one.y, one.width, one.height];
  const inside = (frame) => frame.parts.filter((part) => part.parts).flatMap((part) => [part, ...inside(part)]);
  return { boxes: found.boxes.map(at), frames: found.frames.map(([, rect]) => at(rect)),
    headings: inside(picture.root).map((frame) => frame.heading),
    routes: [...found.routes].sort((a, b) => a[0] - b[0]).map(([, lanes]) => lanes),
    links: picture.links.map((link) => [link.source, link.target, link.kind, link.nbytes]) }; })()"""


@pytest.mark.parametrize(("seed", "count"), [(1, 8), (2, 40), (3, 300), (4, 44), (5, 1200), (6, 90)])
def test_the_page_lays_out_boxes_where_the_svg_has_them(browser, tmp_path, seed, count):
    """The page has a port of the layout; the original is asked for a picture with boxes of the same sizes."""
    graph = report_runs.branching(count, seed)
    run = tmp_path / "run"
    run.mkdir()
    report_runs.info(run)
    save(graph, run / "graph.json")
    _open(browser, run)
    _show(browser, "graph")
    found = browser.run(PLACES)
    shown = picture(graph, FEW_BOXES)
    assert [[link.source, link.target, link.kind, link.nbytes] for link in shown.links] == found["links"]
    sizes = {box: tuple(rect[2:]) for box, rect in zip(shown.boxes, found["boxes"], strict=True)}
    inner = list(frames_of(shown.root))[1:]
    headings = dict(zip(map(id, inner), found["headings"], strict=True))
    laid = lay_out(shown, sizes.__getitem__, lambda frame: headings[id(frame)], weight_of)
    assert [pytest.approx([box.x, box.y, box.width, box.height]) for box in laid.boxes] == found["boxes"]
    frames = [pytest.approx([rect.x, rect.y, rect.width, rect.height]) for _, rect in laid.frames]
    assert frames == found["frames"]
    routes = [[pytest.approx(list(lane)) for lane in laid.routes[at]] for at in sorted(laid.routes)]
    assert routes == found["routes"]


OVERLAPS = """(() => { const layout = placedNow(), boxes = layout.boxes, found = [];
  const beside = (a, b) => a.x + a.width <= b.x || a.y + a.height <= b.y;
  const apart = (a, b) => beside(a, b) || beside(b, a);
  boxes.forEach((a, i) => boxes.slice(i + 1).forEach((b) => { if (!apart(a, b)) found.push([a, b]); }));
  const outside = boxes.filter((a) => a.x < -1 || a.y < -1
    || a.x + a.width > layout.width + 1 || a.y + a.height > layout.height + 1);
  return [found.length, outside.length, boxes.length, layout.width / layout.height]; })()"""


@pytest.mark.parametrize("seed", [1, 2, 3])
def test_nothing_is_on_top_of_anything_whatever_is_open(browser, tmp_path, seed):
    run = tmp_path / "run"
    run.mkdir()
    report_runs.info(run)
    save(report_runs.branching(700, seed), run / "graph.json")
    _open(browser, run)
    _show(browser, "graph")
    for number in range(8):
        overlapping, outside, count, _ = browser.run(OVERLAPS)
        assert (overlapping, outside) == (0, 0), number
        assert count <= 150
        folds = "shownNow().boxes.filter((box) => box.key)"
        browser.run(f"openFold({folds}[{number * 5} % {folds}.length].key)")
    _quiet(browser)


def test_a_long_chain_is_set_in_columns(browser, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    report_runs.info(run)
    ops = [report_runs.op(at, f"lib.op{at}", "f", 1.0) for at in range(40)]
    save(Graph.build(ops, [Edge(at, at + 1, "flow", 10**6) for at in range(39)]), run / "graph.json")
    _open(browser, run)
    _show(browser, "graph")
    overlapping, outside, count, aspect = browser.run(OVERLAPS)
    assert (overlapping, outside, count) == (0, 0, 40)
    assert 0.7 < aspect < 3
    assert "f (goes on)" in browser.run("document.querySelector('.canvas').textContent")


def test_a_frame_that_goes_on_is_as_wide_as_what_it_holds_there(browser, tmp_path):
    """A function that begins with operations side by side and goes on with a chain: its later columns are narrow."""
    run = tmp_path / "run"
    run.mkdir()
    report_runs.info(run)
    ops = [report_runs.op(at, f"lib.op{at}", "main/f" if at > 20 else "main", 1.0) for at in range(40)]
    fan = [Edge(at, 7, "flow", 10**6) for at in range(7)]
    save(Graph.build(ops, [*fan, *(Edge(at, at + 1, "flow", 10**6) for at in range(7, 39))]), run / "graph.json")
    _open(browser, run)
    _show(browser, "graph")
    overlapping, outside, count, _ = browser.run(OVERLAPS)
    assert (overlapping, outside, count) == (0, 0, 40)
    widest = browser.run("Math.max(...placedNow().boxes.map((box) => box.width))")
    parts = browser.run("placedNow().frames.filter(([, , first]) => !first).map(([, rect]) => rect.width)")
    assert parts
    assert max(parts) < 2 * widest
    alone = browser.run(
        "(() => { const { boxes, frames } = placedNow(); return boxes.filter((box) => !frames.some(([, rect]) =>"
        " rect.x <= box.x && box.x + box.width <= rect.x + rect.width"
        " && rect.y <= box.y + 1 && box.y + box.height <= rect.y + rect.height + 1)).length; })()"
    )
    assert alone == 0


def test_search_finds_an_operation_inside_folded_boxes(browser, tmp_path):
    report_runs.large(tmp_path / "run", 400)
    _open(browser, tmp_path / "run")
    _show(browser, "graph")
    browser.press("/")
    assert browser.run("document.activeElement.type") == "search"
    for key in "train.py:377":
        browser.press(key)
    browser.wait("document.querySelector('aside').innerText.startsWith('1 found')")
    assert browser.run("document.querySelectorAll('svg g.b.hit').length") == 1
    browser.click("aside a")
    browser.wait("document.querySelector('svg g.b.on') !== null")
    assert "train.py:377" in browser.run("document.querySelector('svg g.b.on').textContent")
    _quiet(browser)


def test_keys_walk_through_pages_boxes_and_tables(browser, two_units):
    _open(browser, two_units)
    for number, page in enumerate(PAGES, 1):
        browser.press(str(number))
        browser.wait(f"document.querySelector('[role=tab][aria-selected=true]').id === 'tab-{page}'")
    _show(browser, "graph")
    browser.run("document.querySelector('svg g.b').focus()")
    browser.press("Enter")
    assert "train.py:10" in browser.run("document.querySelector('aside').innerText")
    _show(browser, "operations")
    first = "document.querySelector('tbody tr .name').textContent"
    assert browser.run(first) == "Conv2d.__call__"
    browser.run("[...document.querySelectorAll('th button')].find((b) => b.textContent === 'calls').focus()")
    browser.run("[...document.querySelectorAll('th button')].find((b) => b.textContent.startsWith('own')).focus()")
    browser.press("Enter")
    browser.wait(f"{first} === 'torch.from_numpy'")


def test_what_is_as_written_takes_after_the_plan_what_it_took(browser, two_units):
    """It was recorded on a busy machine and measured on a quiet one: that is nobody's gain."""
    run = RunDirectory(two_units)
    quiet = [
        msgspec.structs.replace(row, seconds=row.seconds / 10) if row.seconds else row for row in run.costs.rows
    ]  # fmt: skip
    steps = [msgspec.structs.replace(one, end=one.start + (one.end - one.start) / 10) for one in run.plan.schedule]
    save(msgspec.structs.replace(run.costs, rows=quiet), two_units / "costs.json")
    save(msgspec.structs.replace(run.plan, schedule=steps), two_units / "plan.json")
    _open(browser, two_units)
    _show(browser, "graph")
    browser.run("[...document.querySelectorAll('button')].find((b) => b.textContent === 'after').click()")
    boxes = browser.run("[...document.querySelectorAll('svg .b')].map((box) => box.textContent)")
    (resize,) = [box for box in boxes if "cv2.resize" in box]
    (conv,) = [box for box in boxes if "Conv2d" in box]
    assert "\u2192" not in resize, resize
    assert "200 ms \u2192 21.0 ms" in conv, conv


def test_before_and_after_the_plan(browser, two_units):
    _open(browser, two_units)
    _show(browser, "graph")
    fills = "new Set([...document.querySelectorAll('svg g.b rect.box')].map((box) => box.getAttribute('fill'))).size"
    click = "[...document.querySelectorAll('.tools button')].find((b) => b.textContent === '{}').click()"
    browser.run(click.format("colour: PU / variant"))
    assert browser.run(fills) == 1
    browser.run(click.format("after"))
    assert browser.run(fills) == 3  # as written, in a table, on the other unit
    assert "200 ms → 21.0 ms" in browser.run("document.querySelector('.canvas').textContent")


def test_hostile_names_are_only_text(browser, tmp_path):
    report_runs.hostile(tmp_path / "run")
    _open(browser, tmp_path / "run")
    for page in PAGES:
        shown = _show(browser, page)
        if page in ("operations", "log", "method"):
            assert "<script>" in shown, page
    assert browser.run("document.querySelectorAll('script').length") == 2
    assert browser.run("document.querySelectorAll('img').length") == 0
    assert browser.run("document.title").startswith("CodeDAG: ")
    _quiet(browser)


@pytest.mark.parametrize("what", ["nothing", "crashed", "broken", "empty graph"])
def test_a_run_that_has_little_says_so(browser, tmp_path, what):
    run = tmp_path / "run"
    run.mkdir()
    if what != "nothing":
        report_runs.info(run, status="running", exit_code=None)
    if what == "broken":
        (run / "graph.json").write_text("{")
        (run / "plan.json").write_text('{"format": "codedag/plan", "version": 9}')
    if what == "empty graph":
        save(Graph.build([]), run / "graph.json")
    _open(browser, run)
    shown = {page: _show(browser, page) for page in PAGES}
    _quiet(browser)
    said = {
        "nothing": ("no run.json", "There is no graph.json in this run"),
        "crashed": ("still running, or killed", "did not get to its end"),
        "broken": ("graph.json cannot be read", "plan.json cannot be read", "version"),
        "empty graph": ("No operation on data was recorded",),
    }[what]
    for words in said:
        assert words in shown["summary"] + browser.run("document.querySelector('header').innerText"), words
    for page in PAGES:
        assert len(shown[page]) > 20, page


@pytest.mark.parametrize("what", ["killed", "broken", "traced"])
def test_what_is_not_known_is_not_called_unchanged(browser, two_units, what):
    """A run that was killed may have made changes; only one that was just recorded has made none."""
    report = two_units / "report.json"
    report.unlink() if what != "broken" else report.write_text("{")
    state = {"killed": {"status": "running", "exit_code": None}, "broken": {}, "traced": {"command": "trace"}}[what]
    report_runs.info(two_units, **state)
    _open(browser, two_units)
    shown = _show(browser, "summary") + _show(browser, "log")
    assert ("nothing to compare" in shown) is (what == "traced")
    assert ("Nothing was migrated" in shown) is (what == "traced")
    assert ("not known" in shown) is (what != "traced")
    _quiet(browser)


def test_a_plan_of_other_variants_is_not_said_to_change_nothing(browser, two_units):
    """`codedag plan` states what runs how by its placement alone."""
    save(msgspec.structs.replace(RunDirectory(two_units).plan, moves=[]), two_units / "plan.json")
    _open(browser, two_units)
    shown = _show(browser, "plan")
    assert "as written" in shown
    assert "changes no code" not in shown
    assert "3 operations run in another way" in shown


def test_the_gain_of_a_change_in_use_is_what_was_measured_on_the_same_calls(browser, two_units):
    _open(browser, two_units)
    _show(browser, "operations")
    assert browser.run("document.getElementById('op-2').innerText").split("\t")[-2:] == [
        "3.50\u00d7 \u2013 4.50\u00d7", "measured in use",
    ]  # fmt: skip
    browser.run("[...document.querySelectorAll('th button')].find((one) => one.innerText.startsWith('gain')).click()")
    order = browser.run("[...document.querySelectorAll('tr[id]')].map((one) => one.id)")
    assert order[:3] == ["op-5", "op-4", "op-2"]


@pytest.mark.parametrize("seconds", [0.0141, 0.000141, 1.0, 201.0])
def test_no_label_of_an_axis_is_cut_off(browser, two_units, seconds):
    _open(browser, two_units)
    browser.run(
        "document.querySelector('main').replaceChildren("
        f"lanesChart([{{name: 'a', rows: 1, items: []}}], {seconds}, {{}}),"
        f" stepsChart([{{name: 'a', colour: 'red', steps: [[0, 1], [{seconds}, 2]]}}], {seconds}, {{}}))"
    )
    browser.run("new Promise((done) => requestAnimationFrame(() => setTimeout(done)))")
    assert browser.run("document.querySelectorAll('svg.chart').length") == 2
    over = browser.run(
        "[...document.querySelectorAll('svg.chart')].flatMap((chart) => [...chart.querySelectorAll('text')]"
        ".filter((one) => one.getBoundingClientRect().right > chart.getBoundingClientRect().right)"
        ".map((one) => one.textContent))"
    )
    assert over == []


def test_a_change_on_top_of_another_adds_to_it_and_is_taken_back_to_it(browser, two_units):
    """What another library computes may be kept, too: the gain of keeping is measured against that library."""
    plan = RunDirectory(two_units).plan
    other = msgspec.structs.replace(
        plan.moves[0], kind="substitute", ops=[1], variant="cv2", chain=["cv2.resize"], line=11, end_line=11,
        seconds=0.004, baseline_seconds=0.02, gain_low=4.0, gain_high=6.0,
    )  # fmt: skip
    kept = msgspec.structs.replace(
        other, kind="recall", variant="kept in memory", seconds=0.002, gain_low=1.5, gain_high=2.5
    )
    steps = [msgspec.structs.replace(one, end=0.042) if one.op == 1 else one for one in plan.schedule]
    placed = [msgspec.structs.replace(one, variant="kept in memory") if one.op == 1 else one for one in plan.placement]
    save(msgspec.structs.replace(plan, moves=[other, kept], schedule=steps, placement=placed), two_units / "plan.json")
    _open(browser, two_units)
    _show(browser, "operations")
    assert "\t6.00\u00d7 \u2013 15.0\u00d7\t" in browser.run("document.getElementById('op-1').innerText")
    assert "recall: resize, on top of cv2" in _show(browser, "plan")
    boxes = "[...document.querySelectorAll('td input[type=checkbox]')]"
    assert browser.run(f"{boxes}.map((box) => box.disabled)") == [True, False]
    seconds = "Number(document.getElementById('whatif').dataset.seconds)"
    before = browser.run(seconds)
    browser.run(f"{boxes}[1].click()")
    assert browser.run(seconds) == pytest.approx(before + 0.002)


def test_the_summary_says_how_much_of_the_time_was_recorded(browser, two_units):
    run = RunDirectory(two_units)
    save(msgspec.structs.replace(run.events, lanes=run.events.lanes[:1], calls=[]), two_units / "events")
    _open(browser, two_units)
    assert "Recorded calls cover 20% of 1.5 s; the rest is start-up" in _show(browser, "summary")


def test_workers_without_lanes_are_said_to_have_none(browser, two_units):
    run = RunDirectory(two_units)
    save(msgspec.structs.replace(run.report, workers=2), two_units / "report.json")
    _open(browser, two_units)
    assert "worker processes" not in _show(browser, "timeline")  # there is a lane of another process
    events = run.events
    own = [one for one in events.calls if one.lane == 0]
    save(msgspec.structs.replace(events, lanes=events.lanes[:1], calls=own), two_units / "events")
    _open(browser, two_units)
    assert "Single calls of the 2 worker processes were not recorded" in _show(browser, "timeline")


def test_a_run_in_which_nothing_took_time_is_drawn(browser, tmp_path):
    run = tmp_path / "run"
    run.mkdir()
    report_runs.info(run)
    save(Graph.build([report_runs.op(0, "f", "main", 0.0)]), run / "graph.json")
    lanes = [Lane(process=1, thread=1)]
    save(Events(seconds=0.0, seen=1, least_seconds=0.0, lanes=lanes, calls=[Event(0, 0, 0.0, 0.0, 0)]), run / "events")
    _open(browser, run)
    for page in PAGES:
        assert "NaN" not in _show(browser, page)
        assert "NaN" not in browser.run("document.querySelector('main').innerHTML")
    assert "program \u00b7 thread 1" in _show(browser, "timeline")
    _quiet(browser)


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("timeText(0.99996)", "1000 ms"), ("timeText(0.0123)", "12.3 ms"), ("timeText(99.97)", "100 s"),
        ("timeText(11127.4)", "11,127 s"), ("timeText(9.9996e-4)", "1000 µs"), ("timeText(0)", "0 s"),
        ("sizeText(999960)", "1000 kB"), ("sizeText(1e6)", "1.00 MB"), ("sizeText(12)", "12 B"),
    ],
)  # fmt: skip
def test_figures_are_written_out(browser, two_units, call, words):
    if browser.run("typeof timeText") != "function":
        _open(browser, two_units)
    assert browser.run(call) == words


@pytest.mark.slow
def test_a_hundred_thousand_operations_open(browser, tmp_path):
    report_runs.large(tmp_path / "run", 100_000)
    _open(browser, tmp_path / "run")
    assert "100,000" in _show(browser, "summary")
    assert "3,000 hottest of 100,000" in _show(browser, "operations")
    assert "100,000 operations in" in _show(browser, "graph")
    assert "more operations than the page re-evaluates" in _show(browser, "plan")
    _show(browser, "timeline")
    _quiet(browser)
    assert (tmp_path / "run.html").stat().st_size < 2_500_000


def test_a_gain_that_cannot_be_told_and_results_within_tolerance_are_called_so(browser, two_units):
    found = RunDirectory(two_units).report
    proof = msgspec.structs.replace(found.verdict, identical=False, mismatches=0)
    made = msgspec.structs.replace(found, verdict=proof, steady_gain=3.0, steady_low=2.5, steady_high=3.5)
    save(made, two_units / "report.json")
    _open(browser, two_units)
    shown = _show(browser, "summary")
    assert "within tolerance" in shown
    assert "40 of 40 checked calls within what was allowed" in shown
    assert "3.00\u00d7 in the steady state" in shown
    assert "all results were within what was allowed" in _show(browser, "log")
    save(msgspec.structs.replace(made, void="the machine was busy"), two_units / "report.json")
    _open(browser, two_units)
    assert "cannot be told" in _show(browser, "summary")
    _quiet(browser)


def test_a_difference_is_said_loudly(browser, two_units):
    found = RunDirectory(two_units).report
    proof = msgspec.structs.replace(found.verdict, identical=False, mismatches=2, unverified=5)
    save(msgspec.structs.replace(found, verdict=proof), two_units / "report.json")
    _open(browser, two_units)
    for page in ("summary", "log"):
        shown = _show(browser, page)
        assert "2 differed" in shown
        assert "5 results had been used unchecked before the first difference was found" in shown
    _quiet(browser)


@pytest.fixture
def judged(two_units):
    """A synthetic run that was judged by its blocks, as `kind` says."""

    def made(kind: str, **info: object) -> Path:
        report_runs.info(two_units, **info)
        save(synthetic(kind), two_units / "report.json")
        return two_units

    return made


@pytest.mark.parametrize("size", [(1400, 1000), (800, 1000)])
@pytest.mark.parametrize("kind", GAINS)
def test_the_summary_begins_with_gain_speed_and_what_is_slow(browser, judged, kind, size):
    browser.resize(*size)
    _open(browser, judged(kind))
    shown = _show(browser, "summary")
    headings = browser.run("[...document.querySelectorAll('main h2')].map((h) => h.innerText)")
    changes = ["Changes"] if synthetic(kind).changes else []
    assert headings[: 5 + len(changes)] == [
        "Gain",
        "Speed of the program over time",
        "What is slow, why, and what you could do",
        *changes,
        "Hot functions",
        "Your source",
    ]
    assert verdict(synthetic(kind)).sentence[1:] in shown
    assert "22.0 s of CPU time in the whole process" in shown
    assert "Normalize.apply albumentations" in shown.replace("\n", " ")
    assert "Its turn is the loop of main at train.py:72: 33.0 ms each, at least 700 times." in shown
    assert browser.run("document.documentElement.scrollWidth") <= size[0]
    marks = browser.run("document.querySelectorAll('svg.chart text.number').length")
    assert marks == len(synthetic(kind).speed.marks)
    _keep_picture(browser, f"summary-{kind}-{size[0]}")
    _quiet(browser)


def test_a_run_in_which_nothing_was_opened_says_what_is_slow(browser, tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    report_runs.info(folder)
    seen = synthetic("unchanged")
    calm = replace(seen, claim=None, speed=None, heat=replace(seen.heat, own_seconds=0.1))
    save(calm, folder / "report.json")
    save(Graph.build([]), folder / "graph.json")
    _open(browser, folder)
    shown = _show(browser, "summary")
    assert shown.startswith("Gain\nnothing changed\n")
    assert "CodeDAG itself took 0.1 s of CPU time (0.5 % of the process's)." in shown
    assert "Biggest thing left: 23% of the run: Normalize.apply" in shown
    assert "codedag trace train.py --epochs 3 records all of them" in shown
    assert "simulated" not in shown
    for page in PAGES:
        assert _show(browser, page)
    _quiet(browser)


def test_blocks_without_changes_are_points_below_the_line(browser, judged):
    _open(browser, judged("faster"))
    _show(browser, "summary")
    titles = browser.run("[...document.querySelectorAll('svg.chart circle title')].map((t) => t.textContent)")
    blocks = synthetic("faster").speed.blocks
    for words, kind in (("as written", False), ("with the changes", True)):
        assert sum(words in title for title in titles) == sum(b.changed is kind and not b.void for b in blocks)


@pytest.mark.parametrize(
    "speed",
    [
        Speed(blocks=[Block(start=0.0, seconds=1e-6, turns=9000, changed=True)]),
        Speed(blocks=[Block(start=5.0, seconds=9000.0, turns=1)], marks=[Mark(name="m", seconds=0.0)] * 40),
        Speed(blocks=[Block(start=0.0, seconds=0.0, turns=0), Block(start=0.0, seconds=1.0, turns=5, void=True)]),
        Speed(
            unit="<b>x</b>", blocks=[Block(start=0.0, seconds=1.0, turns=5)], marks=[Mark(name=HOSTILE, seconds=9.0)]
        ),
    ],
)
def test_odd_speeds_are_drawn(browser, judged, speed):
    folder = judged("faster")
    save(replace(synthetic("faster"), speed=speed), folder / "report.json")
    browser.resize(800, 1000)
    _open(browser, folder)
    shown = _show(browser, "summary")
    assert "NaN" not in browser.run("document.querySelector('main').innerHTML")
    assert browser.run("document.documentElement.scrollWidth") <= 800
    assert browser.run("document.querySelectorAll('main b b, main img').length") == 0
    assert "What is slow" in shown
    browser.resize(1500, 1000)
    _quiet(browser)


def test_a_slower_run_says_so_before_anything_else(browser, judged):
    _open(browser, judged("slower"))
    assert _show(browser, "summary").split("\n")[:4] == [
        "Gain", "4 % slower", "", "This run was slower by 4 %; next time train.py:33 stays as it is.",
    ]  # fmt: skip


def test_the_log_has_the_account_of_each_change_and_their_sum(browser, judged):
    _open(browser, judged("faster"))
    _show(browser, "log")
    table = browser.run(
        "[...document.querySelector('main table').querySelectorAll('tbody tr')]"
        ".map((row) => [...row.cells].map((cell) => cell.innerText))"
    )
    changes = synthetic("faster").changes
    assert [cells[0] for cells in table] == ["train.py:36", "train.py:33", "steps.py:9-14", "all changes"]
    assert [cells[2] for cells in table] == ["6.40 s", "2.70 s", "-200 ms", "8.90 s"]
    assert table[-1][4] == f"{sum(net_seconds(change) for change in changes):.2f} s"
    assert [cells[5] for cells in table] == ["in use", "in use", "taken back", ""]


def test_hot_lines_show_the_source_unless_it_is_newer_than_the_run(browser, judged, tmp_path):
    source = tmp_path / "train.py"
    source.write_text("\n".join(f"step({number})" for number in range(1, 90)))
    os.utime(source, (1e9, 1e9))
    _open(browser, judged("faster", cwd=str(tmp_path)))
    assert "step(72)" in _show(browser, "summary")
    os.utime(source, (4e9, 4e9))
    _open(browser, judged("faster", cwd=str(tmp_path)))
    shown = _show(browser, "summary")
    assert "step(72)" not in shown
    assert "has changed since the run" in shown


def test_while_a_program_runs_the_gain_is_so_far(browser, judged):
    folder = judged("faster", status="running")
    with Server(folder, 0, lambda _: None) as server:
        threading.Thread(target=server.serve, daemon=True).start()
        browser.open(server.address)
        assert "Gain so far" in browser.run("document.querySelector('main').innerText")
        before = browser.run("document.querySelectorAll('svg.chart circle title').length")
        fewer = synthetic("faster")
        save(replace(fewer, speed=replace(fewer.speed, blocks=fewer.speed.blocks[:9])), folder / "report.json")
        browser.wait("document.querySelectorAll('svg.chart circle title').length === 9")
        assert before > 9
        server.stop()


def test_the_icicle_finds_and_sums(browser, two_units):
    (two_units / "report.json").unlink()
    report_runs.info(two_units, command="trace")
    _open(browser, two_units)
    assert "everything: " in _show(browser, "timeline")
    browser.wait("document.querySelectorAll('svg.icicle rect').length > 2")
    whole = browser.run("callTree().total")
    assert whole == pytest.approx(browser.run("OPS.filter(works).reduce((sum, op) => sum + op.own, 0)"))
    browser.run(
        "(() => { const box = document.querySelector('input[type=search]'); box.value = 'conv'; "
        "box.dispatchEvent(new Event('input')); })()"
    )
    status = browser.run("document.querySelector('[role=status]').innerText")
    assert status.startswith("boxes with “conv”: ")
    assert browser.run("document.querySelectorAll('svg.icicle rect.faint').length") > 0
    browser.run("document.querySelectorAll('svg.icicle rect')[1].dispatchEvent(new MouseEvent('click'))")
    assert browser.run("document.querySelector('[role=status]').innerText").startswith("1 selected box: ")
    _quiet(browser)


def test_places_open_in_an_editor(browser, two_units):
    _open(browser, two_units)
    _show(browser, "log")
    links = browser.run("[...document.querySelectorAll('a.place')].map((link) => link.getAttribute('href'))")
    assert links
    assert all(link.startswith("vscode://file/") and link.endswith(("train.py:12", "train.py:10")) for link in links)
    _quiet(browser)
