"""Random programs with chains: run as written and fused, they cannot be told apart."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

import torch
from chain_programs import images, program
from chain_runs import copied, differences, fused_module, observed, plain_module


@pytest.fixture(scope="module", autouse=True)
def one_torch_thread():
    before = torch.get_num_threads()
    torch.set_num_threads(1)
    yield
    torch.set_num_threads(before)


@pytest.fixture(scope="module", autouse=True)
def kernels_once(tmp_path_factory: pytest.TempPathFactory):
    """Kernels are proven once for this file, not once per test."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("CODEDAG_HOME", str(tmp_path_factory.mktemp("kernels")))
        yield


@pytest.fixture(autouse=True)
def codedag_home() -> None:
    """Instead of a home per test: the one above."""


def arguments(seed: int, image: Any, a: Any, b: Any) -> list[Any]:
    mean = np.array([0.485, 0.456, 0.406], np.float32 if seed % 2 else np.float64)
    return [image, a, b, mean, np.array([0.229, 0.224, 0.225]), np.array([[[1.0, 2.0, 3.0]]], np.float32)]


def call(module: Any, *values: Any) -> Any:
    return module.Net().f(*values)


def check(seed: int) -> int:
    """Runs one program on many inputs both ways; the number of calls that were fused."""
    tensor, chance = seed % 4 == 3, random.Random(seed)
    source, pictures = program(seed, tensor), images(np.random.default_rng(seed), tensor)

    def warm(module: Any) -> None:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            for _ in range(3):
                with contextlib.suppress(Exception):
                    call(module, *arguments(seed, copied(pictures[0]), 1.1, 0.2))

    fused, plain = fused_module(source, warm), plain_module(source)
    fused.module.seen.clear()
    for image in pictures[:6] + chance.sample(pictures, 8) if fused.chains else ():
        a, b = chance.choice([(1.1, 0.2), (1.1, 0.2), (0.7, -0.0), (2, 3), (np.float32(0.5), 1)])
        expected = observed(plain, call, arguments(seed, copied(image), a, b))
        got = observed(fused.module, call, arguments(seed, copied(image), a, b))
        different = differences(expected, got)
        assert not different, (
            f"seed {seed}, {type(image).__name__} {getattr(image, 'shape', '')}: {different}\n{source}"
        )
    assert not fused.reasons(), f"seed {seed}: {fused.reasons()}\n{source}"
    return fused.calls()


@pytest.mark.slow
def test_random_programs(seed: int) -> None:
    fused = sum(check(number) for number in range(seed * 1_000_003, seed * 1_000_003 + 150))
    assert fused > 300  # else the programs have drifted away from what is fused


@pytest.mark.long
@pytest.mark.parametrize("part", range(10))
def test_many_random_programs(seed: int, part: int) -> None:
    first = (seed * 10 + part) * 2_000_003 + 500_000_000
    assert sum(check(number) for number in range(first, first + 300)) > 600
