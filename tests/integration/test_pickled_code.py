"""Programs that look at their own code: hashes and pickles of functions are those of plain Python."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest

pytest.importorskip("dill")
PROGRAM = """
import hashlib
import inspect

import cloudpickle
import dill
import numpy as np


def looped(x):
    total = 0.0
    for k in range(3):
        total += float((x.astype(np.float32) / 255.0 - 0.5).sum()) + k
    return total


class Steps:
    def __call__(self, x):
        while x.size > 9:
            x = np.sort(x)[: x.size // 2]
        return x.sum()


def told():
    print(hashlib.sha256(dill.dumps(looped, recurse=True)).hexdigest())
    inner = lambda x: [looped(x + n) for n in range(2)]
    for function in (looped, Steps.__call__, inner):  # other bytes of a pickle differ from process to process anyway
        for pickles in (dill, cloudpickle):
            code = pickles.loads(pickles.dumps(function)).__code__
            print(code.co_code.hex(), code.co_names, [each for each in code.co_consts if not hasattr(each, "co_code")])
    print(inspect.getsource(looped), looped.__code__.co_firstlineno)


told()
data = np.arange(3000, dtype=np.uint8)
for turn in range(400):
    looped(data)
    Steps()(data)
told()
print(dill.loads(dill.dumps(looped, recurse=True))(data), "codedag" in str(cloudpickle.dumps(looped)))
"""


@pytest.mark.parametrize("synchronous", ["0", "1"])
def test_hashes_and_pickles_are_those_of_plain_python(tmp_path, codedag_home, synchronous):
    (tmp_path / "main.py").write_text(PROGRAM)
    env = {**os.environ, "CODEDAG_HOME": str(codedag_home), "CODEDAG_SYNCHRONOUS": synchronous, "PYTHONHASHSEED": "0"}

    def run(*words):
        return subprocess.run(
            [sys.executable, *words], cwd=tmp_path, env=env, capture_output=True, text=True, timeout=300
        )

    expected, got = run("main.py"), run("-m", "codedag", "run", "main.py")
    assert expected.returncode == 0, expected.stderr
    assert got.stdout == expected.stdout


def test_everything_is_put_back():
    import cloudpickle.cloudpickle as clouds
    import dill._dill as dills

    from codedag.instrument.pickled_code import OriginalCode

    kind = getattr(clouds, "Pickler", None) or clouds.CloudPickler
    before = (dills.Pickler.dispatch[type(run_nothing)], kind._dynamic_function_reduce, list(sys.meta_path))
    original = OriginalCode(lambda code: None)
    original.start()
    assert dills.Pickler.dispatch[type(run_nothing)] is not before[0]
    original.stop()
    assert (dills.Pickler.dispatch[type(run_nothing)], kind._dynamic_function_reduce, list(sys.meta_path)) == before


def run_nothing():
    """Only its type is of interest."""
