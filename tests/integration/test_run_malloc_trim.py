"""A program whose arrays come and go keeps its memory under `codedag run`."""

from __future__ import annotations

import os
import sys

import pytest

pytest.importorskip("numpy")

#: 30 blocks of 3 MB: the C library keeps 6 MB at most of its own accord, so every turn begins with fresh pages.  The
#: program goes on until a turn touches none, for so long that a slow machine has looked around by then.
PROGRAM = """
import resource, sys, time
import numpy as np

def turn():
    blocks = [np.full(3 << 17, n, np.float64) for n in range(30)]
    return sum(float(block[0]) for block in blocks)

def faults():
    return resource.getrusage(resource.RUSAGE_SELF).ru_minflt

end = time.monotonic() + float(sys.argv[1])
while time.monotonic() < end:
    before = faults()
    total = turn()
    if faults() - before < 1000:
        print("quiet", total)
        sys.exit()
print("pages come and go", total)
"""


@pytest.mark.slow
@pytest.mark.skipif(sys.platform != "linux", reason="only there the system tells")
def test_freed_memory_is_kept(tmp_path, plain, codedag, monkeypatch):
    for name in [each for each in os.environ if each.startswith(("MALLOC_", "GLIBC_TUNABLES"))]:
        monkeypatch.delenv(name)
    (tmp_path / "s.py").write_text(PROGRAM)
    assert plain("s.py", "1").stdout == "pages come and go 435.0\n"
    done = codedag("run", "s.py", "300")
    assert done.stdout == "quiet 435.0\n"
    assert "freed memory is kept for the next arrays" in done.stderr
    assert codedag("run", "--observe-only", "s.py", "2").stdout == "pages come and go 435.0\n"
