"""`codedag run` with files that a `with` statement opens: what is read from them is kept, and they are closed."""

from __future__ import annotations

import os

import pytest

from codedag.ir import load

pytestmark = pytest.mark.long

Image = pytest.importorskip("PIL.Image")
np = pytest.importorskip("numpy")

PROGRAM = """
import glob, hashlib, os, sys
from PIL import Image
import numpy as np

paths = sorted(glob.glob(os.path.join(sys.argv[1], "*.png")))
kind = sys.argv[2]

def by_picture(path, mode="RGB"):
    with Image.open(path) as handle:
        picture = handle.convert(mode)
    return picture

def by_file(path):
    with open(path, "rb") as file:
        picture = Image.open(file).convert("RGB")
    return picture

def loaded(path):
    with open(path, "rb") as file:
        picture = Image.open(file)
        return picture.convert("RGB")

def main():
    load = {"picture": by_picture, "file": by_file, "loaded": loaded}.get(kind, by_picture)
    for epoch in range(5):
        if kind == "rewritten" and epoch > 2:
            for path in paths[::3]:
                Image.new("RGB", (9, 9), (epoch, 1, 2)).save(path)
        for number, path in enumerate(paths):
            try:
                picture = load(path, "L") if kind == "odd" and number % 7 == 3 and epoch > 3 else load(path)
            except OSError as error:
                print("raised", type(error).__name__)
                continue
            picture.putpixel((0, 0), 5 if picture.mode == "L" else (5, 6, 7))
            print(hashlib.sha256(picture.tobytes()).hexdigest(), picture.mode, sorted(picture.info))
        if kind == "gone" and epoch == 3:
            os.remove(paths[2])
            open(paths[4], "wb").close()
    print(len(os.listdir("/proc/self/fd")) < 40 if os.path.exists("/proc/self/fd") else True)

main()
"""


@pytest.mark.parametrize("kind", ["picture", "file", "loaded", "rewritten", "odd", "gone"])
def test_files_are_read_once_and_closed(plain, codedag, tmp_path, kind):
    (tmp_path / "read.py").write_text(PROGRAM)
    folder = tmp_path / "data"
    folder.mkdir()

    def written():
        for number in range(60):
            array = np.random.default_rng(number).integers(0, 256, (20, 30, 3), dtype=np.uint8)
            Image.fromarray(array).save(folder / f"{number:03d}.png")
            os.utime(folder / f"{number:03d}.png", (1e9, 1e9))
        return folder

    expected = plain("read.py", written(), kind)
    paths = os.pathsep.join([str(tmp_path), os.environ.get("PYTHONPATH", "")])
    environment = {"PYTHONPATH": paths, "CODEDAG_SYNCHRONOUS": "1"}
    got = codedag("run", "-o", tmp_path / "run", "read.py", written(), kind, env=environment)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    report = load(tmp_path / "run").report
    assert report.verdict.identical
    kinds = ("remember", "memoise")  # the steps in the loop, or the function around them
    assert any(change.kind in kinds and change.calls > 20 for change in report.changes), report
