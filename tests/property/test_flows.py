"""Random programs on arrays of floats and int16: run as written and as one walk, they cannot be told apart."""

from __future__ import annotations

import contextlib
import io
import random
import warnings
from typing import Any

import numpy as np
import pytest

pytest.importorskip("torch")

from chain_programs import program
from chain_runs import FlowKernel, copied, differences, fused_module, observed, plain_module

from codedag.ir.verdict import No
from codedag.migrate.fuse.chain import UNSURE
from codedag.tune.compiler import find_compiler
from codedag.tune.flow import flow_kernel
from codedag.tune.flow_source import NONE, SCALAR, FlowSpec, FlowStep
from codedag.tune.prove_flow import Prover


def arguments(seed: int, image: Any, a: Any, b: Any) -> list[Any]:
    mean = np.array([0.485, 0.456, 0.406], np.float32 if seed % 2 else np.float64)
    return [image, a, b, mean, np.array([0.229, 0.224, 0.225]), np.array([[[1.0, 2.0, 3.0]]], np.float32)]


def call(module: Any, *values: Any) -> Any:
    return module.Net().f(*values)


def pictures(seed: int) -> list[Any]:
    """Inputs, ordinary ones first: layouts, hard values, what a chain must decline."""
    rng = np.random.default_rng(seed)
    dtype = (np.float32, np.float32, np.float64, np.int16)[seed % 4]

    def picture(*shape: int) -> Any:
        return rng.uniform(-1, 2, shape).astype(dtype) if dtype != np.int16 else rng.integers(-9999, 9999, shape, dtype)

    hard = picture(80, 90, 3)
    if dtype != np.int16:
        some = rng.random(hard.shape) < 0.01
        hard[some] = rng.choice([0.0, -0.0, np.inf, -np.inf, np.nan, 1e-42, 3e38, 1.0, 255.0], int(some.sum()))
    zeros = np.zeros((80, 90, 3), dtype) * (-1 if dtype != np.int16 else 1)
    plain = [picture(80, 90, 3), picture(96, 70, 3), picture(80, 90, 3)[:, ::-1], picture(90, 120, 3)[5:85, 7:97],
             np.asfortranarray(picture(80, 90, 3)), picture(3, 80, 90).transpose(1, 2, 0),
             picture(80, 90, 3)[..., ::-1]]  # fmt: skip
    odd = [hard, zeros, picture(150, 150), picture(3, 90, 80), picture(1, 9000, 3), picture(30000), picture(8, 8, 3),
           picture(80, 90, 3).astype(">f4"), picture(80, 90, 3).astype(np.float16), None, 3.5]  # fmt: skip
    return [*plain, *odd]


def check(seed: int, flows: Any = FlowKernel) -> int:
    """Runs one program on many inputs both ways; the number of calls that were fused."""
    chance, source, inputs = random.Random(seed), program(seed), pictures(seed)

    def warm(module: Any) -> None:
        with warnings.catch_warnings(), contextlib.redirect_stdout(io.StringIO()):
            warnings.simplefilter("ignore")
            for _ in range(3):
                with contextlib.suppress(Exception):
                    call(module, *arguments(seed, copied(inputs[0]), 1.1, 0.2))

    fused, plain = fused_module(source, warm, flows=flows), plain_module(source)
    fused.module.seen.clear()
    for image in inputs[:5] + chance.sample(inputs, 7) if fused.chains else ():
        a, b = chance.choice([(1.1, 0.2), (1.1, 0.2), (0.7, -0.0), (2, 3), (np.float32(0.5), 1)])
        expected = observed(plain, call, arguments(seed, copied(image), a, b))
        got = observed(fused.module, call, arguments(seed, copied(image), a, b))
        different = differences(expected, got)
        assert not different, (
            f"seed {seed}, {type(image).__name__} {getattr(image, 'shape', '')}: {different}\n{source}"
        )
    expected_ends = ("not sure", "a tensor of torch")
    assert all(any(one in reason for one in expected_ends) for reason in fused.reasons()), (
        f"seed {seed}: {fused.reasons()}\n{source}"
    )
    return fused.calls()


@pytest.mark.slow
def test_random_programs(seed: int) -> None:
    fused = sum(check(number) for number in range(seed * 1_000_003, seed * 1_000_003 + 150))
    assert fused > 300  # else the programs have drifted away from what is fused


def test_warnings_keep_their_order() -> None:
    """A mean that runs between two steps warned before the first of them, which was only written down."""
    check(3211609634940)


STANDARD = """
import numpy as np
seen = []
class Net:
    def f(self, image, *rest):
        x = (image - image.mean()) / (image.std() + 1e-6)
        return x.astype(np.float32)
"""
BY_COLUMN = """
import numpy as np
seen = []
class Net:
    def f(self, image, *rest):
        n = len(image)
        x = image * 1.5 + n
        x = (x - np.mean(image, axis=0, keepdims=True)) / (np.std(image, axis=0, keepdims=True) + 1e-6)
        return x
"""


@pytest.mark.parametrize("source", [STANDARD, BY_COLUMN])
def test_what_is_asked_of_the_array_between_steps_does_not_end_the_chain(source: str) -> None:
    rng = np.random.default_rng(1)
    image = rng.uniform(-1, 2, (80, 90, 3)).astype(np.float32)
    fused, plain = fused_module(source, lambda module: [call(module, image) for _ in range(3)]), plain_module(source)
    assert fused.chains
    before = fused.calls()
    hard = image.copy()
    hard[3, 4:9] = [[np.inf, -np.inf, 3e38], [np.nan, 0.0, -0.0], [3e38, 3e38, 3e38], [1e-42, 1, 2], [1, 2, 3]]
    for each in (image, image[::-1], hard, image[:0], image.astype(np.float64)):
        different = differences(observed(plain, call, [each.copy()]), observed(fused.module, call, [each.copy()]))
        assert not different, different
    assert fused.calls() - before >= 3


needs_compiler = pytest.mark.skipif(isinstance(find_compiler(), No), reason="no C compiler")


@needs_compiler
def test_programs_with_compiled_kernels(seed: int) -> None:
    assert sum(check(seed * 1_000_003 + number, flow_kernel) for number in range(8)) > 0


def random_spec(rng: random.Random) -> FlowSpec:
    floats, steps = ("f4", "f4", "f8"), []
    dtype = source = rng.choice(("f4", "f4", "f8", "i2", "u1", "i4"))
    for _ in range(rng.randint(1, 6)):
        op = rng.choice(("add", "sub", "mul", "div", "clip", "min", "max", "neg", "abs", "sqrt", "square", "cast"))
        own = rng.choice(floats) if dtype not in floats or rng.random() < 0.3 else dtype
        parameter = [rng.choice((SCALAR, SCALAR, "f4", "f8", "u1")) for _ in range(2)]
        count = {"clip": 2, "neg": 0, "abs": 0, "sqrt": 0, "square": 0, "cast": 0}.get(op, 1)
        if op == "clip" and rng.random() < 0.3:
            parameter[rng.randrange(2)] = NONE
        if op == "cast" and dtype in floats:
            own = rng.choice(("f4", "f8", "u1", "i2"))
        swapped = op in ("add", "sub", "mul", "div") and rng.random() < 0.3
        steps.append(FlowStep(op, own, tuple(parameter[:count]), swapped))
        dtype = own
    return FlowSpec(source, tuple(steps))


@pytest.mark.slow
@needs_compiler
def test_random_kernels(seed: int) -> None:
    rng, sure = random.Random(seed), 0
    for _ in range(6):
        spec = random_spec(rng)
        kernel = flow_kernel(spec)  # proven in another process
        assert not isinstance(kernel, No), f"{spec}: {kernel}"
        prover = Prover(kernel, seed + 1)
        prover.run(200)
        sure += prover.sure
    assert sure > 100


@needs_compiler
def test_a_kernel_says_where_numpy_would_warn() -> None:
    kernel = flow_kernel(FlowSpec("f4", (FlowStep("div", "f4", (SCALAR,), True), FlowStep("mul", "f4", (SCALAR,)))))
    assert not isinstance(kernel, No)
    values, out = np.full(5000, 2, np.float32), np.empty(5000, np.float32)

    def said(value: float, scalar: float = 1.0) -> bool:
        values[4321] = value
        return kernel.apply([(values, values.strides, 0)], [scalar, 3.0], out) is not None

    assert not said(2.0)
    assert said(0.0)  # a division by zero
    assert said(float("nan"))
    assert said(1e-38, 1e38)  # an overflow
    assert not said(-4.0)


def test_a_chain_that_is_never_sure_ends() -> None:
    source = "import numpy as np\n\ndef f(x):\n    return np.clip((x - 0.5) / 0.25, 0, 1)\n"
    array = np.full((100, 200), 0.75, np.float32)
    fused = fused_module(source, lambda module: [module.f(array) for _ in range(2)])
    (chain,) = fused.chains
    ended: list[str] = []
    chain.trial.stop = lambda reason: ended.append(reason)  # type: ignore[method-assign]
    array[0, 0] = np.nan
    for _ in range(UNSURE):
        assert np.isnan(fused.module.f(array)[0, 0])
    assert ended == [f"its result was not sure in {UNSURE} calls (a NaN)"]
