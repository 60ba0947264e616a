"""`codedag run` on real scripts: same results, something changed, everything said."""

from __future__ import annotations

import json
from pathlib import Path

import msgspec
import pytest

from codedag.autopilot.moves.replay import GONE
from codedag.ir import load

EXAMPLES = Path(__file__).resolve().parent.parent.parent / "examples"


def test_numpy_program_is_changed_and_prints_the_same(plain, codedag, programs, tmp_path):
    script = programs / "numpy_loop.py"
    expected = plain(script, 200)
    got = codedag("run", "-o", tmp_path / "run", script, 200)
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout)
    run = load(tmp_path / "run")
    assert [m.kind for m in run.plan.moves] == ["fuse"]
    assert run.plan.moves[0].chain[0] == "numpy.ndarray.astype"
    assert run.report.verdict.identical
    assert run.report.verdict.checked >= 8
    assert run.run.status == "ok"
    said = [line.removeprefix("codedag: ") for line in got.stderr.splitlines() if line.startswith("codedag: ")]
    for start in ("results identical", "changed: ", "run directory: ", "next: "):
        assert [line for line in said if line.startswith(start)], got.stderr
    first = ("estimated gain", "this run was slower", "gain not known", "no clear difference")
    assert said[0].startswith(first) or " faster, from " in said[0], got.stderr


def test_few_short_lines_say_how_it_went(codedag, programs, tmp_path):
    got = codedag("-q", "run", "-o", tmp_path / "quiet", programs / "numpy_loop.py", 200)
    assert got.stderr == ""
    got = codedag("--", "run", "-o", tmp_path / "run", programs / "numpy_loop.py", 200)
    lines = got.stderr.splitlines()
    assert len(lines) <= 12, got.stderr
    assert all(line.startswith("codedag: ") for line in lines)
    assert [line for line in lines[:-1] if len(line) > 80] == []
    assert "\x1b" not in got.stderr
    assert any("results identical (" in line for line in lines)
    assert str(tmp_path / "run") in lines[-1]


def test_a_saved_plan_is_replayed_from_the_start(plain, codedag, programs, tmp_path):
    script = programs / "numpy_loop.py"
    codedag("run", "-o", tmp_path / "first", script, 200)
    expected = plain(script, 200)
    plan = tmp_path / "first" / "plan.json"
    got = codedag("run", "--plan", plan, "-o", tmp_path / "second", script, 200)
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    assert "changed: " in got.stderr
    again = load(tmp_path / "second")
    assert again.report.verdict.identical
    assert len(again.report.changes) == 1


@pytest.mark.parametrize("kind", ["widen", "overlap", "inside"])
def test_moves_of_older_versions_are_declined_with_a_reason(plain, codedag, programs, tmp_path, kind):
    script = programs / "numpy_loop.py"
    codedag("run", "-o", tmp_path / "first", script, 200)
    plan = load(tmp_path / "first").plan
    (move,) = plan.moves
    older = msgspec.structs.replace(move, kind=kind, id=f"{kind}-1")
    path = tmp_path / "older.json"
    path.write_bytes(msgspec.json.encode(msgspec.structs.replace(plan, moves=[older, move])))
    got = codedag("run", "--plan", path, "-o", tmp_path / "second", script, 200)
    assert (got.returncode, got.stdout) == (0, plain(script, 200).stdout), got.stderr
    report = load(tmp_path / "second").report
    assert [change.kind for change in report.changes] == [move.kind]
    (declined,) = [each for each in report.declined if each.what == f"{kind} of the plan"]
    assert declined.reason == GONE[kind]


@pytest.mark.long
def test_a_plan_for_another_version_of_the_script_is_declined(plain, codedag, programs, tmp_path):
    script = tmp_path / "numpy_loop.py"
    script.write_text((programs / "numpy_loop.py").read_text())
    codedag("run", "-o", tmp_path / "first", script, 200)
    script.write_text("# one line more\n" + script.read_text())
    expected = plain(script, 400)
    got = codedag("run", "--plan", tmp_path / "first" / "plan.json", script, 400)
    assert got.stdout == expected.stdout
    assert "another version of this file" in got.stderr


def test_observe_only_changes_nothing(plain, codedag, programs, tmp_path):
    script = programs / "numpy_loop.py"
    expected = plain(script, 500)
    got = codedag("run", "--observe-only", "-o", tmp_path / "run", script, 500)
    assert got.stdout == expected.stdout
    assert load(tmp_path / "run").plan.moves == []


def test_a_script_with_nothing_to_gain_gets_one_line(plain, codedag, tmp_path):
    (tmp_path / "count.py").write_text("total = 0\nfor i in range(200_000):\n    total += i % 7\nprint(total)\n")
    expected = plain("count.py")
    got = codedag("--", "run", "-o", tmp_path / "run", "count.py")  # a place was asked for: so it is not left out
    assert got.stdout == expected.stdout
    lines = got.stderr.splitlines()
    assert lines[0].startswith("codedag: nothing was changed")
    assert len(lines) <= 3  # what is left, and the next command
    got = codedag("--", "run", "count.py")
    assert (got.stdout, got.stderr) == (expected.stdout, "")  # under a second nothing is said


@pytest.mark.long
@pytest.mark.parametrize("compiler", ["numba", "numpy"])
def test_without_a_compiler_the_results_stay_the_same(plain, codedag, programs, tmp_path, compiler):
    script = programs / "numpy_loop.py"
    expected = plain(script, 200)
    got = codedag("run", "-o", tmp_path / "run", script, 200, env={"CODEDAG_COMPILER": compiler})
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    for change in load(tmp_path / "run").report.changes:
        assert "(c" not in change.what


@pytest.mark.long
def test_a_cache_that_cannot_be_written_is_no_obstacle(plain, codedag, programs, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    script = programs / "numpy_loop.py"
    expected = plain(script, 400)
    got = codedag("run", script, 400, env={"CODEDAG_HOME": str(blocked)})
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    assert "not written" in got.stderr


def test_the_example_trains_the_same_with_every_batch_bit_equal(plain, codedag, tmp_path):
    options = ["--data", tmp_path / "data", "--count", 96, "--epochs", 4, "--size", 96, "--threads", 1]
    expected = plain(EXAMPLES / "images_cv2.py", *options, "--digest", tmp_path / "plain")
    got = codedag("run", "-o", tmp_path / "run", EXAMPLES / "images_cv2.py", *options, "--digest", tmp_path / "codedag")
    assert got.returncode == expected.returncode == 0, got.stderr
    assert (tmp_path / "plain").read_text() == (tmp_path / "codedag").read_text()
    losses = [[line.split(",")[0] for line in out.stdout.splitlines()] for out in (expected, got)]
    assert losses[0] == losses[1]
    report = json.loads((tmp_path / "run" / "report.json").read_text())
    assert report["verdict"]["mismatches"] == 0


@pytest.mark.parametrize("workers", [2])
def test_worker_processes_give_the_same_batches(plain, codedag, tmp_path, workers):
    options = ["--data", tmp_path / "data", "--count", 48, "--epochs", 2, "--size", 64, "--workers", workers]
    expected = plain(EXAMPLES / "images_cv2.py", *options, "--digest", tmp_path / "plain")
    got = codedag("run", EXAMPLES / "images_cv2.py", *options, "--digest", tmp_path / "codedag")
    assert got.returncode == expected.returncode == 0, got.stderr
    assert (tmp_path / "plain").read_text() == (tmp_path / "codedag").read_text()
    assert got.stderr.count("run directory") == 1


NDIMAGE = """
import hashlib
import cv2
import numpy as np
from scipy import ndimage

def clean(picture):
    smooth = ndimage.median_filter(picture, size=3)
    return ndimage.maximum_filter(smooth, 5)

rng = np.random.default_rng(1)
digest = hashlib.sha256()
for i in range(300):
    digest.update(clean(rng.integers(0, 256, (128, 128), dtype=np.uint8)).tobytes())
print(digest.hexdigest())
"""


def test_library_calls_are_substituted_through_the_registry(plain, codedag, tmp_path):
    (tmp_path / "xray.py").write_text(NDIMAGE)
    expected = plain("xray.py")
    got = codedag("run", "-o", "run", "xray.py")
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    moves = load(tmp_path / "run").plan.moves
    changed = {(m.variant, *m.chain) for m in moves if m.kind == "substitute"}
    assert changed == {("cv2", "scipy.ndimage.median_filter"), ("cv2", "scipy.ndimage.maximum_filter")}


PILLOW = """
import hashlib, random, sys
import numpy as np
from PIL import Image, ImageEnhance as enhance

def prepare(image, factor):
    image = enhance.Contrast(image).enhance(factor)
    return np.asarray(image, dtype=np.float32)

def words(image):
    class Contrast:
        def __init__(self, image):
            self.size = image.size
    return Contrast(image).size

random.seed(3)
pictures = [Image.effect_mandelbrot((260, 240), (-2, -1.5, 1, 1.5), k + 9).convert("RGB") for k in range(4)]
digest, seen = hashlib.sha256(), 0
for turn in range(60):
    for image in pictures:
        digest.update(prepare(image, random.uniform(0.5, 1.5)).tobytes())
        seen += sum(words(image))
print(digest.hexdigest(), seen)
"""


def test_what_makes_an_object_and_what_numpy_makes_of_an_image_is_substituted(plain, codedag, tmp_path):
    (tmp_path / "photos.py").write_text(PILLOW)
    expected = plain("photos.py")
    got = codedag("run", "-o", "run", "photos.py")
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    changed = {m.chain[0] for m in load(tmp_path / "run").plan.moves if m.kind == "substitute"}
    assert {"PIL.ImageEnhance.Contrast", "PIL.ImageEnhance._Enhance.enhance", "numpy.asarray"} <= changed, got.stderr


def test_a_library_that_the_program_does_not_use_is_not_loaded_for_it(plain, codedag, tmp_path):
    (tmp_path / "xray.py").write_text(NDIMAGE.replace("import cv2\n", "") + "import sys\nprint('cv2' in sys.modules)\n")
    expected = plain("xray.py")
    got = codedag("run", "-o", "run", "xray.py")
    assert (got.returncode, got.stdout) == (0, expected.stdout)
    assert "cv2 is not used by this program" in got.stderr


def test_a_plan_for_another_program_says_that_it_did_not_fit(codedag, programs, tmp_path):
    codedag("run", "-o", tmp_path / "first", programs / "numpy_loop.py", 200)
    (tmp_path / "other.py").write_text("print('other')\n")
    got = codedag("run", "--plan", tmp_path / "first" / "plan.json", "other.py")
    assert (got.returncode, got.stdout) == (0, "other\n")
    assert "the program has no such file" in got.stderr
