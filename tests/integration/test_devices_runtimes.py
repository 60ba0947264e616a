"""Plans for JAX with four devices on the host and for OpenVINO's processor: other runtimes, their copies, refusals."""

from __future__ import annotations

import importlib.util
import json
import os
import subprocess
import sys

import pytest

pytest.importorskip("numpy")

HEAD = """
import json
import numpy as np
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.devices.present import present
from codedag.ir.verdict import No, Yes
import codedag

COPIES = []

def calls(rng):
    draw = np.random.default_rng(rng.getrandbits(32))
    return Call.of(*(draw.random((20, 30)).astype(np.float32) for _ in range(2)))

def plain(call):
    arrays = [call.x1, call.x2]
    fits = all(type(one) is np.ndarray and one.dtype == np.float32 and one.flags.c_contiguous for one in arrays)
    return Yes if fits and call.x1.shape == call.x2.shape else No("not two plain arrays")

def offer(runtime, function, pu, gives=EXACT, needs=None):
    made = substitutes("numpy.fmax", into=runtime, gives=gives, needs=needs or f"{runtime}>=0.1", pu=pu)(function)
    made.guard(plain)
    made.calls(calls)
    return made

def both():
    draw = np.random.default_rng(3)
    return [draw.random((200, 300)).astype(np.float32) for _ in range(2)]

def work():
    one, other = both()
    found = [np.fmax(one, other) for _ in range(4)]
    found.append(np.fmax(one.astype(np.float64), other))  # which no device takes
    return found

def outcome(pu, mode="off"):
    expected, original = work(), np.fmax
    COPIES.clear()
    with codedag.apply({"context_device_map": {"work/numpy.fmax": pu}}, mode=mode, demote=False) as migrator:
        found = work()
        stats = migrator.get_stats()["numpy.fmax"]
    assert np.fmax is original
    alike = [(type(b) is type(a), a.dtype == b.dtype, a.strides == b.strides, b.flags.writeable, b.flags.c_contiguous)
             for a, b in zip(expected, found)]
    assert all(map(all, alike)), alike
    same = all(a.tobytes() == b.tobytes() for a, b in zip(expected, found))
    apart = not any(np.may_share_memory(a, b) for n, a in enumerate(found) for b in found[:n])
    return {"same": same, "apart": apart, "stats": stats, "copies": list(COPIES)}
"""
JAX = (
    HEAD
    + """
answer = {"unused": outcome("jax:cpu")}
import jax
DEVICES = jax.devices()
answer["devices"] = len(DEVICES)
answer["present"] = [bool(present(pu)) for pu in ("jax:cpu", "jax:cpu1", "jax:cpu3", "jax:cpu4", "jax:gpu")]

def on(number):
    def add(x1, x2, /):
        parts = [jax.device_put(one, DEVICES[number]) for one in (x1, x2)]
        made = jax.numpy.maximum(*parts)
        assert made.devices() == {DEVICES[number]}
        COPIES.append(number)
        return np.array(made)
    return add

offer("jax", on(0), "jax:cpu")
answer["first"] = outcome("jax:cpu", "shadow")
offer("jax", on(2), "jax:cpu2")
answer["third"] = outcome("jax:cpu2")
answer["fifth"] = outcome("jax:cpu4")

def mixed(x1, x2, /):
    return np.array(jax.jit(jax.numpy.maximum)(jax.device_put(x1, DEVICES[0]), jax.device_put(x2, DEVICES[1])))

made = offer("jax", mixed, "jax:cpu3")
from codedag.backends.proof import prove
answer["proof"] = str(prove(made).verdict)
answer["mixed"] = outcome("jax:cpu3")
print(json.dumps(answer))
"""
)
OPENVINO = (
    HEAD
    + """
answer = {"unused": outcome("ov:cpu")}
import openvino
from openvino import opset13 as ops
answer["present"] = [bool(present(pu)) for pu in ("ov:cpu", "ov:npu")]
MODELS = {}

def model(shape):
    if shape not in MODELS:
        sides = [ops.parameter(shape, np.float32) for _ in range(2)]
        MODELS[shape] = openvino.Core().compile_model(openvino.Model([ops.maximum(*sides)], sides, "add"), "CPU")
    return MODELS[shape]

def add(x1, x2, /):
    COPIES.append("ov")
    return np.array(model(x1.shape)([x1, x2])[0])

offer("openvino", add, "ov:cpu")
answer["there"] = outcome("ov:cpu", "shadow")
answer["used"] = outcome("ov:cpu")
answer["absent"] = outcome("ov:npu")

def shared(x1, x2, /):
    return model(x1.shape)([x1, x2], share_outputs=True)[0]  # the runtime's own memory, which the next call overwrites

made = offer("openvino", shared, "ov:cpu")
from codedag.backends.proof import prove
answer["proof"] = str(getattr(prove(made).verdict, "reason", ""))
print(json.dumps(answer))
"""
)


def answer_of(library, script, folder, **settings):
    if importlib.util.find_spec(library) is None:
        pytest.skip(f"{library} is not installed")
    (folder / "script.py").write_text(script)
    command = [sys.executable, "-W", "ignore", "script.py"]
    environment = {**os.environ, **settings}
    done = subprocess.run(command, cwd=folder, capture_output=True, text=True, env=environment, timeout=600)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1])


def test_jax_with_four_devices(tmp_path):
    settings = {"XLA_FLAGS": "--xla_force_host_platform_device_count=4", "JAX_PLATFORMS": "cpu"}
    answer = answer_of("jax", JAX, tmp_path, **settings)
    assert answer["unused"]["stats"]["reason"] == "jax:cpu: jax is not used by this program"
    assert answer["devices"] == 4
    assert answer["present"] == [True, True, True, False, False]
    assert (answer["first"]["stats"]["checked"], answer["first"]["stats"]["mismatches"]) == (4, 0)
    assert answer["third"]["stats"]["fast"] == 4
    assert answer["third"]["stats"]["declined"] == {"not two plain arrays": 1}
    assert answer["third"]["copies"][-4:] == [2] * 4
    assert "it has 4 of its kind" in answer["fifth"]["stats"]["reason"]
    assert answer["mixed"]["stats"]["fast"] == 0
    assert "raises" in answer["proof"]  # arrays of two devices do not mix
    used = [answer[name] for name in ("unused", "first", "third", "fifth", "mixed")]
    assert all(one["same"] and one["apart"] for one in used)


def test_openvino_on_the_processor(tmp_path):
    answer = answer_of("openvino", OPENVINO, tmp_path)
    assert answer["unused"]["stats"]["reason"] == "ov:cpu: openvino is not used by this program"
    assert answer["present"] == [True, False]
    assert (answer["there"]["stats"]["checked"], answer["there"]["stats"]["mismatches"]) == (4, 0)
    assert answer["used"]["stats"]["fast"] == 4
    assert answer["used"]["stats"]["declined"] == {"not two plain arrays": 1}
    assert answer["used"]["copies"][-4:] == ["ov"] * 4
    assert answer["absent"]["stats"]["calls"] == 0
    assert "ov:npu" in answer["absent"]["stats"]["reason"]
    assert "owndata" in answer["proof"]  # it is the memory of the runtime
    assert all(answer[name]["same"] and answer[name]["apart"] for name in ("unused", "there", "used", "absent"))


TWO = """
import json
import numpy as np
import scipy.ndimage
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Yes
import codedag

original = scipy.ndimage.median_filter

@substitutes("scipy.ndimage.median_filter", into="jax", gives=EXACT, needs="numpy>=1", pu="jax:cpu")
def there(input, size=None):
    raise AssertionError("jax is not used")

there.guard(lambda call: Yes)
there.calls(lambda rng: Call.of(np.zeros((20, 20), np.uint8), 3))
picture = np.random.default_rng(0).integers(0, 256, (200, 210)).astype(np.uint8)

def one():
    return scipy.ndimage.median_filter(picture, 3)

def two():
    return scipy.ndimage.median_filter(picture, 3)

name = "scipy.ndimage.median_filter"
plan = {"context_device_map": {f"one/{name}": "cpu", f"two/{name}": "jax:cpu"}}
import cv2
with codedag.apply(plan, mode="shadow", demote=False) as migrator:
    found = [one() for _ in range(3)]
    stats = migrator.get_stats()[name]
assert all((each == original(picture, 3)).all() for each in found)
print(json.dumps(stats))
"""


def test_a_device_that_is_not_in_use_keeps_nothing_else_from_its_place(tmp_path):
    pytest.importorskip("cv2")
    stats = answer_of("scipy", TWO, tmp_path)
    assert (stats["checked"], stats["mismatches"]) == (3, 0)
