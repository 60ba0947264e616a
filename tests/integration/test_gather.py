"""The gatherer in C and its twin in Python give the same graph, keep nothing alive, and grow with the code only."""

from __future__ import annotations

import gc
import re
import sys
import threading
import weakref
from pathlib import Path
from typing import Any

import gather_runs as runs
import numpy as np
import psutil
import pytest

from codedag.instrument import sites
from codedag.ir import check
from codedag.trace import _gather, gather
from codedag.trace.names import Names
from codedag.trace.recorder import Recorder

pytest.importorskip("torch", reason="the programs of this file mix numpy and torch")
pytest.importorskip("cv2", reason="the truth programs use cv2")
pytest.importorskip("PIL", reason="the memory programs use PIL")

sys.path.insert(0, str(Path(__file__).resolve().parent.parent / "property"))
import random_dataflow

TRUTH = Path(__file__).resolve().parent.parent / "programs" / "truth.py"
MEMORY = TRUTH.with_name("truth_memory.py")


def test_truth_programs_have_one_graph():
    names = list(runs.Loaded(TRUTH, runs._site).module.FLOW)
    graphs = runs.same_everywhere(TRUTH, names, np.random.default_rng(1).random((16, 16), dtype=np.float32))
    assert len(graphs) >= 50


@pytest.mark.filterwarnings("ignore:overflow")
@pytest.mark.parametrize("name", ["truth_fresh", "truth_fresh_objects", "truth_fresh_arrays", "truth_fresh_torch"])
def test_fresh_programs_have_one_graph(name: str):
    path = TRUTH.with_name(f"{name}.py")
    names = list(runs.Loaded(path, runs._site).module.FLOW)
    graphs = runs.same_everywhere(path, names, np.random.default_rng(1).random((16, 16), dtype=np.float32))
    assert len(graphs) >= 35


@pytest.mark.filterwarnings("ignore:the matrix subclass", "ignore:Sparse")
def test_memory_programs_have_one_graph_and_the_right_one():
    module = runs.Loaded(MEMORY, runs._site).module
    graphs = runs.same_everywhere(
        MEMORY, list(module.FLOW), np.random.default_rng(1).random((16, 16), dtype=np.float32)
    )
    for name, expected in module.FLOW.items():
        ops = {op.id: op.name.rpartition(".")[2] for op in graphs[name].ops if op.kind != "source"}
        edges = [(e.src, e.dst) for e in graphs[name].edges if e.kind == "flow"]
        edges += [(c.src, c.dst) for c in graphs[name].carried]
        found = {(ops[s], ops[d]) for s, d in edges if s in ops and d in ops}
        named = {op for pair in expected for op in pair}
        assert expected <= found, name
        assert {pair for pair in found if set(pair) <= named} == expected, name
        for operation, signature in module.SIGNATURES[name].items():
            assert signature in {op.in_sig for op in graphs[name].ops if ops.get(op.id) == operation}, name


@pytest.mark.parametrize("seed", range(40))
@pytest.mark.filterwarnings("ignore")
def test_random_programs_have_one_graph(seed: int, tmp_path: Path):
    path = tmp_path / "random_program.py"
    path.write_text(random_dataflow.program(seed))
    graph = runs.same_everywhere(path, ["run"])["run"]
    assert len(graph.ops) > 10


# -- nothing is kept alive

PROGRAM = """
import numpy as np
import torch

class Thing:
    def __init__(self, log, value):
        self.log, self.value = log, value
    def __del__(self):
        self.log.append(np.sum(self.value))

def frees(kind, seen):
    if kind == "array":
        a = np.ones(5) + 1
    elif kind == "view":
        a = (np.ones(5) + 1)[1:]
    elif kind == "tensor":
        a = torch.ones(5) + 1
    elif kind == "closure":
        inner = np.ones(5) + 1
        def a():
            return inner * 2
        a()
    elif kind == "callable":
        a = np.vectorize(lambda x: x + 1)
        a(np.ones(3))
    elif kind == "class":
        a = type("Local", (), {"__call__": lambda self, x: x + 1})
        a()(np.ones(3))
    elif kind == "record":
        array = np.zeros(3, "i4,f8")
        a = array["f0"] + 1
        row = array[1]
        seen.append(row)
        a = array
        del array, row
        seen.pop()
    seen.watch(a)
    del a
    if kind == "closure":
        del inner

def finalises(log):
    thing = Thing(log, np.ones(4) * 2)
    log.append("before")
    del thing
    log.append("after")

def runs_many(n, chunk):
    a = np.ones(chunk)
    for i in range(n):
        b = a + 1
        c = b[1:]
        d = c.sum()
        e = float(d) + 1.5

def uses(held, n):
    for i in range(n):
        np.add(held[0], 1, out=held[0])
        np.ndarray(3)
        np.stack(held[5])
        held[7]()
        np.zeros(2, held[6])

def keeps_many(n):
    kept = []
    for i in range(n):
        kept.append(np.ones(1) * i)
    del kept[: n // 2]
    total = np.stack(kept[:10])
    return total

def shapes(n):
    for i in range(1, n + 1):
        b = np.ones(i) + 1
        c = b * 2

def shares(n):
    for i in range(n):
        t = torch.from_numpy(np.ones(i % 50 + 1))
        t.add_(1)
"""


@pytest.fixture(params=[(s, g) for s in runs.SITES for g in runs.GATHERERS], ids="-".join)
def pair(request: pytest.FixtureRequest, tmp_path: Path) -> tuple[runs.Loaded, Any]:
    sites, gatherer = request.param
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    return runs.Loaded(path, runs.SITES[sites]), runs.GATHERERS[gatherer]


class _Watched(list[Any]):
    """Weak references to what a program showed, and whether they are alive when it says so."""

    def __init__(self) -> None:
        super().__init__()
        self.reference: Any = None

    def watch(self, thing: Any) -> None:
        self.reference = weakref.ref(thing)


@pytest.mark.parametrize("kind", ["array", "view", "tensor", "closure", "callable", "record"])
def test_what_the_program_drops_is_freed_at_once(pair: tuple[runs.Loaded, Any], kind: str):
    loaded, gatherer = pair
    watched = _Watched()
    gc.collect()
    gc.disable()
    try:
        loaded.recorded("frees", kind, watched, gatherer=gatherer)
        if kind == "closure":  # a function that names itself in no cell is freed by its count
            assert watched.reference() is None
        assert watched.reference() is None
    finally:
        gc.enable()


def test_classes_are_freed(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    watched = _Watched()
    recorder = runs.Loaded(path, runs._site).recorded("frees", "class", watched)
    gc.collect()  # a class is a cycle
    assert watched.reference() is None
    assert recorder.templates


def test_finalisers_run_when_they_would(pair: tuple[runs.Loaded, Any]):
    loaded, gatherer = pair
    log: list[Any] = []
    loaded.recorded("finalises", log, gatherer=gatherer)
    assert log == ["before", 8.0, "after"]


# -- growth


def test_a_million_operations_are_counted_and_folded(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    loaded = runs.Loaded(path, runs._site)
    sizes = []
    for n in (25_000, 250_000):
        recorder = loaded.recorded("runs_many", n, 100)
        counts = [t.count for t in recorder.templates if t.kind != "source"]
        assert counts.count(n) == 5  # add, getitem, sum, float, and the last +: that number came from the sum
        sizes.append(recorder.gatherer.sizes())
    small, large = sizes
    assert {k: small[k] for k in ("templates", "edges", "paths", "signatures")} == {
        k: large[k] for k in ("templates", "edges", "paths", "signatures")
    }
    assert large["objects"] + large["buffers"] + large["shared"] <= 4096
    assert large["scalars"] <= 2 * 8192


def test_memory_stays_where_it_was_after_a_warm_up(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    loaded = runs.Loaded(path, runs._site)
    process = psutil.Process()
    recorder = Recorder(loaded.program.names)
    loaded.native.start(recorder, loaded.program.names)
    try:
        loaded.module.runs_many(50_000, 1000)
        before = process.memory_info().rss
        loaded.module.runs_many(250_000, 1000)
        grown = process.memory_info().rss - before
    finally:
        loaded.native.stop()
    assert grown < 8 << 20


def test_dead_objects_are_purged_and_live_ones_are_not(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    loaded = runs.Loaded(path, runs._site)
    recorder = loaded.recorded("keeps_many", 20_000)
    sizes = recorder.gatherer.sizes()
    assert sizes["objects"] <= 2 * 20_000 + 4096
    graph = recorder.graph()
    names = {op.id: op.name for op in graph.ops}
    assert ("operator.mul", "numpy.stack") in {(names[e.src], names[e.dst]) for e in graph.edges}


def test_shared_memory_is_purged(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    sizes = runs.Loaded(path, runs._site).recorded("shares", 20_000).gatherer.sizes()
    assert sizes["objects"] + sizes["buffers"] + sizes["shared"] <= 4096


def test_many_shapes_become_one_open_one(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    graph = runs.same_everywhere(path, ["shapes"], 500)["shapes"]
    for few in (4, 5, 6):
        runs.same_everywhere(path, ["shapes"], few)
    (product,) = [op for op in graph.ops if op.name == "operator.mul"]
    assert (product.count, product.in_sig, product.out_sig) == (500, "float64[*]", "float64[*]")
    assert product.out_nbytes == sum(8 * i for i in range(1, 501))


def test_bytes_per_operation_and_per_edge(tmp_path: Path):
    gatherer = _gather.Gatherer(set(), Names())
    info = sites.SiteInfo(0, sites.CALL, "", "f", 1, 0, 1, 0, "")
    first, before = np.zeros(1), np.zeros(1)
    for _ in range(30_000):
        site = sites.make(info)
        made = np.empty(1)
        gatherer.operation(gatherer.path(-1, site), site, np.sqrt, (first, before), {}, made, 1, 1, None)
        before = made
    sizes = gatherer.sizes()
    assert sizes["template_nbytes"] / sizes["templates"] <= 64
    assert sizes["edge_nbytes"] / sizes["edges"] <= 24


# -- what it tells, and what it is told


def test_the_pilot_hears_of_the_first_and_of_the_sixth_and_later(pair: tuple[runs.Loaded, Any]):
    loaded, gatherer = pair
    heard: list[tuple[str, int]] = []
    loaded.recorded(
        "runs_many", 8, 10, gatherer=gatherer, on_operation=lambda t: heard.append((t.name.rpartition(".")[2], t.count))
    )
    assert [count for name, count in heard if name == "getitem"] == [1, 6, 7, 8]


def test_a_template_says_what_the_twin_says(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    loaded = runs.Loaded(path, runs._site)
    fields = ("number", "name", "kind", "path", "in_sig", "out_sig", "count", "out_nbytes", "site")
    found = [
        [[getattr(t, field) for field in fields] for t in loaded.recorded("shapes", 9, gatherer=g).templates]
        for g in runs.GATHERERS.values()
    ]
    assert found[0] == found[1]
    for t in loaded.recorded("shapes", 9).templates:
        if t.kind not in ("source", "region"):
            assert 0 <= t.least_ns * t.count <= t.self_ns <= t.most_ns * t.count
            assert t.self_ns <= t.total_ns


def test_fields_of_arrays_are_read_only_if_they_agree(tmp_path: Path):
    path = tmp_path / "random_program.py"
    path.write_text(random_dataflow.program(7))
    loaded = runs.Loaded(path, runs._site)
    expected = runs.canonical(loaded.recorded("run").graph())
    _gather.trust_fields(False)
    try:
        asked = runs.canonical(loaded.recorded("run").graph())
    finally:
        _gather.trust_fields(True)
    assert asked == expected


def test_counts_of_references_stay(pair: tuple[runs.Loaded, Any]):
    loaded, gatherer = pair
    recorder = Recorder(loaded.program.names, gatherer=gatherer)
    held: list[Any] = [np.ones(3), np.add, np.ndarray, None, "sum", [np.ones(2)], np.dtype("f8"), np.ones(3).sum, type]
    loaded.native.start(recorder, loaded.program.names)
    try:
        loaded.module.runs_many(10, 10)
        loaded.module.uses(held, 10)
        before = [sys.getrefcount(thing) for thing in held]
        loaded.module.uses(held, 300)
        after = [sys.getrefcount(thing) for thing in held]
    finally:
        loaded.native.stop()
    assert [b - a for a, b in zip(after, before, strict=True)] == pytest.approx([0] * len(held), abs=20)


def test_threads_lose_nothing(tmp_path: Path):
    path = tmp_path / "freeing.py"
    path.write_text(PROGRAM)
    loaded = runs.Loaded(path, runs._site)
    recorder = Recorder(loaded.program.names)
    before = sys.getswitchinterval()
    sys.setswitchinterval(1e-6)
    loaded.native.start(recorder, loaded.program.names)
    try:
        threads = [threading.Thread(target=loaded.module.runs_many, args=(3000, 10 + i % 7)) for i in range(8)]
        threads += [threading.Thread(target=loaded.module.shapes, args=(300,)) for _ in range(4)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
    finally:
        loaded.native.stop()
        sys.setswitchinterval(before)
    assert loaded.native.failure() is None
    graph = recorder.graph()
    counts = {
        name: sum(op.count for op in graph.ops if op.name == name) for name in ("numpy.ndarray.sum", "operator.mul")
    }
    assert counts == {"numpy.ndarray.sum": 8 * 3000, "operator.mul": 4 * 300}


def test_bad_calls_are_refused():
    gatherer = _gather.Gatherer(set(), Names())
    site = sites.make(sites.SiteInfo(0, sites.CALL, "", "f", 1, 0, 1, 0, ""))
    with pytest.raises(IndexError):
        gatherer.operation(3, site, np.sqrt, (), {}, None, 1, 1, None)
    with pytest.raises(IndexError):
        gatherer.path(5, site)
    with pytest.raises(IndexError):
        gatherer.freeze(0)
    with pytest.raises(TypeError):
        gatherer.note(1, "not noted")
    with pytest.raises(TypeError):
        _gather.Gatherer([], Names())


# -- torch is not disturbed

TRACED = """
import numpy as np
import torch

def net(x):
    y = torch.relu(x) * 2
    return (y.view(-1) + 1).sum()

def traced():
    return torch.jit.trace(net, torch.ones(2, 3)).graph

def mapped():
    return torch.vmap(net)(torch.ones(4, 2, 3))

def differentiated():
    return torch.func.grad(net)(torch.ones(2, 3))

def faked():
    from torch._subclasses.fake_tensor import FakeTensorMode
    with FakeTensorMode():
        return net(torch.ones(2, 3)).shape

def graphed():
    from torch.fx.experimental.proxy_tensor import make_fx
    return make_fx(net)(torch.ones(2, 3)).code
"""


@pytest.mark.parametrize("name", ["traced", "mapped", "differentiated", "faked", "graphed"])
@pytest.mark.filterwarnings("ignore")
def test_what_torch_traces_and_transforms_is_left_as_it_is(name: str, tmp_path: Path):
    path = tmp_path / "traced_program.py"
    path.write_text(TRACED)
    plain: dict[str, Any] = {"__name__": "traced_program"}
    exec(compile(TRACED, str(path), "exec"), plain)
    expected = str(plain[name]())
    for native in runs.SITES.values():
        for gatherer in runs.GATHERERS.values():
            loaded = runs.Loaded(path, native)
            answers: list[str] = []
            loaded.module.told = lambda answers=answers, loaded=loaded: answers.append(
                str(getattr(loaded.module, name)())
            )
            loaded.recorded("told", gatherer=gatherer)
            assert _without_places(answers[0]) == _without_places(expected)


def _without_places(text: str) -> str:
    return re.sub(r"#.*|%[\w.]+|\b\d+\b", "", text)


def test_fields_of_tensors_are_found():
    import torch

    from codedag.trace.dataflow import nbytes, signature
    from codedag.trace.samples import tensor_samples

    assert len(tensor_samples()) > 20
    gatherer, site = (
        _gather.Gatherer(set(), Names()),
        sites.make(sites.SiteInfo(0, sites.CALL, "", "f", 1, 0, 1, 0, "")),
    )
    path = gatherer.path(-1, site)
    made = [
        torch.ones(2, 3),
        torch.ones(4, 6)[1:, ::2],
        torch.ones(1, 1, 1, 1, 1, 1, 2),
        torch.tensor(2),
        torch.ones(0, 3),
    ]
    made += [torch.eye(3).to_sparse(), torch.ones(3, device="meta"), torch.ones(3, dtype=torch.complex128)]
    for tensor in made:
        gatherer.operation(path, site, torch.relu, (tensor,), {}, tensor.clone(), 1, 1, None)
    relus = [t for t in gatherer.templates() if t.kind == "call"]
    told = [signature((t, 2)) for t in made]
    assert {t.in_sig for t in relus} >= set(told[:4])
    assert sum(t.out_nbytes for t in relus) == sum(nbytes((t, 2)) for t in made)


RECURSION = """
import numpy as np

class Sorter:
    def sort(self, a):
        if len(a) < 2:
            return a
        middle = float(a[len(a) // 2])
        left, right = self.sort(a[a < middle]), self.sort(a[a > middle])
        return np.concatenate([left, a[a == middle], right])

def run(n):
    return Sorter().sort(np.random.default_rng(1).permutation(n).astype(np.float64))
"""


def test_recursion_folds_into_itself(tmp_path):
    path = tmp_path / "recursion.py"
    path.write_text(RECURSION)
    found = []
    for implementation in (runs._site, runs._twin):
        loaded = runs.Loaded(path, implementation)
        gatherer = _gather.Gatherer if implementation is runs._site else gather.Gatherer
        found.append(loaded.recorded("run", 400, gatherer=gatherer))
    small = [{(t.name, t.count) for t in recorder.templates if t.kind != "source"} for recorder in found]
    assert small[0] == small[1]
    recorder = runs.Loaded(path, runs._site).recorded("run", 4000)
    check(recorder.graph())
    assert recorder.gatherer.sizes()["paths"] < 200, "two calls at each level: thousands of chains without folding"


# -- what moves no data is no part of the graph

PLAIN = """
import numpy as np

class KernelPool:
    def __init__(self, items):
        self.items = items
    def __getitem__(self, key):
        return self.items[key]

def names_of(shelf):
    return sorted(shelf["names"], key=len)

def looks(data):
    names = names_of(KernelPool({"names": ["b", "aa"]}))
    return np.sqrt(data), names

def keeps(data):
    for number in range(600):
        held = [[number]] if number < 500 else [[data]]
        repr(held)

def shown(data):
    for number in range(600):
        repr(data if number == 500 else number)
"""


def test_code_without_data_leaves_no_region(tmp_path: Path):
    path = tmp_path / "plain_program.py"
    path.write_text(PLAIN)
    graph = runs.same_everywhere(path, ["looks"], np.ones(4))["looks"]
    assert sorted(op.name for op in graph.ops if op.kind not in ("source", "region")) == ["numpy.sqrt"]
    assert "names_of" not in {op.name.rpartition(".")[2] for op in graph.ops}


def test_a_site_that_is_seldom_looked_at_notices_data_soon(tmp_path: Path):
    path = tmp_path / "plain_program.py"
    path.write_text(PLAIN)
    loaded = runs.Loaded(path, runs._site)
    inside = [t.count for t in loaded.recorded("keeps", np.ones(4)).templates if t.name == "repr"]
    assert len(inside) == 1
    assert 85 <= inside[0] <= 100  # one in sixteen is looked at until then, and every one from then on
    assert [t.count for t in loaded.recorded("shown", np.ones(4)).templates if t.name == "repr"] == [1]
