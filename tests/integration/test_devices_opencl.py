"""Plans that place calls of cv2 on an OpenCL processor: a device whose results really differ."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("cv2")

SCRIPT = """
import json, sys
import cv2
import numpy as np
from codedag.devices.present import present
here = present("opencl:cpu")
if not here and "--without" not in sys.argv:
    sys.exit("skip: " + here.reason)
import codedag
from codedag.backends.registry import LEVEL1, Call, substitutes
from codedag.ir.verdict import No, Yes

canny = cv2.Canny
@substitutes("cv2.Canny", into="cv2.UMat", gives=LEVEL1, needs="opencv-python-headless>=4.8", pu="opencl:cpu")
def edges(image, threshold1, threshold2):
    return canny(cv2.UMat(image), threshold1, threshold2).get()

edges.guard(lambda call: Yes if type(call.image) is np.ndarray else No("not a picture"))
edges.calls(lambda rng: Call.of(np.zeros((20, 20), np.uint8), 50, 150))  # too easy: it proves nothing

def pictures(count):
    for number in range(count):
        noise = np.random.default_rng(number).integers(0, 256, (480, 640, 3), np.uint8)
        yield cv2.GaussianBlur(noise, (9, 9), 3)

def work(function, count=6):
    return [function(picture) for picture in pictures(count)]

FUNCTIONS = {
    "cv2.resize": lambda picture: cv2.resize(picture, (224, 200)),
    "cv2.medianBlur": lambda picture: cv2.medianBlur(picture, 3),
    "cv2.Canny": lambda picture: cv2.Canny(picture, 50, 150),
}

def outcome(name, allow=("exact",), mode="off"):
    count = 24 if name == "cv2.Canny" else 6
    plain = work(FUNCTIONS[name], count)
    plan = {"context_device_map": {name: "opencl:cpu"}}
    with codedag.apply(plan, allow=allow, mode=mode, demote=False) as migrator:
        found = work(FUNCTIONS[name], count)
        stats = migrator.get_stats()[name]
    by = [int(np.abs(a.astype(int) - b.astype(int)).max()) for a, b in zip(plain, found)]
    types = {(type(one).__name__, str(one.dtype), one.flags.c_contiguous, one.flags.writeable) for one in found}
    return {"by": max(by), "types": sorted(types), "stats": stats}

def differing():
    images = list(pictures(24))
    return sum(bool((canny(cv2.UMat(one), 50, 150).get() != canny(one, 50, 150)).any()) for one in images)

both = ("exact", "level1")
answer = {"differing": differing()}
if "--forked" in sys.argv:
    import multiprocessing
    with codedag.apply({"context_device_map": {"cv2.flip": "opencl:cpu"}}, mode="off", demote=False) as migrator:
        picture = next(pictures(1))
        cv2.flip(picture, 1)
        def child(queue):
            flipped = cv2.flip(picture, 1)
            same = bool((flipped == picture[:, ::-1]).all())
            queue.put((type(flipped).__name__, same, migrator.get_stats()["cv2.flip"]))
        context = multiprocessing.get_context("fork")
        queue = context.Queue()
        process = context.Process(target=child, args=(queue,))
        process.start()
        answer = {"child": queue.get(timeout=600)}
        process.join(60)
        answer["code"] = process.exitcode
elif "--without" in sys.argv:
    answer = {"resize": outcome("cv2.resize", both)}
else:
    answer["exact resize"] = outcome("cv2.resize")
    answer["exact median"] = outcome("cv2.medianBlur")
    answer["near resize"] = outcome("cv2.resize", both)
    answer["watched resize"] = outcome("cv2.resize", both, "shadow")
    answer["exact canny"] = outcome("cv2.Canny")
    answer["near canny"] = outcome("cv2.Canny", both, "shadow")
assert cv2.Canny is canny
print(json.dumps(answer))
"""


def answer_of(folder, *arguments, device=":CPU:"):
    (folder / "script.py").write_text(SCRIPT)
    environment = {**os.environ, "OPENCV_OPENCL_DEVICE": device}
    command = [sys.executable, "-W", "ignore", "script.py", *arguments]
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode and done.stderr.startswith("skip: "):
        pytest.skip(done.stderr.removeprefix("skip: ").strip())
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout)


@pytest.fixture(scope="module")
def answer(tmp_path_factory):
    return answer_of(tmp_path_factory.mktemp("opencl"))


def test_an_exact_plan_never_uses_what_is_not_exact(answer):
    for name in ("exact resize", "exact canny"):
        assert answer[name]["by"] == 0
        assert answer[name]["stats"]["calls"] == 0
        assert "level1, which this plan does not allow" in answer[name]["stats"]["reason"]


def test_an_exact_plan_uses_what_is_exact(answer):
    assert answer["exact median"]["by"] == 0
    assert answer["exact median"]["stats"]["fast"] == 6
    assert answer["exact median"]["types"] == [["ndarray", "uint8", True, True]]


def test_what_is_within_a_level_is_used_where_that_is_allowed(answer):
    assert answer["near resize"]["stats"]["fast"] == 6
    assert answer["near resize"]["by"] == 1  # it was really computed there
    assert answer["near resize"]["types"] == [["ndarray", "uint8", True, True]]
    watched = answer["watched resize"]
    assert (watched["stats"]["checked"], watched["stats"]["mismatches"], watched["by"]) == (6, 0, 0)


def test_what_is_not_within_a_level_is_taken_back(answer):
    if not answer["differing"]:
        pytest.skip("this OpenCL driver finds the same edges as OpenCV")
    stats = answer["near canny"]["stats"]
    assert answer["near canny"]["by"] == 0  # what was compared gave the program the original's result
    assert stats["mismatches"] == 1
    assert not stats["active"]


def test_a_forked_process_runs_as_written(tmp_path):
    found = answer_of(tmp_path, "--forked")
    kind, same, stats = found["child"]
    assert (kind, same, found["code"]) == ("ndarray", True, 0)
    assert any("forked" in reason for reason in stats["declined"])


def test_a_plan_for_it_runs_as_written_where_it_is_off(tmp_path):
    found = answer_of(tmp_path, "--without", device="disabled")
    assert found["resize"]["by"] == 0
    assert found["resize"]["stats"]["calls"] == 0
    assert "opencl:cpu" in found["resize"]["stats"]["reason"]


EARLY = """
import sys
import codedag
plan = {"context_device_map": {"cv2.medianBlur": "opencl:cpu"}}
with codedag.apply(plan, mode="off", demote=False) as migrator:
    import cv2
    import numpy as np
    from codedag.devices.present import present
    picture = np.random.default_rng(0).integers(0, 256, (100, 120, 3), np.uint8)
    found = [cv2.medianBlur(picture, 3) for _ in range(3)]
    stats = migrator.get_stats()["cv2.medianBlur"]
here = present("opencl:cpu")
assert all((one == cv2.medianBlur(picture, 3)).all() for one in found)
assert not hasattr(cv2.medianBlur, "__wrapped__")
print(stats["fast"], bool(here), stats["reason"] or "-")
"""


def test_a_plan_that_comes_before_the_library_is_used_once_it_is_loaded(tmp_path):
    (tmp_path / "script.py").write_text(EARLY)
    found = {}
    for device in (":CPU:", "disabled"):
        environment = {**os.environ, "OPENCV_OPENCL_DEVICE": device}
        command = [sys.executable, "-W", "ignore", "script.py"]
        done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=600)
        assert done.returncode == 0, done.stderr
        found[device] = done.stdout.split(maxsplit=2)
    assert found["disabled"][:2] == ["0", "False"]
    assert "opencl:cpu" in found["disabled"][2]
    if found[":CPU:"][1] == "False":
        pytest.skip("there is no OpenCL driver for a processor")
    assert found[":CPU:"][0] == "3", found


WORKERS = """
import json, multiprocessing, sys
import cv2
import numpy as np
import codedag
from codedag.devices.present import present

def work(number):
    picture = np.random.default_rng(number).integers(0, 256, (100, 120, 3), np.uint8)
    return picture, cv2.medianBlur(picture, 3)

def child(queue):
    for number in range(4):
        queue.put(work(number))

if __name__ == "__main__":
    here = present("opencl:cpu")
    if not here:
        sys.exit("skip: " + here.reason)
    plan = {"context_device_map": {"work/cv2.medianBlur": "opencl:cpu"}}
    answer = {}
    for method in ("spawn", "fork"):
        context = multiprocessing.get_context(method)
        with codedag.apply(plan, mode="off", demote=False) as migrator:
            queue = context.Queue()
            process = context.Process(target=child, args=(queue,))
            process.start()
            pairs = [queue.get(timeout=600) for _ in range(4)]
            process.join(100)
            stats = migrator.get_stats()["cv2.medianBlur"]
        same = all(type(b) is np.ndarray and (b == cv2.medianBlur(a, 3)).all() for a, b in pairs)
        answer[method] = {"same": bool(same), "code": process.exitcode, "stats": stats}
    print(json.dumps(answer))
"""


def test_what_leaves_a_worker_is_a_plain_array(tmp_path):
    (tmp_path / "script.py").write_text(WORKERS)
    environment = {**os.environ, "OPENCV_OPENCL_DEVICE": ":CPU:"}
    command = [sys.executable, "-W", "ignore", "script.py"]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True, env=environment, timeout=600)
    if done.returncode and done.stderr.startswith("skip: "):
        pytest.skip(done.stderr.removeprefix("skip: ").strip())
    assert done.returncode == 0, done.stderr
    answer = json.loads(done.stdout.splitlines()[-1])
    assert [(one["same"], one["code"]) for one in answer.values()] == [(True, 0)] * 2
    assert answer["spawn"]["stats"]["fast"] == 4
    assert answer["fork"]["stats"]["fast"] == 0
