"""Every site of a real program replaced by a variant that calls the original: nobody can tell."""

from __future__ import annotations

import contextlib
import io
import random
import types
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numpy as np
import pytest

pytest.importorskip("cv2")
pytest.importorskip("torch")

import cv2
import torch

from codedag.backends.same import same
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.instrument.sites import CALL, SETITEM

PATH = "/generated/pipeline.py"
PIPELINE = '''
import random
from dataclasses import dataclass, field

import cv2
import numpy as np
import torch
from torch.utils.data import DataLoader, Dataset

MEAN, STD = np.array([0.485, 0.456, 0.406], np.float32), np.array([0.229, 0.224, 0.225], np.float32)
log = []


class Broken(Exception):
    """A picture that cannot be read."""


@dataclass
class Augment:
    strength: float = 0.2
    counts: dict = field(default_factory=dict)

    def __call__(self, image):
        if random.random() < 0.5:
            image = image[:, ::-1]
            self.counts["flip"] = self.counts.get("flip", 0) + 1
        gain = 1 + random.uniform(-self.strength, self.strength)
        image = np.clip(image.astype(np.float32) * gain + np.random.normal(0, 2), 0, 255)
        angle = random.randint(-10, 10)
        height, width = image.shape[:2]
        turn = cv2.getRotationMatrix2D((width / 2, height / 2), angle, 1.0)
        return cv2.warpAffine(np.ascontiguousarray(image), turn, (width, height), borderMode=cv2.BORDER_REFLECT)


class Base(Dataset):
    def __init__(self, count):
        self.count = count
        self.pictures = [self.draw(n) for n in range(count)]

    def draw(self, n):
        picture = np.full((48 + n, 64, 3), n, np.uint8)
        cv2.circle(picture, (20 + n, 20), 9, (255, 10 * n, 0), -1)
        picture[10:12, :, 1] += 7
        picture[0, 0] = [1, 2, 3]
        return picture

    def __len__(self):
        return self.count

    def __getitem__(self, index):
        return self.pictures[index]


class Pictures(Base):
    def __init__(self, count, augment=None, *, size=(32, 40)):
        super().__init__(count)
        self.augment, self.size = augment, size

    def __getitem__(self, index):
        if index == 5:
            raise Broken(f"picture {index}")
        image = super().__getitem__(index)
        image = cv2.cvtColor(image, cv2.COLOR_BGR2RGB)
        image = cv2.resize(image, dsize=self.size[::-1], interpolation=cv2.INTER_LINEAR)
        if self.augment is not None:
            image = self.augment(image)
        x = (image / 255.0 - MEAN) / STD
        x -= x.mean(axis=(0, 1), keepdims=True)
        return torch.from_numpy(np.ascontiguousarray(x.transpose(2, 0, 1))).float(), index


def batches(loader):
    for images, labels in loader:
        log.append((len(labels), [int(v) for v in labels]))
        yield images, labels


class Model(torch.nn.Module):
    def __init__(self):
        super().__init__()
        self.conv = torch.nn.Conv2d(3, 4, 3)

    def forward(self, x):
        return self.conv(x).relu().mean((2, 3)) @ torch.ones(4, 2)


def survive(data):
    found = {}
    for index in range(len(data)):
        try:
            found[index] = float(data[index][0].sum())
        except Broken as error:
            found[index] = str(error)
        finally:
            log.append(index)
    return found


def deep(n):
    return 0 if n == 0 else 1 + deep(n - 1)


def main(workers=0):
    augment = Augment()
    data = Pictures(5, augment)
    model = Model()
    optimiser = torch.optim.SGD(model.parameters(), lr=0.1)
    losses, total = [], 0
    for epoch in range(2):
        loader = DataLoader(data, batch_size=2, shuffle=True, num_workers=workers)
        for images, labels in batches(loader):
            loss = torch.nn.functional.cross_entropy(model(images), labels % 2)
            optimiser.zero_grad()
            loss.backward()
            optimiser.step()
            losses.append(loss.item())
            total += images.shape[0]
    squares = {k: v ** 2 for k, v in enumerate(losses) if v > 0}
    ordered = sorted(squares, key=lambda k: (-squares[k], k))
    print("losses", [round(v, 6) for v in losses], *ordered, sep="|")
    weights = [p.detach().clone() for p in model.parameters()]
    return losses, total, augment.counts, survive(Pictures(7)), ordered, deep(150), weights
'''


def loopback(site: Any, seen: Counter[int]) -> Callable[..., Any]:
    """A variant that does what the program wrote."""
    function = site.function

    def call(called: Any, /, *args: Any, **keywords: Any) -> Any:
        seen[site.info.index] += 1
        return called(*args, **keywords)

    def store(value: Any, target: Any, index: Any) -> None:
        seen[site.info.index] += 1
        function(target, index, value)

    def operate(*operands: Any) -> Any:
        seen[site.info.index] += 1
        return function(*operands) if function is not None else operands[0]

    return call if site.kind == CALL else store if site.kind == SETITEM else operate


def looped(source: str) -> tuple[types.ModuleType, Program, Counter[int]]:
    """The module with a loopback variant at every site, before its first line runs."""
    program, seen = Program([Path("/generated")]), Counter()
    module = types.ModuleType("pipeline")
    code = program.load(PATH, source.encode())
    file = program.files[PATH]
    for owner in file.owners():
        indexes = [site.info.index for site in file.sites_of(owner)]
        program.plan(PATH, owner, {index: loopback(file.sites[index], seen) for index in indexes})
    exec(code, vars(module))
    return module, program, seen


def plain(source: str) -> types.ModuleType:
    module = types.ModuleType("pipeline")
    exec(compile(source, PATH, "exec", dont_inherit=True), vars(module))
    return module


def observed(module: types.ModuleType, function: str, *args: Any) -> list[Any]:
    """Result or exception, output, log, and the random streams afterwards."""
    random.seed(1), np.random.seed(2), torch.manual_seed(3), cv2.setRNGSeed(4)
    module.log.clear()
    output = io.StringIO()
    with contextlib.redirect_stdout(output):
        try:
            result = getattr(module, function)(*args)
        except Exception as error:  # noqa: BLE001 - the other run must raise the same
            result = [type(error).__name__, str(error)]
    streams = [random.getstate(), np.random.get_state()[1], torch.get_rng_state()]
    return [result, output.getvalue(), list(module.log), streams]


@pytest.fixture(params=["c", "twin"])
def implementation(request: pytest.FixtureRequest):
    """Both kinds of sites."""
    from codedag.instrument import _twin

    before = site_module.native
    if request.param == "twin":
        site_module.use(_twin)
    yield request.param
    site_module.use(before)


def test_the_whole_flow(implementation):
    module, program, seen = looped(PIPELINE)
    expected = observed(plain(PIPELINE), "main")
    assert isinstance(expected[0], tuple), expected[0]
    verdict = same(expected, observed(module, "main"))
    assert verdict, verdict.reason
    assert len(seen) > 0.9 * len(program.files[PATH].sites), "most sites never ran"
    assert program.restore() > 0
    verdict = same(expected, observed(module, "main"))
    assert verdict, verdict.reason


@pytest.mark.parametrize("arguments", [("draw",), (None,), (0, 1)])
def test_exceptions_are_the_same(implementation, arguments):
    module, _, _ = looped(PIPELINE)
    verdict = same(observed(plain(PIPELINE), "deep", *arguments), observed(module, "deep", *arguments))
    assert verdict, verdict.reason


def test_a_forked_worker_keeps_the_variants(implementation):
    module, _, _ = looped(PIPELINE)
    expected, got = (observed(one, "main", 1)[:2] for one in (plain(PIPELINE), module))
    verdict = same(expected, got)
    assert verdict, verdict.reason
