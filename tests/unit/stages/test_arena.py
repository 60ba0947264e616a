"""Arrays that several processes map."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import numpy as np
import pytest

from codedag.stages.measuring.arena import PREFIX, Arena, attached

WRITES = """
import json, sys
from codedag.stages.measuring.arena import attached
attached(json.loads(sys.argv[1]))[...] += 1
"""


def test_another_process_sees_and_changes_an_array():
    with Arena() as arena:
        array, reference = arena.put(np.arange(6, dtype=np.float32).reshape(2, 3))
        subprocess.run([sys.executable, "-c", WRITES, json.dumps(reference)], check=True)
        assert array.tolist() == [[1, 2, 3], [4, 5, 6]]
        assert attached(reference).dtype == np.float32


@pytest.mark.parametrize("shape", [(0,), (0, 5), (3, 0), ()])
def test_arrays_without_elements_are_arrays(shape):
    with Arena() as arena:
        array, reference = arena.empty("int64", shape)
        assert array.shape == attached(reference).shape == shape


def test_leaving_removes_the_folder():
    with Arena() as arena:
        arena.empty("float32", (4,))
        assert arena.path.is_dir()
    assert not arena.path.exists()


def test_what_a_killed_process_left_is_removed_by_the_next():
    dead = subprocess.Popen([sys.executable, "-c", ""])
    dead.wait()
    with Arena() as arena:
        orphan = arena.path.parent / f"{PREFIX}{dead.pid}-x"
        orphan.mkdir()
        mine = arena.path.parent / f"{PREFIX}{os.getpid()}-y"
        mine.mkdir()
        with Arena():
            assert not orphan.exists()
            assert mine.exists()
        mine.rmdir()
