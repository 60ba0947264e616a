"""`codedag run` keeps what is read and always done: the same results, whatever happens to files and values."""

from __future__ import annotations

import pytest

from codedag.ir import load

HEAD = """
import hashlib, os, sys
import cv2
import numpy as np

folder = sys.argv[1]
rng = np.random.default_rng(3)
paths = [os.path.join(folder, f"{i}.png") for i in range(40)]
for i, path in enumerate(paths):
    cv2.imwrite(path, rng.integers(0, 255, (220 + i % 3, 200, 3), dtype=np.uint8))
    os.utime(path, (1e9, 1e9))
import time; time.sleep(0.3)  # files that have just been written are not kept

def shown(value):
    return hashlib.sha256(np.ascontiguousarray(value).tobytes() + str(value.shape).encode()).hexdigest()[:12]
"""
LOOP = """
for epoch in range(4):
    for path in paths:
        print(shown(prepare(path)))
    between(epoch)
"""
PLAIN = """
def prepare(path):
    image = cv2.imread(path)
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    return cv2.resize(image, (64, 64))
def between(epoch): pass
"""
CHANGED_FILES = PLAIN.replace(
    "pass",
    """
    for path in paths[::3]:
        cv2.imwrite(path, rng.integers(0, 255, (200, 200, 3), dtype=np.uint8))""",
)
MUTATED = PLAIN.replace(
    "return cv2.resize(image, (64, 64))", "image = cv2.resize(image, (64, 64)); image += 7; return image"
)
TWO_FILES = """
def prepare(path):
    image, mask = cv2.imread(path), None
    mask = cv2.imread(path, cv2.IMREAD_GRAYSCALE)
    image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    mask = cv2.resize(mask, (50, 40))
    image = cv2.resize(image, (50, 40))
    image[mask > 127] = rng.integers(0, 255)
    return image
def between(epoch):
    cv2.imwrite(paths[epoch], np.full((220, 200, 3), epoch, np.uint8))
    os.utime(paths[epoch], (1e9 + epoch, 1e9))
"""
BYTES_OF_FILES = """
def prepare(path):
    data = np.fromfile(path, dtype=np.uint8)
    image = cv2.imdecode(data, cv2.IMREAD_COLOR)
    return cv2.resize(image, (64 + rng.integers(0, 2), 64))
def between(epoch): pass
"""
VARYING = PLAIN.replace("(64, 64)", "(int(rng.integers(40, 80)), 64)")
MISSING = """
def prepare(path):
    image = cv2.imread(path)
    try:
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
    except cv2.error as error:
        return np.zeros(1)
    return image
def between(epoch):
    if epoch == 1:
        os.remove(paths[4]); os.remove(paths[9])
"""
LEAKED = """
kept = []
def prepare(path):
    image = cv2.imread(path)
    kept.append(image)
    image[0] = len(kept)
    return image
def between(epoch):
    print(sum(int(each.sum()) for each in kept))
"""

PILLOW = """
from PIL import Image
def prepare(path):
    image = Image.open(path).convert("RGB")
    return np.asarray(image)
def between(epoch): pass
"""
SETTING = PILLOW.replace("pass", "Image.MAX_IMAGE_PIXELS = 1000 if epoch == 2 else 89478485").replace(
    "def prepare(path):",
    """
def prepare(path):
    try:
        return read(path)
    except Image.DecompressionBombError:
        return np.zeros(3)
def read(path):""",
)
METHOD = PILLOW.replace(
    "def between(epoch): pass",
    """
count, own = [0], Image.Image.convert
def convert(self, *args, **options):
    count[0] += 1
    return own(self, *args, **options)
def between(epoch):
    print(count)
    if epoch == 1:
        Image.Image.convert = convert
""",
)


@pytest.mark.parametrize(
    ("body", "remembers"),
    [
        (SETTING, True), (METHOD, False), (PILLOW, True), (PLAIN, True), (CHANGED_FILES, True), (MUTATED, True),
        (VARYING, True), (MISSING, True), (LEAKED, True), (TWO_FILES, True), (BYTES_OF_FILES, True),
    ],
    ids=[
        "a setting changes", "a method is replaced", "Pillow", "plain", "files change", "values change", "other sizes",
        "files vanish", "values are kept", "two chains take turns", "bytes of files",
    ],
)  # fmt: skip
def test_the_output_is_that_of_the_plain_program(plain, codedag, tmp_path, body, remembers):
    script = tmp_path / "script.py"
    script.write_text(HEAD + body + LOOP)
    for name in ("a", "b"):
        (tmp_path / name).mkdir()
    expected = plain(script, tmp_path / "a")
    got = codedag("run", "-o", tmp_path / "run", script, tmp_path / "b")
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout)
    run = load(tmp_path / "run")
    assert run.report.verdict.identical
    kept = [change for change in run.report.changes if change.kind == "remember"]
    assert bool(kept) is remembers, run.report


FILTERED = PLAIN.replace(
    "def between(epoch): pass",
    """
import warnings
first, count = prepare, [0]
def prepare(path):
    count[0] += 1
    if count[0] == 80:  # as libraries do that are imported while the program runs
        warnings.filterwarnings("ignore", message="nothing of ours")
    return first(path)
def between(epoch): pass
""",
)


def test_what_is_kept_before_a_filter_of_warnings_is_added_goes_and_what_comes_after_stays(codedag, tmp_path):
    script = tmp_path / "script.py"
    script.write_text(HEAD.replace("range(40)", "range(120)") + FILTERED + LOOP.replace("range(4)", "range(2)"))
    codedag("run", "-o", tmp_path / "run", script, tmp_path)
    kept = [change for change in load(tmp_path / "run").report.changes if change.kind in ("remember", "memoise")]
    assert max(change.calls for change in kept) >= 30  # those of the second epoch that were kept under this filter
