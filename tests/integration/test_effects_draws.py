"""Draws that also write: what an item shuffles may be read by the next one."""

import os

import pytest
from test_widen import ALWAYS_FASTER, HEAD, LOOP

from codedag.ir import load

pytestmark = pytest.mark.long

SHUFFLES = """
class Data(Dataset):
    def __init__(self, n=240):
        self.images = [np.full((48, 40, 3), i % 251, np.uint8) for i in range(n)]
        self.order = list(range(50))
        self.noise = torch.zeros(4)
    def __len__(self): return len(self.images)
    def __getitem__(self, i):
        image = self.images[i].astype(np.float32) / 255.0 - self.order[0]
        DRAW
        return torch.from_numpy(image.transpose(2, 0, 1).copy()), self.order[3], float(self.noise[1])
"""


def changes(plain, codedag, tmp_path, draw):
    """What is changed in a program whose items draw so; its output is its own."""
    script = tmp_path / "script.py"
    script.write_text(HEAD + SHUFFLES.replace("DRAW", draw) + LOOP)
    (tmp_path / "sitecustomize.py").write_text(ALWAYS_FASTER)
    path = os.pathsep.join(filter(None, (str(tmp_path), os.environ.get("PYTHONPATH"))))
    expected, got = plain(script), codedag("run", "-o", tmp_path / "run", script, env={"PYTHONPATH": path})
    assert (got.returncode, got.stdout) == (expected.returncode, expected.stdout), got.stderr
    return [change.kind for change in load(tmp_path / "run").report.changes]


def test_a_shuffled_list_that_others_hold_keeps_items_in_order(plain, codedag, tmp_path):
    assert "widen" not in changes(plain, codedag, tmp_path, "random.shuffle(self.order)")


def test_a_tensor_that_is_filled_anew_keeps_items_in_order(plain, codedag, tmp_path):
    assert "widen" not in changes(plain, codedag, tmp_path, "self.noise.normal_()")
