"""The examples: each runs plain and under `codedag run`, and says and computes the same."""

import re
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent.parent
#: Programs; the files `stages_*.py` hold models, which `tests/integration/test_stages_show.py` cuts.
EXAMPLES = sorted(path.stem for path in (ROOT / "examples").glob("*.py") if not path.stem.startswith("stages_"))
#: What an example needs beside the packages that every one needs.
_NEEDS = {
    "images_albumentations": "albumentations", "birds_librosa": "librosa", "xray_filters": "skimage",
    "table_pandas": "pandas", "images_tfdata": "tensorflow",
}  # fmt: skip
_COUNT = {"table_pandas": 3000, "birds_librosa": 24}
_OTHERWISE = re.compile(r"[\d.]+ (?:items|images)/s")  # what differs from run to run


def _run(name, folder, digest, *before):
    command = [sys.executable, *before, str(ROOT / "examples" / f"{name}.py"), "--data", str(folder), "--epochs", "3"]
    command += ["--count", str(_COUNT.get(name, 48)), "--threads", "1", "--digest", str(digest)]
    return subprocess.run(command, capture_output=True, text=True, timeout=600, cwd=folder.parent)


@pytest.mark.long
@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_gives_the_same_under_codedag(name, tmp_path):
    pytest.importorskip(_NEEDS.get(name, "torch"))
    plain = _run(name, tmp_path / "data", tmp_path / "plain")
    assert plain.returncode == 0, plain.stderr
    under = _run(name, tmp_path / "data", tmp_path / "codedag", "-m", "codedag", "run")
    assert under.returncode == 0, under.stderr
    assert (tmp_path / "codedag").read_text() == (tmp_path / "plain").read_text()
    assert _OTHERWISE.sub("", under.stdout) == _OTHERWISE.sub("", plain.stdout)
    assert len((tmp_path / "plain").read_text().split()) > 2


@pytest.mark.parametrize("name", EXAMPLES)
def test_an_example_knows_nothing_of_codedag(name):
    text = (ROOT / "examples" / f"{name}.py").read_text()
    assert not re.search(r"^\s*(import|from) codedag", text, re.MULTILINE)
    for option in ("--count", "--epochs", "--threads", "--digest", "--data"):
        assert f'"{option}"' in text
