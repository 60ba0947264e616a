"""cv2 gets one thread in workers only where the source shows that nobody can tell."""

import sys
import textwrap
import types

import pytest

cv2 = pytest.importorskip("cv2")

from codedag.autopilot.settings import cv2_threads as capped  # noqa: E402
from codedag.autopilot.settings.cv2_threads import Capping, may_cap  # noqa: E402
from codedag.instrument.program import Program  # noqa: E402
from codedag.ir.verdict import Yes  # noqa: E402

FREE = """
    import cv2
    def load(path):
        image = cv2.cvtColor(cv2.imread(path), cv2.COLOR_BGR2RGB)
        try:
            return cv2.resize(image, (8, 8), interpolation=cv2.INTER_AREA)
        except cv2.error:
            return None
"""


@pytest.fixture
def asked(tmp_path, monkeypatch):
    monkeypatch.setattr(capped, "_other_holders", lambda cv2, files: iter(()))  # the test run has loaded everything

    def ask(source):
        program = Program([tmp_path])
        path = tmp_path / "program.py"
        path.write_text(textwrap.dedent(source))
        program.load(str(path), path.read_bytes())
        return may_cap(program)

    return ask


@pytest.mark.parametrize(
    "source",
    [
        FREE,
        "import cv2\ncv2.setNumThreads(0)",
        "from cv2 import resize, flip as turned",
        "import cv2 as c\nc.flip",
        "import numpy",
        "cv2.Canny",
    ],
)
def test_what_is_known_to_be_free_of_threads(asked, source):
    assert asked(source)


@pytest.mark.parametrize(
    ("source", "word"),
    [
        ("import cv2\ncv2.Canny", "cv2.Canny"),
        ("import cv2 as c\ndef f(x): return c.dft(x)", "cv2.dft"),
        ("from cv2 import stackBlur as blur", "stackBlur"),
        ("import cv2\nprint(cv2.getNumThreads())", "getNumThreads"),
        ("import cv2\ncv2.SIFT_create", "SIFT_create"),
        ("import cv2\ngetattr(cv2, 'Can' + 'ny')", "handed on"),
        ("import cv2\nf = cv2\nf.Canny", "handed on"),
        ("from cv2 import *", "does not show"),
        ("import cv2.dnn", "does not show"),
        ("import sys\nsys.modules['cv2'].Canny", "does not show"),
        ("import cv2\ncv2.dnn.blobFromImage", "cv2.dnn"),
    ],
)
def test_what_may_depend_on_threads_or_ask_for_them(asked, source, word):
    verdict = asked(source)
    assert not verdict
    assert word in verdict.reason


def test_a_program_does_not_wait_for_long(asked):
    assert "too much source" in asked(f"import cv2\n# {'cv2 ' * 200_000}").reason
    assert asked(f"import numpy\n# {'cv1 ' * 200_000}")


def test_a_library_that_uses_cv2_is_a_reason(monkeypatch):
    library = types.ModuleType("library_with_cv2")
    library.resize = cv2.resize
    monkeypatch.setitem(sys.modules, "library_with_cv2", library)
    assert "library_with_cv2" in list(capped._other_holders(cv2, set()))


def test_a_process_that_is_no_worker_is_left_alone(asked):
    before = cv2.getNumThreads()
    made = Capping(None)
    made.verdict = asked(FREE)
    assert made.verdict
    assert not made.begin_worker()
    assert cv2.getNumThreads() == before


def test_a_forked_worker_touches_no_lock_of_the_pool_that_it_inherits(monkeypatch):
    """Ending that pool (1) hung once in all workers of a loader: its threads are not there, their locks are."""
    asked = []
    library = types.SimpleNamespace(getNumThreads=lambda: 2, setNumThreads=asked.append)
    monkeypatch.setitem(sys.modules, "cv2", library)
    monkeypatch.setattr(capped, "workers_here", lambda: 2)
    monkeypatch.setattr(capped, "_cores", lambda: 2)
    made = Capping(None)
    made.verdict = Yes
    assert made.begin_worker()
    assert asked == [0]


def test_no_pool_of_cv2_is_one_thread():
    before = cv2.getNumThreads()
    try:
        cv2.setNumThreads(0)
        assert cv2.getNumThreads() == 1
    finally:
        cv2.setNumThreads(before)
