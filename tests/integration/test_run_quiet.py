"""Nothing of ours on the program's streams, and no wait for work in the background at its end."""

from __future__ import annotations

import pytest

pytest.importorskip("scipy")
pytest.importorskip("cv2")

#: Runs until something was proven, with every warning shown, and then warns for itself.
PROGRAM = """
import os, pathlib, time, warnings
import cv2
import numpy as np
from scipy import ndimage

warnings.simplefilter("always")
proofs = pathlib.Path(os.environ["CODEDAG_HOME"]) / "cache" / "proofs.json"
pictures = [np.random.default_rng(i).integers(0, 256, (64, 64), dtype=np.uint8) for i in range(4)]

def smooth(picture):
    return ndimage.{name}(picture, {argument})

total, until = 0, time.monotonic() + 400
while not proofs.exists() and time.monotonic() < until and os.environ.get("WAIT"):
    total += sum(int(smooth(each).sum()) for each in pictures)
print(sum(int(smooth(each).sum()) for each in pictures))
warnings.warn("my own")
"""


@pytest.mark.long
@pytest.mark.parametrize(("name", "argument"), [("median_filter", "3"), ("sobel", "0")])
def test_proofs_say_nothing_on_the_programs_streams(plain, codedag, codedag_home, tmp_path, name, argument):
    (tmp_path / "s.py").write_text(PROGRAM.format(name=name, argument=argument))
    expected = plain("s.py", env={"CODEDAG_HOME": str(codedag_home)})
    got = codedag("run", "s.py", env={"CODEDAG_SYNCHRONOUS": "0", "WAIT": "1"})
    assert (got.returncode, got.stdout) == (0, expected.stdout), got.stderr
    theirs = "".join(line for line in got.stderr.splitlines(True) if not line.startswith("codedag: "))
    assert theirs == expected.stderr
    assert (codedag_home / "cache" / "proofs.json").exists()
