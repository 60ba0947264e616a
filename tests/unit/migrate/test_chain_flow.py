"""Control flow through a chain: exceptions, recursion, threads, switches half-way, and who may see what."""

from __future__ import annotations

import gc
import threading
import weakref
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from fusing import PATH, Kernel, apply_chains, fuse, plain

from codedag.backends.same import same
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.ir.verdict import No
from codedag.migrate.placeholder import Placeholder
from codedag.migrate.trial import Trial
from codedag.trace.recorder import Recorder

CHAIN = """
import numpy as np
def between(value): return hook(value)
def hook(value): return value
def f(img, a, b):
    x = img.astype(np.float32) * a
    x = x + between(b)
    return np.clip(x, 0, 255)
"""
TIGHT = """
import numpy as np
def f(img, a, b):
    x = img.astype(np.float32) * a
    x = (x + b) / 255.0
    return np.ascontiguousarray(x.transpose(2, 0, 1))
"""


@pytest.fixture
def img() -> Any:
    values = np.random.default_rng(0).integers(0, 256, (40, 50, 3), np.uint8)
    values.reshape(-1)[:256] = np.arange(256)
    return values


def fused(source: str, img: Any, **settings: Any) -> Any:
    made = fuse(source, lambda module: module.f(img.copy(), 1.5, 2.0), **settings)
    assert len(made.chains) == 1
    return made


def test_a_chain_is_fused_and_equal(img):
    module = fused(TIGHT, img)
    assert same(plain(TIGHT).f(img, 0.7, 3.0), module.f(img, 0.7, 3.0))
    assert (module.trial.calls, dict(module.trial.declined)) == (1, {})


def test_an_exception_between_two_operations_leaves_nothing_behind(img):
    module = fused(CHAIN, img)

    def fail(value):
        raise LookupError("in between")

    module.module.hook = fail
    source = img.copy()
    gone = weakref.ref(source)
    with pytest.raises(LookupError, match="in between"):
        module.f(source, 1.5, 2.0)
    del source
    assert gone() is None, "the input of a call that raised is still held"
    module.module.hook = lambda value: value
    assert same(plain(CHAIN).f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))


def test_nothing_is_held_after_a_call_and_no_cycle_is_made(img):
    module = fused(TIGHT, img)
    gc.collect()
    gc.disable()
    try:
        source = img.copy()
        gone = weakref.ref(source)
        module.f(source, 1.5, 2.0)
        del source
        assert gone() is None
    finally:
        gc.enable()


def test_recursion_through_a_leaf(img):
    module, original = fused(CHAIN, img), plain(CHAIN)

    def again(space):
        depth = iter(range(3))

        def hook(value):
            if next(depth, None) is None:
                return value
            return float(space.f(img[::-1], value * 0.5, value).mean())

        return hook

    original.hook = again(original)
    module.module.hook = again(module.module)
    assert same(original.f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))


@pytest.mark.parametrize(
    "what", ["img[0] = 9", "img += 1", "np.add(img, 1, out=img)", "np.negative(img, img)", "wreck(img)"]
)
def test_a_leaf_that_changes_the_source_sees_the_first_steps_done(img, what):
    source = f"""
import numpy as np
def wreck(array): array[...] = 3
def f(img, a, b):
    x = img.astype(np.float32) * a
    {what}
    x = x + b
    return np.clip(x, 0, 255)
"""
    module = fused(source, img)
    left, right = img.copy(), img.copy()
    assert same(plain(source).f(left, 1.5, 2.0), module.f(right, 1.5, 2.0))
    assert same(left, right)
    assert module.trial.calls == 0


@pytest.mark.parametrize("what", ["mean[0] = 9.0", "mean[:] += 1", "np.add(mean, 1, mean)", "mean.fill(2)"])
def test_a_leaf_that_changes_a_parameter(img, what):
    source = f"""
import numpy as np
mean = np.array([1.0, 2.0, 3.0], np.float32)
def f(img, a, b):
    x = img.astype(np.float32) - mean
    {what}
    return (x + mean) * b
"""
    module, original = fused(source, img), plain(source)
    module.module.mean[...] = original.mean[...] = [1.0, 2.0, 3.0]
    for _ in range(3):
        assert same(original.f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))


def test_a_result_is_the_programs_own(img):
    module, original = fused(TIGHT, img), plain(TIGHT)
    first = module.f(img, 1.5, 2.0)
    first[...] = -1.0
    source = img.copy()
    second = module.f(source, 1.5, 2.0)
    source[...] = 0
    assert same(original.f(img, 1.5, 2.0), second)
    assert not np.may_share_memory(first, second)


def test_threads_do_not_meet(img):
    module, original = fused(TIGHT, img), plain(TIGHT)
    pictures = [np.ascontiguousarray(img[::-1] if n % 2 else img) + np.uint8(n) for n in range(8)]
    expected = [original.f(p, 1.0 + n, 2.0) for n, p in enumerate(pictures)]
    wrong: list[str] = []

    def work(n: int) -> None:
        for _ in range(60):
            verdict = same(expected[n], module.f(pictures[n], 1.0 + n, 2.0))
            if not verdict:
                wrong.append(verdict.reason)

    threads = [threading.Thread(target=work, args=(n,)) for n in range(8)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not wrong


def test_interleaved_generators(img):
    source = """
import numpy as np
def f(img, a, b):
    return list(g(img, a, b))[0]
def g(img, a, b):
    for k in range(3):
        x = img.astype(np.float32) * a
        yield x / 255.0 + b * k
"""
    module, original = fused(source, img), plain(source)
    pairs = [(module.g(img, 1.0, 2.0), module.g(img, 3.0, 4.0)), (original.g(img, 1.0, 2.0), original.g(img, 3.0, 4.0))]
    got, expected = ([step for both in zip(*pair, strict=True) for step in both] for pair in pairs)
    assert same(expected, got)
    assert module.trial.calls == 6


def test_a_trial_that_stops_half_way(img):
    source = CHAIN.replace("between(b)", "max(b, probe['now'])").replace(
        "import numpy as np", "import numpy as np\nprobe = {'now': 0}", 1
    )
    module = fused(source, img)
    stopping = StopAt(module.trial)
    module.module.probe = stopping
    result = module.f(img, 1.5, 2.0)
    assert same(plain(source).f(img, 1.5, 2.0), result)
    assert stopping.asked == 1


class StopAt(dict):
    """A user's mapping whose look-up stops the trial."""

    def __init__(self, trial: Trial) -> None:
        self.trial, self.asked = trial, 0

    def __getitem__(self, key: str) -> int:
        self.asked += 1
        self.trial.stop("enough")
        return 0


def test_sites_switched_off_half_way(img):
    module = fused(CHAIN, img)
    module.module.hook = lambda value: (module.program.restore(), value)[1]
    assert same(plain(CHAIN).f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))


def test_a_kernel_that_fails_gives_the_originals_result_and_ends_the_change(img):
    class Broken(Kernel):
        def apply(self, *job: Any) -> None:
            raise RuntimeError("broken kernel")

    module = fused(TIGHT, img, kernels=lambda *job: Broken(), trial=Trial)
    for _ in range(3):
        assert same(plain(TIGHT).f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))
    assert not module.trial.active
    assert "broken kernel" in module.trial.reason


def test_no_kernel_yet_is_no_reason_to_end(img):
    module = fused(TIGHT, img, kernels=lambda *job: No("its kernel was still being built"), trial=Trial)
    for _ in range(300):
        module.f(img, 1.5, 2.0)
    assert module.trial.active
    assert module.trial.declined["its kernel was still being built"] == 300


def test_an_interrupt_goes_through(img):
    class Interrupted(Kernel):
        def apply(self, *job: Any) -> None:
            raise KeyboardInterrupt

    module = fused(TIGHT, img)
    chain = module.chains[0]
    chain._kernels = lambda *job: Interrupted()
    with pytest.raises(KeyboardInterrupt):
        module.f(img, 1.5, 2.0)
    chain._kernels = lambda *job: Kernel()
    assert same(plain(TIGHT).f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))


def test_a_wrong_kernel_is_found_and_the_originals_result_used(img):
    class Wrong(Kernel):
        def apply(self, view: Any, table: Any, rows: Any, out: Any) -> None:
            super().apply(view, table, rows, out)
            out.reshape(-1)[7] += 1

    module = fused(TIGHT, img, kernels=lambda *job: Wrong(), trial=Trial)
    assert same(plain(TIGHT).f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))
    assert (module.trial.mismatches, module.trial.active) == (1, False)


def test_a_chain_in_a_running_loop_of_the_main_module(img):
    source = """
import numpy as np
for step in range(6):
    x = img.astype(np.float32) * 1.5
    x = x / 255.0
    results.append(x)
    tick(step)
"""
    program = Program([Path("/generated")])
    recorder = Recorder(program.names)
    chains = []

    def tick(step: int) -> None:
        if step == 2:
            site_module.native.stop()
            chains.extend(apply_chains(program, recorder))

    space = {"img": img, "results": [], "tick": tick}
    code = program.load(PATH, source.encode(), main=True)
    site_module.native.start(recorder, program.names)
    exec(code, space)
    assert same([img.astype(np.float32) * 1.5 / 255.0] * 6, space["results"])
    assert [chain.trial.calls for chain in chains] == [3]


def test_another_function_at_a_traced_call(img):
    source = """
import numpy as np
def clip(x, low, high): return (x * 0 + low, type(x).__name__)
clipping = np.clip
def f(img, a, b):
    x = img.astype(np.float32) * a
    return clipping(x, 0, b)
"""
    module, original = fused(source, img), plain(source)
    module.module.clipping, original.clipping = module.clip, original.clip
    assert same(original.f(img, 1.5, 2.0), module.f(img, 1.5, 2.0))
    assert module.trial.calls == 0


def test_operands_that_change_places(img):
    source = "import numpy as np\ndef f(p, q, r):\n    return (p - q) * r\n"
    module, original = fuse(source, lambda module: module.f(img, 9, 0.5)), plain(source)
    for p, q in ((img, 9), (img, 9), (img, 9), (9, img), (img, 9), (9, img)):
        assert same(original.f(p, q, 0.5), module.f(p, q, 0.5))
    assert module.trial.calls == 6


def test_an_operation_that_raises_does_so_before_what_follows_it(img):
    source = """
import random, numpy as np
def f(img, a, b):
    x = img + a
    x = x * random.random()
    return x + b
"""
    import random

    module = fuse(source, lambda module: module.f(img, 1, 2.0))
    random.seed(1)
    before = random.getstate()
    for _ in range(3):
        with pytest.raises(OverflowError, match="300 out of bounds"):
            module.f(img, 300, 2.0)
        assert random.getstate() == before


def test_a_stand_in_that_gets_out_is_the_value_or_an_error(img):
    module = fused(CHAIN, img)
    chain = module.chains[0]
    placeholder = chain.variants()[chain.links[0].site.info.index](img.astype, np.float32)
    assert type(placeholder) is Placeholder
    real = img.astype(np.float32)
    assert same(real * 2, placeholder * 2)
    assert same(2 - real, 2 - placeholder)
    assert same(np.clip(real, 0, 9), np.clip(placeholder, 0, 9))
    assert same(np.add(real, 1), np.add(placeholder, 1))
    assert same(real.mean(), placeholder.mean())
    assert same(real.copy(), np.array(placeholder))
    assert (placeholder.shape, len(placeholder), repr(placeholder)) == (real.shape, len(real), repr(real))
    with pytest.raises(AttributeError, match=r"'numpy.ndarray' object has no attribute"):
        placeholder.permute
