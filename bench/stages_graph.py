"""Two SAGE layers with ReLU (500-256-256) on a graph of Flickr's size: our kernels against PyG's own ways.

    python bench/stages_graph.py [--rounds 7] [--scale 1.0] [--threads N] [--without-compile] [-o FILE]

Printed and written to bench/results/stages_graph.json.  Every way is a process of its own, which has its inputs and
weights, has run once, and is then asked in turns with the others; times are of one call, on the clock and of the
processor (all threads), best and median with the spread.  Peak memory is that of the process, inputs and libraries
included; what the libraries and inputs take before the first call is printed beside it.  Errors are the largest
difference relative to the largest value, from PyG with edge_index and from float64.  Bare products are the products
of both layers with reused results and nothing else, by numpy and by torch: the faster one counts.
"""

from __future__ import annotations

import argparse
import gc
import json
import os
import platform
import statistics
import subprocess
import sys
import tempfile
import time
from importlib.metadata import version
from pathlib import Path
from typing import Any

import numpy as np
import psutil

from codedag.stages.graph.graphs import synthetic_flickr
from codedag.stages.graph.parts import parts_of

RESULTS = Path(__file__).resolve().parent / "results" / "stages_graph.json"
WIDTHS = (500, 256, 256)
OURS, PYG = "ours", "PyG, edge_index"
PRODUCTS = ("products, numpy", "products, torch")
OWN_WAYS = ("PyG, CSR adjacency", "PyG, EdgeIndex", "PyG, torch.compile")
PACKAGES = ("numpy", "numba", "torch", "torch-geometric", "pymetis")


# -- in the process of one way


def ours(folder: Path, threads: int) -> Any:
    from codedag.stages.graph.fusion import KINDS
    from codedag.stages.runners import Program, runner_of

    x, edges = _inputs(folder)
    out = np.zeros((len(x), WIDTHS[-1]), np.float32)
    program = Program("1-14", "", ("x", "edge_index"), ("out",), {}, KINDS * 2, str(folder / "weights.npz"))
    loaded = runner_of("numba:cpu", threads).load(program, {}, {"x": x, "edge_index": edges}, {"out": out})

    def call() -> Any:
        loaded.bring()
        loaded.run()
        return out

    return call


def products_numpy(folder: Path, threads: int) -> Any:
    x, h, weights = _factors(folder)
    z = np.zeros((len(x), 2 * WIDTHS[1]), np.float32)

    def call() -> None:
        np.dot(x, weights[0], out=z)
        np.dot(h, weights[1], out=z)

    return call


def products_torch(folder: Path, threads: int) -> Any:
    import torch

    torch.set_num_threads(threads)
    x, h, weights = _factors(folder)
    x, h, (first, second) = torch.from_numpy(x), torch.from_numpy(h), map(torch.from_numpy, weights)
    z = torch.zeros(len(x), 2 * WIDTHS[1])

    def call() -> None:
        torch.mm(x, first, out=z)
        torch.mm(h, second, out=z)

    return call


def pyg(folder: Path, threads: int, edges_of: Any = None, compiled: bool = False) -> Any:
    import torch

    torch.set_num_threads(threads)
    x, edges = map(torch.from_numpy, _inputs(folder))
    given = edges if edges_of is None else edges_of(torch, edges, len(x))
    first, second = _convolutions(torch, folder)

    def net(x: Any, edges: Any) -> Any:
        return second(first(x, edges).relu(), edges).relu()

    run = torch.compile(net) if compiled else net

    def call() -> Any:
        with torch.no_grad():
            return run(x, given).numpy()

    return call


def _convolutions(torch: Any, folder: Path) -> list[Any]:
    from torch_geometric.nn import SAGEConv

    with np.load(folder / "weights.npz") as file:
        arrays = {name: torch.from_numpy(file[name]) for name in file.files}
    convolutions = []
    for layer, here in enumerate(("", "1.")):
        convolution = SAGEConv(WIDTHS[layer], WIDTHS[layer + 1]).eval()
        convolution.load_state_dict({name: arrays[here + name] for name in convolution.state_dict()})
        convolutions.append(convolution)
    return convolutions


def _csr(torch: Any, edges: Any, nodes: int) -> Any:
    order = torch.argsort(edges[1], stable=True)
    starts = torch.zeros(nodes + 1, dtype=torch.int64)
    starts[1:] = torch.bincount(edges[1], minlength=nodes).cumsum(0)
    ones = torch.ones(edges.shape[1])
    return torch.sparse_csr_tensor(starts, edges[0][order].contiguous(), ones, size=(nodes, nodes))


def _edge_index(torch: Any, edges: Any, nodes: int) -> Any:
    from torch_geometric import EdgeIndex

    return EdgeIndex(edges, sparse_size=(nodes, nodes)).sort_by("col").values.fill_cache_()


WAYS = {
    OURS: ours,
    PRODUCTS[0]: products_numpy,
    PRODUCTS[1]: products_torch,
    PYG: pyg,
    OWN_WAYS[0]: lambda folder, threads: pyg(folder, threads, _csr),
    OWN_WAYS[1]: lambda folder, threads: pyg(folder, threads, _edge_index),
    OWN_WAYS[2]: lambda folder, threads: pyg(folder, threads, compiled=True),
}


def _inputs(folder: Path) -> tuple[Any, Any]:
    return np.load(folder / "x.npy"), np.load(folder / "edge_index.npy")


def _factors(folder: Path) -> tuple[Any, Any, list[Any]]:
    """The left and right factors of the products of both layers."""
    from codedag.stages.graph.kernels import LayerWeights

    x = np.load(folder / "x.npy")
    h = np.random.default_rng(2).standard_normal((len(x), WIDTHS[1]), dtype=np.float32)
    with np.load(folder / "weights.npz") as file:
        names = ("lin_l.weight", "lin_l.bias", "lin_r.weight")
        return x, h, [LayerWeights.of(*(file[here + name] for name in names)).both for here in ("", "1.")]


def serve(way: str, folder: Path, threads: int) -> None:
    """Runs a way once for each line that is read; the first result goes to a file."""
    import warnings

    warnings.filterwarnings("ignore", message=".*[Ss]parse (CSR|invariant).*")  # told by torch, of its own adjacency
    begun = time.perf_counter()
    call = WAYS[way](folder, threads)
    before = psutil.Process().memory_info().rss
    result = call()
    if result is not None:
        np.save(folder / f"{way}.npy", result)
    del result
    gc.collect()
    print(json.dumps({"setup_seconds": time.perf_counter() - begun, "before_nbytes": before}), flush=True)
    for _ in sys.stdin:
        used, begun = time.process_time(), time.perf_counter()
        call()
        seconds, cpu_seconds = time.perf_counter() - begun, time.process_time() - used
        answer = {"seconds": seconds, "cpu_seconds": cpu_seconds, "peak_nbytes": _peak_nbytes()}
        print(json.dumps(answer), flush=True)


def _peak_nbytes() -> int:
    import resource

    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss * (1 if sys.platform == "darwin" else 1024)


# -- in the process that asks


class Way:
    """A way in its process, with what it answered."""

    def __init__(self, name: str, folder: Path, threads: int) -> None:
        self.name, self.answers = name, []
        # -P: beside this file there is a profile.py, and libraries mean Python's
        command = [sys.executable, "-P", __file__, "--serve", name, "--folder", str(folder), "--threads", str(threads)]
        environment = {**os.environ, "OMP_NUM_THREADS": str(threads), "OPENBLAS_NUM_THREADS": str(threads)}
        self._process = subprocess.Popen(
            command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, env=environment
        )
        self.setup = self._answer()

    def ask(self) -> None:
        self._process.stdin.write("\n")
        self._process.stdin.flush()
        self.answers.append(self._answer())

    def _answer(self) -> dict[str, Any]:
        line = self._process.stdout.readline()
        if not line:
            raise SystemExit(f"the process of `{self.name}` ended with exit code {self._process.wait()}")
        return json.loads(line)

    def end(self) -> None:
        self._process.stdin.close()
        self._process.wait()

    def facts(self) -> dict[str, Any]:
        found = {**self.setup, "peak_nbytes": self.answers[-1]["peak_nbytes"]}
        for field in ("seconds", "cpu_seconds"):
            values = [answer[field] for answer in self.answers]
            found[field] = {
                "best": min(values), "median": statistics.median(values), "worst": max(values), "rounds": len(values)
            }  # fmt: skip
        return found


def write_inputs(folder: Path, scale: float) -> dict[str, int]:
    graph, random = synthetic_flickr(scale), np.random.default_rng(1)
    np.save(folder / "x.npy", graph.x)
    np.save(folder / "edge_index.npy", graph.edge_index)
    arrays = {}
    for layer, here in enumerate(("", "1.")):
        shape, bound = (WIDTHS[layer + 1], WIDTHS[layer]), WIDTHS[layer] ** -0.5
        arrays[f"{here}lin_l.weight"] = random.uniform(-bound, bound, shape).astype(np.float32)
        arrays[f"{here}lin_l.bias"] = random.uniform(-bound, bound, shape[0]).astype(np.float32)
        arrays[f"{here}lin_r.weight"] = random.uniform(-bound, bound, shape).astype(np.float32)
    np.savez(folder / "weights.npz", **arrays)
    return graph.sizes


def float64_result(folder: Path) -> Any:
    """The same two layers in float64, by plain numpy."""
    x, edges = _inputs(folder)
    order = np.argsort(edges[1], kind="stable")
    sources, degree = edges[0][order], np.bincount(edges[1], minlength=len(x))
    filled = degree > 0
    starts = (np.cumsum(degree) - degree)[filled]
    x = x.astype(np.float64)
    with np.load(folder / "weights.npz") as file:
        for here in ("", "1."):
            left, bias, right = (file[here + name] for name in ("lin_l.weight", "lin_l.bias", "lin_r.weight"))
            own, first = x @ right.T.astype(np.float64) + bias, x @ left.T.astype(np.float64)
            for column in range(0, own.shape[1], 32):
                part = np.add.reduceat(first[sources, column : column + 32], starts, axis=0)
                own[filled, column : column + 32] += part / degree[filled, None]
            x = np.maximum(own, 0)
    return x


def errors(folder: Path, ways: list[str]) -> dict[str, dict[str, float]]:
    exact, first = float64_result(folder), np.load(folder / f"{PYG}.npy")
    largest, found = np.abs(exact).max(), {}
    for way in ways:
        path = folder / f"{way}.npy"
        if path.exists():
            made = np.load(path)
            found[way] = {
                "from_pyg": float(np.abs(made - first).max() / largest),
                "from_float64": float(np.abs(made - exact).max() / largest),
            }
    return found


def partition(folder: Path, rounds: int = 3) -> dict[str, Any]:
    x, edges = _inputs(folder)
    wall, cpu = [], []
    for _ in range(rounds):
        begun, used = time.perf_counter(), time.process_time()
        parts = parts_of(edges, len(x), 8)
        wall.append(time.perf_counter() - begun)
        cpu.append(time.process_time() - used)
    halo = sum(size.halo for size in parts.sizes) / max(len(x), 1)
    return {"parts": 8, "seconds": min(wall), "cpu_seconds": min(cpu), "cut": parts.cut_edges / edges.shape[1],
            "halo_per_node": halo}  # fmt: skip


def summary(ways: dict[str, dict[str, Any]]) -> dict[str, Any]:
    """The ratios that matter, of best and of median times: how often ours fits in, or how many products it takes."""
    found: dict[str, Any] = {}
    for field in ("seconds", "cpu_seconds"):
        for kind in ("best", "median"):
            mine = ways[OURS][field][kind]
            bare = min(ways[name][field][kind] for name in PRODUCTS)
            own = min(ways[name][field][kind] for name in OWN_WAYS if name in ways)
            found[f"{field} {kind}"] = {
                "PyG edge_index / ours": ways[PYG][field][kind] / mine, "best PyG way / ours": own / mine,
                "ours / bare products": mine / bare,
            }  # fmt: skip
    found["peak memory, ours / PyG edge_index"] = ways[OURS]["peak_nbytes"] / ways[PYG]["peak_nbytes"]
    return found


def show(found: dict[str, Any]) -> None:
    print(f"{found['sizes']}, {found['threads']} threads, load {found['load_before']:.1f} to {found['load_after']:.1f}")
    print(f"{'':22}{'best s':>9}{'median':>9}{'worst':>9}{'CPU best':>10}{'median':>9}{'worst':>9}"
          f"{'peak MB':>9}{'before':>8}{'setup s':>9}  error from PyG, float64")  # fmt: skip
    for name, way in found["ways"].items():
        times = "".join(f"{way['seconds'][kind]:9.3f}" for kind in ("best", "median", "worst"))
        cpu = "".join(f"{way['cpu_seconds'][kind]:{width}.3f}" for kind, width in (("best", 10), ("median", 9), ("worst", 9)))  # fmt: skip  # noqa: E501
        memory = f"{way['peak_nbytes'] / 1e6:9.0f}{way['before_nbytes'] / 1e6:8.0f}{way['setup_seconds']:9.1f}"
        error = found["errors"].get(name)
        told = f"  {error['from_pyg']:.1e}, {error['from_float64']:.1e}" if error else ""
        print(f"{name:22}{times}{cpu}{memory}{told}")
    for name, value in found["summary"].items():
        ratios = value.items() if isinstance(value, dict) else [("", value)]
        print(f"{name:36}", ", ".join(f"{what} {ratio:.2f}".strip() for what, ratio in ratios))
    print("METIS:", ", ".join(f"{name} {value:.2f}" for name, value in found["partition"].items()))


def run(options: argparse.Namespace, folder: Path) -> dict[str, Any]:
    before, sizes = os.getloadavg()[0], write_inputs(folder, options.scale)
    names = [name for name in WAYS if not (options.without_compile and name == OWN_WAYS[2])]
    ways = []
    try:
        for name in names:
            ways.append(Way(name, folder, options.threads))
        for _ in range(options.rounds):
            for way in ways:
                way.ask()
        facts = {way.name: way.facts() for way in ways}
    finally:
        for way in ways:
            way.end()
    return {
        "sizes": sizes, "widths": WIDTHS, "threads": options.threads, "rounds": options.rounds,
        "machine": platform.processor() or platform.machine(), "cores": os.cpu_count(),
        "load_before": before, "load_after": os.getloadavg()[0], "python": platform.python_version(),
        "versions": {name: version(name) for name in PACKAGES}, "ways": facts, "errors": errors(folder, names),
        "partition": partition(folder), "summary": summary(facts),
    }  # fmt: skip


def main() -> None:
    parser = argparse.ArgumentParser()
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--scale", type=float, default=1.0)
    parser.add_argument("--threads", type=int, default=os.cpu_count() or 1)
    parser.add_argument("--without-compile", action="store_true")
    parser.add_argument("-o", "--output", type=Path, default=RESULTS)
    parser.add_argument("--serve", help=argparse.SUPPRESS)
    parser.add_argument("--folder", type=Path, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.serve:
        serve(options.serve, options.folder, options.threads)
        return
    with tempfile.TemporaryDirectory(prefix="codedag-graph-") as folder:
        found = run(options, Path(folder))
    show(found)
    options.output.write_text(json.dumps(found, indent=2) + "\n")


if __name__ == "__main__":
    main()
