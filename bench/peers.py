"""The image work of examples/images_crop.py in other input pipelines, each in a process of its own, interleaved.

    python bench/peers.py --setup     makes .venv-peers with what installs here, and says what does not
    python bench/peers.py             8 rounds, written to bench/results/peers.json and docs/benchmarks.md
    python bench/peers.py --peer dali --data DIR      one peer in this process, one line of JSON

Work: JPEG file, RGB, random-resized-crop to 224, flip, brightness and contrast, normalise, CHW float32, batches of 32.
`by_hand` is the work written for speed, and so a limit for whatever decodes in every epoch.
Peers that run the script's own function (DataLoader, grain, SPDL, Ray), and `by_hand`, are compared with the script
bit for bit: each item draws from a generator of its own, so that order does not matter.  DALI, tf.data and SPDL's own
decoder are written anew in their operators: their pixels and draws are their own, and the table says so.
`codedag` runs the unmodified script; its batches are compared with the plain script's.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import re
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from importlib.metadata import PackageNotFoundError, version
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
RESULTS, PAGE = ROOT / "bench" / "results" / "peers.json", ROOT / "docs" / "benchmarks.md"
MARKS = ("<!-- peers: begin -->", "<!-- peers: end -->")
ENVIRONMENT = ROOT / ".venv-peers"
SCRIPT = ROOT / "examples" / "images_crop.py"
BASE = ("numpy==2.4.6", "opencv-python-headless==5.0.0.93", "torch==2.13.0")
PACKAGES = {
    "grain": "grain==0.2.18", "spdl": "spdl==0.8.0",
    "ray": "ray[data]==2.60.0 pydantic==2.14.3",
    "dali": "nvidia-dali-cuda130==2.4.0",
    "tf": "tensorflow-cpu==2.21.0",
}  # fmt: skip
BATCH, SIZE, PICTURES, THREADS, VOID = 32, 224, 320, 2, 1.3
Batches = Callable[[list[str]], Iterator[Any]]


# -- one peer in this process: imports only what it needs


def item(path: str) -> Any:
    """What the script makes of one picture, with draws that depend on the picture alone."""
    sys.path.insert(0, str(SCRIPT.parent)) if str(SCRIPT.parent) not in sys.path else None
    import images_crop

    images_crop.random = _Own(path)  # type: ignore[attr-defined]
    return images_crop.load(path, SIZE)


class _Own:
    """The functions of `random` for the picture that this thread is at."""

    _held: Any = None

    def __init__(self, path: str) -> None:
        import threading

        if _Own._held is None:
            _Own._held = threading.local()
        _Own._held.random = random.Random(path)

    def __getattr__(self, name: str) -> Any:
        return getattr(_Own._held.random, name)


def cap() -> None:
    """Gives every library one thread, as one does beside a pool of workers."""
    import cv2
    import torch

    torch.set_num_threads(1)
    cv2.setNumThreads(1)


def dataloader(workers: int) -> Batches:
    """The plain DataLoader."""
    import torch

    cap()

    class Pictures(torch.utils.data.Dataset):  # type: ignore[type-arg, misc]
        def __init__(self, paths: list[str]) -> None:
            self.paths = paths

        def __len__(self) -> int:
            return len(self.paths)

        def __getitem__(self, index: int) -> Any:
            return item(self.paths[index])

    return lambda paths: iter(torch.utils.data.DataLoader(Pictures(paths), batch_size=BATCH, num_workers=workers))


def by_hand() -> Batches:
    """The same work as one would write it for speed: decode, crop, resize, a table for the arithmetic, in threads."""
    from concurrent.futures import ThreadPoolExecutor

    import cv2
    import numpy as np

    cap()
    sys.path.insert(0, str(SCRIPT.parent))
    import images_crop

    levels, (mean, std) = np.arange(256, dtype=np.float32)[:, None], map(np.array, (images_crop.MEAN, images_crop.STD))

    def fill(path: str, out: Any) -> None:
        images_crop.random = draws = _Own(path)  # type: ignore[attr-defined]
        image = cv2.imread(path)
        x, y, w, h = images_crop.random_box(image.shape[1], image.shape[0])
        image = cv2.resize(image[y : y + h, x : x + w], (SIZE, SIZE))
        if draws.random() < 0.5:
            image = cv2.flip(image, 1)
        table = np.clip(levels * draws.uniform(0.8, 1.2) + draws.uniform(-0.2, 0.2) * 255, 0, 255)
        table = ((table / 255.0 - mean) / std).astype(np.float32)
        for channel in range(3):
            cv2.LUT(cv2.extractChannel(image, 2 - channel), np.ascontiguousarray(table[:, channel]), dst=out[channel])

    def batches(paths: list[str]) -> Iterator[Any]:
        with ThreadPoolExecutor(THREADS) as pool:
            for start in range(0, len(paths), BATCH):
                batch = np.empty((BATCH, 3, SIZE, SIZE), np.float32)
                list(pool.map(fill, paths[start : start + BATCH], batch))
                yield batch

    return batches


def grain() -> Batches:
    """Google's grain with threads."""
    import grain as library

    cap()
    options = library.ReadOptions(num_threads=THREADS, prefetch_buffer_size=64)

    def batches(paths: list[str]) -> Iterator[Any]:
        source = library.MapDataset.source(paths).map(lambda path: item(path).numpy())
        return iter(source.to_iter_dataset(options).batch(BATCH))

    return batches


def spdl() -> Batches:
    """SPDL's pipeline around the script's function."""
    import torch
    from spdl.pipeline import PipelineBuilder

    cap()

    def batches(paths: list[str]) -> Iterator[Any]:
        stages = (
            PipelineBuilder().add_source(paths).pipe(item, concurrency=THREADS, output_order="input").aggregate(BATCH)
        )
        pipeline = stages.pipe(torch.stack).add_sink(2).build(num_threads=THREADS)
        with pipeline.auto_stop():
            yield from pipeline.get_iterator(timeout=60)

    return batches


def spdl_io() -> Batches:
    """SPDL's own decoder: FFmpeg in threads."""
    import spdl.io
    import torch
    from spdl.pipeline import PipelineBuilder

    cap()
    sys.path.insert(0, str(SCRIPT.parent))
    import images_crop

    mean = torch.tensor(images_crop.MEAN).view(1, 3, 1, 1)
    std = torch.tensor(images_crop.STD).view(1, 3, 1, 1)

    def batch(paths: list[str]) -> Any:
        frames = []
        for path in paths:
            packets = spdl.io.demux_image(path)
            x, y, w, h = images_crop.random_box(packets.width, packets.height)
            flip = "hflip," if random.random() < 0.5 else ""
            words = f"crop={w}:{h}:{x}:{y},scale={SIZE}:{SIZE}:flags=bilinear,{flip}format=pix_fmts=rgb24"
            frames.append(spdl.io.decode_packets(packets, filter_desc=words))
        pixels = spdl.io.to_torch(spdl.io.convert_frames(frames)).permute(0, 3, 1, 2).float()
        pixels = (pixels * random.uniform(0.8, 1.2) + random.uniform(-0.2, 0.2) * 255).clamp_(0, 255)
        return pixels.div_(255).sub_(mean).div_(std).contiguous()

    def batches(paths: list[str]) -> Iterator[Any]:
        groups = [paths[start : start + BATCH] for start in range(0, len(paths), BATCH)]
        pipeline = PipelineBuilder().add_source(groups).pipe(batch, concurrency=THREADS).add_sink(2)
        built = pipeline.build(num_threads=THREADS)
        with built.auto_stop():
            yield from built.get_iterator(timeout=60)

    return batches


def ray() -> Batches:
    """Ray Data around the script's function."""
    import ray as library
    from peers import item as importable  # a function of __main__ would be sent with all that it refers to

    library.init(num_cpus=THREADS, include_dashboard=False, log_to_driver=False, logging_level="ERROR")
    context = library.data.DataContext.get_current()
    context.enable_progress_bars = False
    context.execution_options.preserve_order = True

    def batches(paths: list[str]) -> Iterator[Any]:
        rows = library.data.from_items([{"path": p} for p in paths], override_num_blocks=max(2, len(paths) // 64))
        made = rows.map(lambda row: {"x": importable(row["path"]).numpy()})
        return (batch["x"] for batch in made.iter_torch_batches(batch_size=BATCH, prefetch_batches=2))

    return batches


def tf_data() -> Batches:
    """tf.data with AUTOTUNE, in its own operators."""
    import tensorflow as tf

    mean, std = [0.485, 0.456, 0.406], [0.229, 0.224, 0.225]

    def decode(path: Any) -> Any:
        raw = tf.io.read_file(path)
        box, size, _ = tf.image.sample_distorted_bounding_box(
            tf.io.extract_jpeg_shape(raw), tf.zeros([1, 0, 4]), area_range=(0.08, 1.0),
            aspect_ratio_range=(3 / 4, 4 / 3), max_attempts=10, use_image_if_no_bounding_boxes=True,
        )  # fmt: skip
        (y, x, _), (h, w, _) = tf.unstack(box), tf.unstack(size)
        image = tf.image.resize(tf.image.decode_and_crop_jpeg(raw, tf.stack([y, x, h, w]), channels=3), (SIZE, SIZE))
        image = tf.image.random_flip_left_right(image)
        image = image * tf.random.uniform([], 0.8, 1.2) + tf.random.uniform([], -0.2, 0.2) * 255
        return tf.transpose((tf.clip_by_value(image, 0, 255) / 255.0 - mean) / std, (2, 0, 1))

    def batches(paths: list[str]) -> Iterator[Any]:
        tune = tf.data.AUTOTUNE
        made = tf.data.Dataset.from_tensor_slices(paths).map(decode, num_parallel_calls=tune)
        return iter(made.batch(BATCH, num_parallel_calls=tune).prefetch(tune))

    return batches


def dali() -> Batches:
    """DALI on the CPU, in its own operators; the batch stays in DALI's buffer."""
    import numpy as np
    from nvidia.dali import fn, pipeline_def, types

    mean, std = [255 * each for each in (0.485, 0.456, 0.406)], [255 * each for each in (0.229, 0.224, 0.225)]

    def batches(paths: list[str]) -> Iterator[Any]:
        @pipeline_def(batch_size=BATCH, num_threads=THREADS, device_id=None, prefetch_queue_depth=2)  # type: ignore[untyped-decorator]
        def pipeline() -> Any:
            jpegs, _ = fn.readers.file(files=list(paths), random_shuffle=False)
            images = fn.decoders.image_random_crop(
                jpegs, device="cpu", output_type=types.RGB, random_area=[0.08, 1.0], random_aspect_ratio=[3 / 4, 4 / 3]
            )
            images = fn.resize(images, size=(SIZE, SIZE), interp_type=types.INTERP_LINEAR, antialias=False)
            draws = [fn.random.uniform(range=[0.8, 1.2]) for _ in range(2)]
            images = fn.brightness_contrast(images, brightness=draws[0], contrast=draws[1])
            return fn.crop_mirror_normalize(
                images, mirror=fn.random.coin_flip(), dtype=types.FLOAT, output_layout="CHW", mean=mean, std=std
            )

        built = pipeline()
        built.build()
        for _ in range(len(paths) // BATCH):
            yield np.asarray(built.run()[0].as_tensor())

    return batches


#: Peer -> how to make it, and whether it runs the script's own function (then its bits are compared).
PEERS: dict[str, tuple[Callable[[], Batches], bool]] = {
    "dataloader_0": (lambda: dataloader(0), True),
    "dataloader_1": (lambda: dataloader(1), True),
    "dataloader_2": (lambda: dataloader(2), True),
    "by_hand": (by_hand, True),
    "grain": (grain, True),
    "spdl": (spdl, True),
    "spdl_io": (spdl_io, False),
    "ray": (ray, True),
    "tf_data": (tf_data, False),
    "dali": (dali, False),
}


def measure_here(name: str, data: str, repeats: int) -> dict[str, object]:
    """Items per second and CPU per item of one peer, from asking for the first batch to having the last.

    Before, a few batches warm it up, of which the first is compared.  Peers that run ahead gain nothing by it: all that
    they give has been made within the time that is taken.
    """
    paths = sorted(str(path) for path in Path(data).glob("*.jpg"))
    paths = paths[: len(paths) // BATCH * BATCH]
    make, same_function = PEERS[name]
    batches = make()
    first = next(iter(list(batches(paths[: 3 * BATCH]))))
    equal = _is_equal(first, paths) if same_function else None
    started, used = time.perf_counter(), _cpu()
    count = sum(len(batch) for batch in batches(paths * repeats))
    wall = time.perf_counter() - started
    return {"peer": name, "rate": count / wall, "cpu_ms": 1e3 * (_cpu() - used) / count, "equal": equal}


def _is_equal(batch: Any, paths: list[str]) -> bool:
    import numpy as np

    wanted = np.stack([item(path).numpy() for path in paths[:BATCH]])
    return bool((np.asarray(batch).view(np.uint32) == wanted.view(np.uint32)).all())


def _cpu() -> float:
    """CPU seconds of this process and of all its children, ended or alive."""
    ended = [resource.getrusage(who) for who in (resource.RUSAGE_SELF, resource.RUSAGE_CHILDREN)]
    return sum(each.ru_utime + each.ru_stime for each in ended) + sum(
        _cpu_of(child) for child in _children(os.getpid())
    )


def _children(process: int) -> list[int]:
    found = []
    for task in Path(f"/proc/{process}/task").glob("*/children"):
        for child in map(int, task.read_text().split()):
            found += [child, *_children(child)]
    return found


def _cpu_of(process: int) -> float:
    try:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
    except OSError:
        return 0.0  # it has ended meanwhile
    return (int(fields[11]) + int(fields[12])) / os.sysconf("SC_CLK_TCK")


# -- all of them


def main() -> None:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--setup", action="store_true")
    parser.add_argument("--peer", choices=sorted(PEERS))
    parser.add_argument("--data", default=str(ROOT / "data" / "examples" / "peers"))
    parser.add_argument("--repeats", type=int, default=4, help="how often the pictures are gone through")
    parser.add_argument("--rounds", type=int, default=8)
    parser.add_argument("--only", nargs="*", choices=[*PEERS, "codedag", "script"])
    options = parser.parse_args()
    if options.setup:
        set_up()
    elif options.peer:
        print(json.dumps(measure_here(options.peer, options.data, options.repeats)), flush=True)
        os._exit(0)  # some peers' threads do not end
    else:
        compare(options)


def set_up() -> None:
    """Makes the peers' environment; a peer that does not install is named and left out."""
    subprocess.run([str(ROOT / "scripts" / "system_packages.sh"), "peers"], check=True)
    subprocess.run([sys.executable, "-m", "venv", str(ENVIRONMENT)], check=True)
    pip = [str(ENVIRONMENT / "bin" / "python"), "-m", "pip", "install", "--quiet", "--disable-pip-version-check"]
    subprocess.run([*pip, *BASE], check=True)
    for name, package in PACKAGES.items():
        done = subprocess.run([*pip, *package.split(), *BASE], check=False, capture_output=True, text=True)
        print(f"{name}: {'installed' if done.returncode == 0 else 'does not install: ' + done.stderr.strip()[-300:]}")


def compare(options: argparse.Namespace) -> None:
    """Measures all peers round by round, writes results and table."""
    names = options.only or [*PEERS, "script", "codedag"]
    with tempfile.TemporaryDirectory(prefix="codedag-peers-") as home:
        equal = _prepare(Path(home), options.data)
        rounds: dict[str, list[dict[str, object]]] = {name: [] for name in names}
        for number in range(options.rounds):
            for name in random.Random(number).sample(names, len(names)):
                found = (
                    _script(name, Path(home), options.data) if name in ("script", "codedag") else _peer(name, options)
                )
                rounds[name].append(found | {"load": os.getloadavg()[0]})
                print(f"round {number + 1}: {name} {json.dumps(found)}", flush=True)
    report = {"rounds": rounds, "codedag_equals_script": equal, "versions": _versions(), "cpus": os.cpu_count()}
    print(table(report))
    if not options.only:
        RESULTS.write_text(json.dumps(report, indent=1) + "\n")
        text = PAGE.read_text()
        before, after = text.index(MARKS[0]) + len(MARKS[0]), text.index(MARKS[1])
        plot = "![codedag run against other input pipelines](images/peers.svg)"
        PAGE.write_text(f"{text[:before]}\n{table(report)}\n\n{plot}\n{text[after:]}")
        _plot(rounds)


def _plot(rounds: dict[str, list[dict[str, Any]]]) -> None:
    sys.path.insert(0, str(Path(__file__).resolve().parent))
    from bars import write_bars

    rows = []
    for name, found in rounds.items():
        pairs = zip(found, rounds["codedag"], strict=True)
        ratios = [ours["rate"] / each["rate"] for each, ours in pairs if "rate" in each and "rate" in ours]
        if ratios and name != "codedag":
            rows.append((name, statistics.median(ratios), min(ratios), max(ratios)))
    write_bars(PAGE.parent / "images" / "peers.svg", "codedag run against other input pipelines", rows)


def _prepare(home: Path, data: str) -> bool:
    """Makes the pictures; whether the script's batches are the same under `codedag run`."""
    for way in ("script", "codedag"):
        _script(way, home, data, ["--digest", str(home / way)])
    return (home / "script").read_text() == (home / "codedag").read_text()


def _peer(name: str, options: argparse.Namespace) -> dict[str, object]:
    python = ENVIRONMENT / "bin" / "python"
    command = [str(python), __file__, "--peer", name, "--data", options.data, "--repeats", str(options.repeats)]
    quiet = {**os.environ, "TF_CPP_MIN_LOG_LEVEL": "3", "RAY_DEDUP_LOGS": "1"}
    try:
        done = subprocess.run(command, capture_output=True, text=True, env=quiet, timeout=180, check=False)
    except subprocess.TimeoutExpired:
        return {"peer": name, "error": "no result in 180 s"}
    lines = [line for line in done.stdout.splitlines() if line.startswith('{"peer"')]
    return json.loads(lines[-1]) if lines else {"peer": name, "error": _cause(done.stderr)}  # type: ignore[no-any-return]


def _cause(said: str) -> str:
    """The first error that a failed peer told of."""
    return next((line.strip() for line in said.splitlines() if "Error: " in line), said.strip()[-300:])


def _script(way: str, home: Path, data: str, more: list[str] | None = None) -> dict[str, object]:
    """The rate of the unmodified script after its first three epochs: threads capped, or as written under codedag."""
    command = [sys.executable, *(["-m", "codedag", "-q", "run"] if way == "codedag" else []), str(SCRIPT)]
    command += [*f"--count {PICTURES} --epochs 8 --load-only --data".split(), data, *(more or [])]
    command += ["--threads", "1"] if way == "script" else []
    environment = {**os.environ, "CODEDAG_HOME": str(home / "home")}
    before = os.times()
    done = subprocess.run(command, cwd=ROOT, env=environment, check=True, capture_output=True, text=True)
    after, rates = os.times(), [float(rate) for rate in re.findall(r"([\d.]+) items/s", done.stdout)]
    used = after.children_user + after.children_system - before.children_user - before.children_system
    steady = rates[3:]
    # the whole process with its imports: more than what the items alone took
    used_ms = 1000 * used / (PICTURES * len(rates))
    return {"peer": way, "rate": len(steady) / sum(1 / rate for rate in steady), "cpu_ms": used_ms}


def table(report: dict[str, Any]) -> str:
    """One row for each peer: rates, and the ratio of codedag to it in each round."""
    rounds = report["rounds"]
    rows = [
        "| pipeline | items/s median (best) | codedag is faster by | CPU per item | bits |",
        "|---|---|---|---|---|",
    ]
    for name, found in rounds.items():
        good = [
            (each["rate"], ours.get("rate"))
            for each, ours in zip(found, rounds.get("codedag", found), strict=True)
            if "rate" in each
        ]
        if not good:
            rows.append(f"| {name} | did not run: {found[-1]['error'][:80] if found else ''} | | | |")
            continue
        rates, ratios = [rate for rate, _ in good], [ours / rate for rate, ours in good if ours]
        spread = max(rates) / min(rates)
        void = f" (void: it moved by {spread:.2f}x)" if spread > VOID else ""
        faster = f"{statistics.median(ratios):.2f}x [{min(ratios):.2f} .. {max(ratios):.2f}]{void}" if ratios else ""
        cpu = [each["cpu_ms"] for each in found if "cpu_ms" in each]
        used = f"{min(cpu):.2f} ms" if cpu else ""
        rate = f"{statistics.median(rates):.0f} ({max(rates):.0f})"
        rows.append(f"| {name} | {rate} | {faster} | {used} | {_bits(name, found, report)} |")
    return "\n".join(rows)


def _bits(name: str, found: list[dict[str, Any]], report: dict[str, Any]) -> str:
    if name in ("script", "codedag"):
        return "the script's own" if name == "script" else f"same as the script: {report['codedag_equals_script']}"
    told = [each.get("equal") for each in found if "rate" in each]
    return "its own pixels and draws" if None in told else f"same as the function: {all(told)}"


def _versions() -> dict[str, str]:
    found = {}
    for name in ("numpy", "torch", "opencv-python-headless", "codedag"):
        try:
            found[name] = version(name)
        except PackageNotFoundError:
            found[name] = "none"
    return found | dict(one.split("==") for package in PACKAGES.values() for one in package.split())


if __name__ == "__main__":
    main()
