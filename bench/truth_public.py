"""Public programs as rows of truth.py: how each is called, what is cut to keep it short, which data it gets.

They are fetched to be measured and are never kept here.  A folder of checkouts holds

    timm      github.com/huggingface/pytorch-image-models        yolov5          github.com/ultralytics/yolov5
    examples  github.com/pytorch/examples                        nanoGPT         github.com/karpathy/nanoGPT
    vision    github.com/pytorch/vision                          monai_tutorials github.com/Project-MONAI/tutorials

and what is missing is left out.  They need an environment of their own, which may see this one's packages by a .pth
file, with `pip install --no-deps` of torchvision==0.28.0, timm, monai, ultralytics, ultralytics-thop, tensorboard,
nibabel, safetensors, huggingface_hub and seaborn.

torchvision's wheel is a build for CUDA.  It imports with the CPU build of torch once its package begins with

    operators = torch.library.Library("torchvision", "DEF")
    for name in ("nms", "qnms"):
        operators.define(name + "(Tensor dets, Tensor scores, float iou_threshold) -> Tensor")

Data are drawn: pictures, files in the format of MNIST, text.  One run as written takes 10 to 35 CPU seconds.
"""

from __future__ import annotations

import pickle
import random
import shutil
import struct
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path

CLOCKS = (
    r"\d+:\d\d:\d\d(\.\d+)?", r"\d+:\d\d\b", r"\d{4}-\d\d-\d\d", r"[\d.]+\s?ms", r"[\d.]+\s?s/?(it|img|epoch)?\b",
    r"[\d.]+[KMG]? ?(it|B|img|images|samples)/s", r"[\d.]+ (hours|seconds)", r"mfu -?[\d.]+%", r"Took [\d.]+",
    r"(time|data|Time|Data|img/s|rate): [\d.,]+ ?\(?[\d.,]*\)?(/s)?",
)  # fmt: skip


PROGRESS = r"[^\n]*(\u2501|\d%\|)[^\n]*\n?"  # a bar is drawn as often as the clock allows


@dataclass
class Program:
    """A program that can be run: its command, and what in its output is no result."""

    name: str
    command: list[str]
    timing: tuple[str, ...] = ()
    turns: bool = True  # whether its length can be chosen
    cores: int = 1  # that it keeps busy by itself
    waits: bool = False  # rather than computes
    python: str = ""
    path: list[str] = field(default_factory=list)
    environment: dict[str, str] = field(default_factory=dict)
    prepare: Callable[[Path], Path] | None = None

    def prepared(self, work: Path) -> Path:
        """The folder to run in, with what the program expects to find there."""
        return self.prepare(work) if self.prepare else work


def public_programs(checkouts: Path, data: Path, python: str) -> list[Program]:
    """A row for every program whose checkout is there."""
    rows = [row for make in ROWS for row in make(checkouts.resolve(), data, python)]
    for row in rows:
        row.python, row.turns, row.cores = python, False, 2
        row.timing = row.timing or CLOCKS
        row.environment = {"YOLO_OFFLINE": "true", "HF_HUB_OFFLINE": "1", "WANDB_MODE": "disabled", **row.environment}
    return [row for row in rows if Path(row.command[0]).exists()]


def drawn(python: str, kind: str, folder: Path, *arguments: object) -> Path:
    """A folder of drawn data, made in a process of its own if it is not there yet."""
    if not folder.exists():
        made = folder.with_name(folder.name + ".part")
        subprocess.run([python, __file__, kind, str(made), *map(str, arguments)], check=True)
        made.rename(folder)
    return folder


def edited(source: Path, target: Path, *edits: tuple[str, str]) -> Path:
    """A copy of a script with some of its text replaced; where a text is not found, the row must be looked at."""
    if not source.exists():
        return target
    text = source.read_text()
    for old, new in edits:
        if old not in text:
            raise ValueError(f"truth_public: {source.name} has no text {old!r} any more")
        text = text.replace(old, new)
    target.parent.mkdir(parents=True, exist_ok=True)
    target.write_text(text)
    return target


def _linked(*links: tuple[str, Path], inside: str = "", folders: tuple[str, ...] = ()) -> Callable[[Path], Path]:
    def prepare(work: Path) -> Path:
        for name, target in links:
            (work / name).parent.mkdir(parents=True, exist_ok=True)
            (work / name).symlink_to(target)
        for name in (inside, *folders):
            (work / name).mkdir(parents=True, exist_ok=True)
        return work / inside

    return prepare


def _examples(checkouts: Path, data: Path, python: str) -> list[Program]:
    """Of pytorch/examples: vae, mnist and dcgan."""
    if not (checkouts / "examples").exists():
        return []
    digits = drawn(python, "digits", data / "digits", 6000, 1000)
    photos = drawn(python, "photos", data / "photos", 240)
    scripts = {name: str(checkouts / "examples" / name / "main.py") for name in ("vae", "mnist", "dcgan")}
    beside = _linked(("data", digits), inside="run", folders=("run/results",))
    cut = ["--dataset", "folder", "--dataroot", str(photos / "train"), "--niter", "3", "--manualSeed", "1"]
    return [
        Program("public_vae", [scripts["vae"], "--epochs", "5"], prepare=beside),
        Program("public_mnist", [scripts["mnist"], "--epochs", "1", "--save-model", "--no-accel"], prepare=beside),
        Program("public_dcgan", [scripts["dcgan"], *cut, "--ngf", "16", "--ndf", "16", "--workers", "2"]),
    ]


def _nanogpt(checkouts: Path, data: Path, python: str) -> list[Program]:
    if not (checkouts / "nanoGPT").exists():
        return []
    text = drawn(python, "text", data / "text", 200_000)
    cut = "--device=cpu --compile=False --eval_iters=5 --log_interval=10 --block_size=64 --batch_size=8 --n_layer=3 "
    cut += "--n_head=4 --n_embd=96 --max_iters=150 --lr_decay_iters=150 --dropout=0.1 --gradient_accumulation_steps=1 "
    cut += "--eval_interval=50 --dataset=drawn --warmup_iters=10 --dtype=float32"
    links = _linked(("configurator.py", checkouts / "nanoGPT" / "configurator.py"), ("data/drawn", text))
    return [Program("public_nanogpt", [str(checkouts / "nanoGPT" / "train.py"), *cut.split()], prepare=links)]


def _timm(checkouts: Path, data: Path, python: str) -> list[Program]:
    if not (checkouts / "timm").exists():
        return []
    script, photos = str(checkouts / "timm" / "train.py"), drawn(python, "photos", data / "photos", 240)
    cut = ["--data-dir", str(photos), "--model", "resnet10t", "--num-classes", "6", "--img-size", "96", "--epochs", "2"]
    cut += ["--device", "cpu", "-b", "16", "-j", "2", "--output", ".", "--experiment", "run", "--warmup-epochs", "0"]
    return [Program("public_timm", [script, *cut]), Program("public_timm_start", [script, "--help"])]


def _vision(checkouts: Path, data: Path, python: str) -> list[Program]:
    """The classification reference of torchvision, without and with workers; a copy that is seeded."""
    source = checkouts / "vision" / "references" / "classification"
    if not source.exists():
        return []
    copy, photos = data / "vision", drawn(python, "photos", data / "photos", 240)
    for name in ("presets.py", "sampler.py", "transforms.py", "utils.py"):
        edited(source / name, copy / name)
    seeded = "def main(args):\n    torch.manual_seed(0)\n"
    script = edited(source / "train.py", copy / "train.py", ("def main(args):\n", seeded))
    cut = ["--data-path", str(photos), "--model", "resnet18", "--device", "cpu", "-b", "16", "--epochs", "2"]
    cut += ["--val-resize-size", "96", "--val-crop-size", "96", "--train-crop-size", "96", "--output-dir", "."]
    return [Program(f"public_vision_j{count}", [str(script), *cut, "-j", str(count)]) for count in (0, 2)]


def _yolov5(checkouts: Path, data: Path, python: str) -> list[Program]:
    folder = checkouts / "yolov5"
    if not folder.exists():
        return []
    boxes = drawn(python, "boxes", data / "boxes", 48)
    cut = [
        "--imgsz",
        "160",
        "--data",
        str(boxes / "boxes.yaml"),
        "--weights",
        "",
        "--cfg",
        "yolov5n.yaml",
        "--name",
        "x",
    ]
    cut += ["--epochs", "3", "--batch-size", "8", "--workers", "0", "--device", "cpu"]
    cut += ["--project", ".", "--noplots", "--noautoanchor"]
    cleared = _without(boxes, "*.cache")
    settings = {"YOLOV5_CONFIG_DIR": str(boxes)}  # where its font is looked for
    row = Program("public_yolov5", [str(folder / "train.py"), *cut], (PROGRESS, *CLOCKS), prepare=cleared)
    row.environment, row.path = settings, [str(_without_albumentations(data / "yolov5"))]
    return [row]


def _without_albumentations(folder: Path) -> Path:
    """A folder that hides albumentations: yolov5 uses it where it is there, with a seed that differs in each run."""
    folder.mkdir(parents=True, exist_ok=True)
    (folder / "albumentations.py").write_text('raise ImportError("it draws from a seed of its own")\n')
    return folder


def _without(folder: Path, pattern: str) -> Callable[[Path], Path]:
    """Removes what an earlier run has left beside the data."""

    def prepare(work: Path) -> Path:
        for each in folder.rglob(pattern):
            each.unlink()
        return work

    return prepare


def _monai(checkouts: Path, data: Path, python: str) -> list[Program]:
    """Of MONAI's tutorials: the segmentation of volumes, with smaller volumes, fewer of them, and a seed."""
    source = checkouts / "monai_tutorials" / "3d_segmentation" / "torch" / "unet_training_dict.py"
    if not source.exists():
        return []
    edits = [
        ("128, 128, 128", "64, 64, 64, rad_max=12"), ("range(40)", "range(12)"), ("[:20]", "[:6]"), ("[-20:]", "[-6:]"),
        ("(96, 96, 96)", "(32, 32, 32)"), ("[96, 96, 96]", "[32, 32, 32]"), ("num_workers=4", "num_workers=2"),
        ("    monai.config.print_config()\n", "    monai.utils.set_determinism(0)\n"),
        ("(16, 32, 64, 128, 256)", "(8, 16, 32, 64, 128)"),
    ]  # fmt: skip
    script = edited(source, data / "monai" / "unet_training_dict.py", *edits)
    return [Program("public_monai", [str(script)], timing=(*CLOCKS, r"generating synthetic data to \S+"))]


ROWS = (_examples, _nanogpt, _timm, _vision, _yolov5, _monai)


def write_photos(folder: Path, count: int) -> None:
    """JPEGs in folders by class, for training and validation."""
    import numpy as np
    from PIL import Image

    for number in range(count):
        part = "train" if number % 5 else "val"
        target = folder / part / f"class{number % 6}"
        target.mkdir(parents=True, exist_ok=True)
        small = np.random.default_rng(number).integers(0, 256, (12, 16, 3)).astype(np.uint8)
        Image.fromarray(small).resize((400, 300), Image.Resampling.BICUBIC).save(target / f"{number}.jpg", quality=90)


def write_digits(folder: Path, train: int, test: int) -> None:
    """Files in the format of MNIST."""
    import numpy as np

    raw = folder / "MNIST" / "raw"
    raw.mkdir(parents=True, exist_ok=True)
    for name, count in (("train", train), ("t10k", test)):
        rng = np.random.default_rng(count)
        labels = rng.integers(0, 10, count).astype(np.uint8)
        images = (rng.integers(0, 60, (count, 28, 28)) + labels[:, None, None] * 19).astype(np.uint8)
        (raw / f"{name}-images-idx3-ubyte").write_bytes(struct.pack(">IIII", 2051, count, 28, 28) + images.tobytes())
        (raw / f"{name}-labels-idx1-ubyte").write_bytes(struct.pack(">II", 2049, count) + labels.tobytes())


def write_text(folder: Path, count: int) -> None:
    """Tokens of drawn words, as nanoGPT's preparation writes them."""
    import numpy as np

    folder.mkdir(parents=True, exist_ok=True)
    r = random.Random(0)
    vocabulary = ["".join(r.choices("abcdefghijklmnop", k=r.randint(2, 8))) for _ in range(300)]
    text = " ".join(r.choice(vocabulary) for _ in range(count // 5))[:count]
    letters = sorted(set(text))
    ids = np.array([letters.index(each) for each in text], np.uint16)
    ids[: count * 9 // 10].tofile(folder / "train.bin")
    ids[count * 9 // 10 :].tofile(folder / "val.bin")
    meta = {"vocab_size": len(letters), "itos": dict(enumerate(letters)), "stoi": {c: i for i, c in enumerate(letters)}}
    (folder / "meta.pkl").write_bytes(pickle.dumps(meta))


def write_boxes(folder: Path, count: int) -> None:
    """Pictures with rectangles, and their labels in yolov5's format."""
    import numpy as np
    from PIL import Image

    for number in range(count):
        part, rng = "train" if number % 4 else "val", np.random.default_rng(number)
        image = rng.integers(0, 90, (240, 320, 3)).astype(np.uint8)
        lines = []
        for _ in range(int(rng.integers(1, 4))):
            x, y, w, h = (float(each) for each in rng.uniform(0.2, 0.4, 4))
            x, y, kind = x + 0.3, y + 0.3, int(rng.integers(0, 3))
            top, left = int((y - h / 2) * 240), int((x - w / 2) * 320)
            image[top : top + int(h * 240), left : left + int(w * 320)] = 80 + 60 * kind
            lines.append(f"{kind} {x:.4f} {y:.4f} {w:.4f} {h:.4f}")
        for kind_of, name in (("images", f"{number}.jpg"), ("labels", f"{number}.txt")):
            (folder / kind_of / part).mkdir(parents=True, exist_ok=True)
            if kind_of == "labels":
                (folder / kind_of / part / name).write_text("\n".join(lines) + "\n")
            else:
                Image.fromarray(image).save(folder / kind_of / part / name, quality=90)
    from matplotlib import font_manager

    shutil.copy(font_manager.findfont("DejaVu Sans"), folder / "Arial.ttf")
    place = folder.with_suffix("") if folder.suffix == ".part" else folder
    text = f"path: {place.resolve()}\ntrain: images/train\nval: images/val\nnames: {{0: a, 1: b, 2: c}}\n"
    (folder / "boxes.yaml").write_text(text)


WRITERS = {"photos": write_photos, "digits": write_digits, "text": write_text, "boxes": write_boxes}

if __name__ == "__main__":
    WRITERS[sys.argv[1]](Path(sys.argv[2]), *map(int, sys.argv[3:]))
