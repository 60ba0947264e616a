"""When a table that was built before may be used again, and when it may not."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from fusing import fuse, plain

from codedag.backends.same import same

SOURCE = """
import numpy as np
def f(img, p):
    x = img.astype(np.float32)
    return np.ascontiguousarray((x * p).transpose(2, 0, 1))
"""
ARRAY = np.array([1.0, 2.0, 3.0])


@pytest.fixture
def img() -> Any:
    values = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    values.reshape(-1)[:256] = np.arange(256)
    return values


@pytest.mark.parametrize(
    "parameters",
    [
        (0.0, -0.0, 0.0),
        (1, True, 1.0, np.float32(1), np.float64(1), np.int64(1), np.uint8(1), np.array(1.0), np.array(1, np.float32)),
        (np.float32(0.1), np.float64(np.float32(0.1)), 0.1),
        (2, 2.0, np.float16(2)),
        (ARRAY, ARRAY.astype(np.float32), ARRAY.astype(">f8"), ARRAY[::-1], ARRAY[None, None], ARRAY.astype(int)),
        (np.array([1.0]), np.array([[1.0]]), np.array(1.0), 1.0),
        (np.array([True, False, True]), np.array([1, 0, 1], np.uint8)),
    ],
)
def test_parameters_that_look_alike(img, parameters):
    module, original = fuse(SOURCE, lambda module: module.f(img, 1.5)), plain(SOURCE)
    for _ in range(3):
        for p in parameters:
            for _ in range(3):
                assert same(original.f(img, p), module.f(img, p)), p
    assert module.trial.calls == 9 * len(parameters), module.trial.declined


def test_an_array_changed_in_place_between_calls(img):
    module, original = fuse(SOURCE, lambda module: module.f(img, ARRAY)), plain(SOURCE)
    p = ARRAY.astype(np.float32)
    for n in range(6):
        p.reshape(-1)[n % 3] += n % 2
        if n == 4:
            p = p.reshape(1, 1, 3)
        assert same(original.f(img, p), module.f(img, p))
    assert module.trial.calls == 6


def test_nan_runs_as_written(img):
    module, original = fuse(SOURCE, lambda module: module.f(img, 1.5)), plain(SOURCE)
    assert same(original.f(img, float("nan")), module.f(img, float("nan")))
    assert dict(module.trial.declined) == {"the chain gives NaN": 1}


def test_a_warning_is_the_originals(img):
    source = "import numpy as np\ndef f(img, p):\n    return (1.0 / img.astype(np.float32)) * p\n"
    module = fuse(source, lambda module: module.f(img | 1, 1.5))
    assert same(plain(source).f(img | 1, 1.5), module.f(img | 1, 1.5))  # no zero in the data: no warning
    with pytest.warns(RuntimeWarning, match="divide by zero"):
        module.f(img, 1.5)
    assert module.trial.calls == 0


def test_a_flip_of_the_axis_of_the_parameters(img):
    source = """
import numpy as np
def f(img, p):
    x = img.astype(np.float32) - p
    x = x[:, ::-1, ::-1]
    x = x / p
    return np.ascontiguousarray(x)
"""
    module, original = fuse(source, lambda module: module.f(img, ARRAY)), plain(source)
    for p in (ARRAY, ARRAY * 2):
        assert same(original.f(img, p), module.f(img, p))
    assert module.trial.calls == 2


@pytest.mark.parametrize("tail", ["x[:, ::-1]", "x.transpose(2, 0, 1)", "x[2:9]", "x"])
def test_an_in_place_end_keeps_the_view_that_it_was(img, tail):
    lines = ["x = img.astype(np.float32) * p", f"x = {tail}", "x += 1", "x *= p", "return x"]
    source = "import numpy as np\ndef f(img, p):\n    " + "\n    ".join(lines)
    module, original = fuse(source, lambda module: module.f(img, 1.5)), plain(source)
    for picture in (img, img.transpose(1, 0, 2), np.asfortranarray(img)):
        left, right = original.f(picture, 2.0), module.f(picture, 2.0)
        assert same(left, right)
        assert (left.base is None) == (right.base is None)


def test_negative_zero_and_bounds(img):
    source = (
        "import numpy as np\ndef f(img, p):\n    x = img.astype(np.float32) * p\n    return np.clip(x, 0, 255) + 0\n"
    )
    module, original = fuse(source, lambda module: module.f(img, 1.5)), plain(source)
    for p in (-1.0, 1.0, -0.0):
        assert same(original.f(img, p), module.f(img, p))
    assert module.trial.calls == 1
    assert dict(module.trial.declined) == {"a bound that is a zero of the other sign": 2}


def test_casts_that_do_not_fit_run_as_written(img):
    source = (
        "import numpy as np\ndef f(img, p):\n    x = img.astype(np.float32) * p\n    return x.astype(np.uint8) + 1\n"
    )
    module, original = fuse(source, lambda module: module.f(img, 0.5)), plain(source)
    for p in (0.5, 2.0, 0.9):
        assert same(original.f(img, p), module.f(img, p))
    assert (module.trial.calls, dict(module.trial.declined)) == (2, {"a cast of values that uint8 cannot hold": 1})


def test_a_large_array(img):
    module, original = fuse(SOURCE, lambda module: module.f(img, 1.5)), plain(SOURCE)
    large = np.random.default_rng(1).integers(0, 256, (1500, 2000, 3), np.uint8)
    assert same(original.f(large, 1.5), module.f(large, 1.5))
    assert module.trial.calls == 1


def test_the_memory_of_a_tensor_can_be_resized_as_ever():
    torch = pytest.importorskip("torch")
    source = (
        "import numpy as np, torch\n"
        "def f(x): return torch.from_numpy(x.astype(np.float32) / 255.0).permute(2, 0, 1).contiguous()\n"
    )
    image = np.zeros((40, 40, 3), np.uint8)
    fused = fuse(source, lambda module: module.f(image))
    for _ in range(3):
        result = fused.f(image)
        assert type(result) is torch.Tensor
        assert result.untyped_storage().resizable()
    assert fused.trial.calls == 3


BETWEEN = """
import numpy as np
def f(img, p, q):
    x = img.astype(np.float32)
    n = max(p, q)
    return (x * n) + 1.0
"""


def test_a_failure_of_ours_about_what_runs_in_between_is_none_of_the_program(img, monkeypatch):
    def broken(*_: Any) -> bool:
        raise OSError("a library could not be loaded")

    module, original = fuse(BETWEEN, lambda module: module.f(img, 1.5, 2.0)), plain(BETWEEN)
    monkeypatch.setattr(type(module.chains[0]._effects), "harmless", broken)
    for n in range(4):
        assert same(original.f(img, 1.5, n), module.f(img, 1.5, n))
    assert module.trial.declined
    assert module.trial.active


def test_a_table_of_one_floating_point_mode_is_none_of_another(img):
    torch = pytest.importorskip("torch")
    module, original = fuse(SOURCE, lambda module: module.f(img, 1.5)), plain(SOURCE)
    if not torch.set_flush_denormal(False):
        pytest.skip("this processor does not flush")
    for p in (2.0**-140, 1.5, 2.0**-140):
        for flush in (False, True, False, True):
            torch.set_flush_denormal(flush)
            try:
                expected, found = original.f(img, p).tobytes(), module.f(img, p).tobytes()
            finally:
                torch.set_flush_denormal(False)
            assert expected == found
    assert not module.trial.declined["the floating-point mode of the processor was changed"]  # each mode has its own
