"""Items of datasets, kept and as written: the same in every pass, whatever happens between two of them."""

from __future__ import annotations

import importlib.util
import os
import random
import sys
import warnings
import weakref
from pathlib import Path

import item_programs
import numpy
import pytest
import torch

from codedag.backends.same import same
from codedag.instrument.sites import GETITEM, SiteInfo
from codedag.migrate.memo.checked_memo import TOO_SHORT
from codedag.migrate.memo.function_memo import FunctionMemo
from codedag.migrate.memo.items import ItemMemo
from codedag.migrate.memo.store import Memory
from codedag.migrate.trial import Trial

PASSES, BY = 5, 1


class Site:
    """As much of a site as a variant asks for."""

    info = SiteInfo(0, GETITEM, "fetch", __file__, 1, 0, 1, 0, "")


@pytest.fixture(autouse=True)
def settings():
    """Puts back what a program sets for the whole process."""
    before, errors, where = torch.get_default_dtype(), numpy.geterr(), Path.cwd()
    stack = numpy.stack
    with warnings.catch_warnings():
        yield
    torch.set_default_dtype(before)
    torch.set_grad_enabled(True)
    torch.set_flush_denormal(False)
    numpy.seterr(**errors)
    numpy.stack = stack
    os.chdir(where)


def played(source, folder, name, memo=None):
    """What every item of every pass is, or how it fails; and what the random streams are at the end."""
    (folder / "files").mkdir(parents=True)
    module, data = _made(source, folder, name)
    take = (lambda data, i: data[i]) if memo is None else taken_by(memo)
    random.seed(1), numpy.random.seed(1), torch.manual_seed(1)
    found = []
    for number in range(PASSES):
        for index in range(len(data)):
            try:
                item = take(data, index)
                found.append(_kept(item))
            except (ArithmeticError, OSError, RuntimeError, ValueError, Warning) as error:
                found.append((type(error), str(error).replace(str(folder), "")))
                continue
            getattr(module, "used", lambda item: None)(item)
        module.between(data, number)
        found.append((random.random(), numpy.random.rand(), torch.rand(1).item()))
    return found


def taken_by(memo):
    """How an item is taken: by the variant of a subscript, or of a call of the method behind it."""
    variant = memo.variant(Site)
    return variant if isinstance(memo, ItemMemo) else lambda data, i: variant(data.__getitem__, i)


def _made(source, folder, name):
    path = folder / f"{name}.py"
    path.write_text(item_programs.HEAD + source)
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module, module.made(str(folder / "files"))


def _kept(item):
    """A copy of an item: the program may write into it."""
    if isinstance(item, torch.Tensor):
        return item.clone()
    if isinstance(item, numpy.ndarray):
        return item.copy()
    if isinstance(item, (tuple, list)):
        return type(item)(map(_kept, item))
    if isinstance(item, dict):
        return {key: _kept(value) for key, value in item.items()}
    return _kept(item.x) if hasattr(item, "x") else item


def memo_of(**settings):
    return ItemMemo(Trial("items", ignores_speed=True, first=2, every=20), Memory(1 << 28), **settings)


def calls_of(**settings):
    return FunctionMemo(Trial("calls", ignores_speed=True, first=2, every=20), Memory(1 << 28), **settings)


def both(source, tmp_path, monkeypatch, memo):
    monkeypatch.setattr("codedag.migrate.memo.checked_memo.SETTLED_NS", 0)
    monkeypatch.setattr("codedag.migrate.memo.checked_memo.FILL_SECONDS", 60.0)
    monkeypatch.setattr("codedag.migrate.memo.function_memo.OBJECT_CALLS_MIN", 0)
    plain = played(source, tmp_path / "plain", "item_program")
    settings_before()
    again = played(source, tmp_path / "kept", "item_program", memo)
    assert len(plain) == len(again)
    for number, (one, other) in enumerate(zip(plain, again, strict=True)):
        assert same(one, other), f"item {number}: {same(one, other)}"


def settings_before():
    """Sets what the first of two programs may have changed."""
    torch.set_default_dtype(torch.float32)
    torch.set_grad_enabled(True)
    torch.set_flush_denormal(False)
    numpy.seterr(over="warn")
    warnings.resetwarnings()


@pytest.mark.parametrize("name", item_programs.PROGRAMS)
def test_items_are_those_of_the_dataset_as_written(tmp_path, monkeypatch, name):
    memo = memo_of()
    both(item_programs.PROGRAMS[name], tmp_path, monkeypatch, memo)
    assert not memo.trial.mismatches  # which would be found in some calls only


@pytest.mark.slow
@pytest.mark.parametrize("name", item_programs.PROGRAMS)
def test_items_that_are_kept_at_once_are_those_of_the_dataset_as_written(tmp_path, monkeypatch, name):
    memo = memo_of(expects_repeats=lambda: True)
    both(item_programs.PROGRAMS[name], tmp_path, monkeypatch, memo)
    assert not memo.trial.mismatches


@pytest.mark.parametrize("name", item_programs.PROGRAMS)
def test_calls_of_a_method_are_those_of_the_method_as_written(tmp_path, monkeypatch, name):
    both(item_programs.PROGRAMS[name], tmp_path, monkeypatch, calls_of(expects_repeats=lambda: True))


@pytest.mark.parametrize("name", item_programs.KEPT)
def test_what_calls_without_draws_give_is_kept(tmp_path, monkeypatch, name):
    memo = calls_of()
    both(item_programs.KEPT[name], tmp_path, monkeypatch, memo)
    assert memo.trial.calls == (PASSES - 2) * 12, memo.reasons


@pytest.mark.parametrize("name", item_programs.REFUSED)
def test_calls_with_effects_are_not_kept(tmp_path, monkeypatch, name):
    memo = calls_of()
    both(item_programs.REFUSED[name][1], tmp_path, monkeypatch, memo)
    assert memo.trial.calls == 0
    assert not memo.trial.active, "three refusals, and it is not tried again"


class Sample:
    """An object with a slot that its method reads."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number):
        self.number = number

    def squares(self, count):
        return numpy.arange(count) * self.number

    def counted(self, count):
        self.number += count
        return numpy.arange(count)


class Scaled:
    """A class method that other classes share."""

    factor = 2

    @classmethod
    def row(cls, count):
        return numpy.arange(count) * cls.factor


class Tripled(Scaled):
    factor = 3


def test_a_class_method_is_kept_for_each_class():
    take = calls_of(expects_repeats=lambda: True).variant(Site)
    for _ in range(6):
        for kind in (Scaled, Tripled):
            assert same(kind.row(5), take(kind.row, 5))


class Counting(type(Path())):
    """A path that holds more than its text."""

    count = 0


def lines(path):
    return numpy.arange(3) + path.count


def test_paths_of_the_program_s_own_kind_are_no_keys():
    take = calls_of(expects_repeats=lambda: True).variant(Site)
    for number in range(6):
        path = Counting("x")
        path.count = number
        assert same(lines(path), take(lines, path))


@pytest.mark.parametrize("method", ["squares", "counted"])
@pytest.mark.parametrize("calls", [4, 40])
def test_objects_live_as_long_as_the_program_holds_them(method, calls):
    memo = calls_of(expects_repeats=lambda: True)
    take, alive = memo.variant(Site), []
    for number in range(5):
        sample, expected = Sample(number), Sample(number)
        alive.append(weakref.ref(sample))
        for count in range(calls):
            given = take(getattr(sample, method), count % 7)
            assert same(getattr(expected, method)(count % 7), given)
        del sample
    assert [each() for each in alive] == [None] * 5
    assert memo.memory.nbytes == 0


def multiplied(number):
    return number * BY


def test_a_call_in_a_comprehension_heeds_what_the_program_did_since_the_last_one(monkeypatch):
    take = calls_of(expects_repeats=lambda: True).variant(Site)
    monkeypatch.setitem(globals(), "BY", 1)
    for _ in range(3):
        assert [take(multiplied, number) for number in range(4)] == [0, 1, 2, 3]
    found = [(take(multiplied, number), globals().update(BY=number + 10))[0] for number in range(4)]
    assert found == [0, 10, 22, 36]


class Slotted:
    """An object without a dictionary."""

    __slots__ = ("__weakref__", "number")

    def __init__(self, number):
        self.number = number

    def doubled(self):
        return self.number * 2


class Usual(Slotted):
    """An object with one."""


@pytest.mark.parametrize("kind", [Slotted, Usual])
def test_an_object_whose_method_is_kept_goes_with_the_program_s_last_reference(kind, monkeypatch):
    monkeypatch.setattr("codedag.migrate.memo.function_memo.OBJECT_CALLS_MIN", 0)
    memo = calls_of(expects_repeats=lambda: True)
    take, held = memo.variant(Site), kind(3)
    assert [take(held.doubled) for _ in range(4)] == [6] * 4
    assert memo.trial.calls == 3
    seen = weakref.ref(held)
    del held
    assert seen() is None


@pytest.mark.parametrize("name", item_programs.KEPT)
def test_items_without_draws_are_kept(tmp_path, monkeypatch, name):
    memo = memo_of()
    both(item_programs.KEPT[name], tmp_path, monkeypatch, memo)
    assert memo.trial.calls == (PASSES - 2) * 12, memo.reasons
    assert not memo.trial.mismatches
    assert not memo.reasons


@pytest.mark.parametrize("name", item_programs.REFUSED)
def test_items_with_effects_are_not_kept_and_the_reason_says_where(tmp_path, monkeypatch, name):
    word, source = item_programs.REFUSED[name]
    memo = memo_of()
    both(source, tmp_path, monkeypatch, memo)
    assert memo.trial.calls == 0
    assert all(word in reason for reason in memo.reasons), memo.reasons
    assert memo.reasons


def test_nothing_is_kept_beyond_the_budget(tmp_path, monkeypatch):
    memo = ItemMemo(Trial("items", ignores_speed=True), Memory(2000))
    both(item_programs.KEPT["a row of a table"], tmp_path, monkeypatch, memo)
    assert 0 < memo.trial.calls < 12


def test_what_is_kept_of_a_dataset_goes_with_it(tmp_path, monkeypatch):
    memo = memo_of()
    both(item_programs.KEPT["a row of a table"], tmp_path, monkeypatch, memo)
    sys.modules.pop("item_program")
    assert memo.memory.nbytes == 0


def test_items_that_read_only_their_own_elements_are_kept_without_being_followed(tmp_path, monkeypatch):
    memo, followed = memo_of(), []
    run = memo._checker.run
    monkeypatch.setattr(memo._checker, "run", lambda *args: followed.append(args[2]) or run(*args))
    both(item_programs.KEPT["a row of a table"], tmp_path, monkeypatch, memo)
    assert len(followed) == 5
    assert memo.trial.calls == (PASSES - 2) * 12


@pytest.mark.parametrize("name", [name for name, source in item_programs.MIXED.items() if "random.random" in source])
def test_an_item_that_draws_is_refused_among_others_that_do_not(tmp_path, monkeypatch, name):
    memo = memo_of()
    both(item_programs.MIXED[name], tmp_path, monkeypatch, memo)
    assert set(memo.reasons.values()) <= {1, 3}
    assert all("draws random numbers" in reason for reason in memo.reasons)


@pytest.mark.parametrize(("least_seconds", "is_kept"), [(1e-9, True), (100.0, False)])
def test_items_that_take_less_time_than_keeping_them_are_left_alone(least_seconds, is_kept):
    class Squares(torch.utils.data.Dataset):
        def __getitem__(self, index):
            return torch.full((4,), float(index))

    memo = ItemMemo(Trial("items"), Memory(1_000_000), expects_repeats=lambda: True, least_seconds=least_seconds)
    data, take = Squares(), memo.variant(Site)
    for _ in range(3):
        assert [take(data, index)[0].item() for index in range(20)] == list(range(20))
    assert bool(next(iter(memo._holders.values()))[1].entries) is is_kept
    assert (TOO_SHORT in memo.reasons) is not is_kept
