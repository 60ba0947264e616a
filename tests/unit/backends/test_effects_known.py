"""The answers about calls: what is known, what is declined with a reason, and that no code of the user's runs."""

import builtins
import collections
import datetime
import functools
import io
import os
import pathlib
import random
import time
from typing import Any

import numpy as np
import pytest

from codedag.backends import known_table
from codedag.backends.known import USER, Effect, Known, known_call, known_operator
from codedag.ir.verdict import No

PICTURE = np.zeros((6, 5, 3), np.uint8)


class Mine:
    """Raises whenever anybody asks it anything."""

    def __getattribute__(self, name):
        raise AssertionError(f"asked for {name}")

    def __hash__(self):
        raise AssertionError("asked for its hash")

    def __eq__(self, other):
        raise AssertionError("compared")

    def __iter__(self):
        raise AssertionError("iterated")

    def __len__(self):
        raise AssertionError("measured")

    def __call__(self):
        raise AssertionError("called")


class Meta(type):
    def __getattribute__(cls, name):
        raise AssertionError(f"the class was asked for {name}")


def mine(value):
    return value


def ask(function, *args, **keywords):
    return known_call(function, args, keywords)


@pytest.mark.parametrize(
    ("function", "args"),
    [(len, ([1],)), (np.add, (PICTURE, 1)), (np.stack, ([PICTURE],)), (PICTURE.mean, ()), (os.path.join, ("a", "b")),
     ("a b".split, ()), (str.lower, ("A",)), (sorted, ([2, 1],)), (np.float32, (1,)), (np.add.reduce, (PICTURE,))],
)  # fmt: skip
def test_pure_and_fresh(function, args):
    answer = known_call(function, args, {})
    assert isinstance(answer, Known)
    assert answer.effect is Effect.PURE
    assert answer.fresh
    assert not answer.writes


@pytest.mark.parametrize(
    ("function", "args", "keywords", "written"),
    [(np.add, (PICTURE, 1, PICTURE), {}, (2,)), (np.add, (PICTURE, 1), {"out": PICTURE}, ("out",)),
     (np.stack, ([PICTURE], 0, PICTURE), {}, (2,)), (PICTURE.mean, (0, None, PICTURE), {}, (2,)),
     (PICTURE.sort, (), {}, ("self",)), ([].append, (1,), {}, ("self",)), (list.append, ([], 1), {}, (0,)),
     (np.copyto, (PICTURE, 1), {}, (0,)), (np.add.at, (PICTURE, 0, 1), {}, (0,)),
     (np.add.reduce, (PICTURE, 0, None, PICTURE), {}, (3,))],
)  # fmt: skip
def test_written_arguments_are_named(function, args, keywords, written):
    answer = known_call(function, args, keywords)
    assert isinstance(answer, Known)
    assert answer.effect is Effect.WRITES
    assert answer.writes == written


def test_draws_name_the_generator_that_they_advance():
    own, numbers = random.Random(1), np.random.default_rng(1)
    for function, generator in (
        (random.random, random._inst), (random.uniform, random._inst), (own.gauss, own),
        (np.random.rand, np.random.mtrand._rand), (np.random.uniform, np.random.mtrand._rand),
        (numbers.integers, numbers),
    ):  # fmt: skip
        answer = ask(function, 1, 2)
        assert isinstance(answer, Known)
        assert answer.effect is Effect.DRAWS
        assert answer.generator(function) is generator
        assert not answer.deterministic


def test_shuffle_draws_and_writes():
    answer = ask(random.shuffle, [1, 2])
    assert answer.effect is Effect.DRAWS
    assert answer.writes == (0,)


def test_a_generator_without_seed_is_declined():
    assert isinstance(ask(np.random.default_rng), No)
    assert isinstance(ask(np.random.default_rng, 3), Known)
    assert isinstance(ask(np.random.seed, 3), No)
    assert isinstance(ask(random.seed, 3), No)


def test_a_subclass_of_a_generator_is_not_known():
    class Loaded(random.Random):
        def random(self):
            return 0.5

    assert not isinstance(ask(Loaded().uniform, 0, 1), Known)


@pytest.mark.parametrize("mode", ["w", "a", "r+", "wb", "x"])
def test_files_are_only_read(mode):
    assert "mode" in ask(open, "f", mode).reason
    assert "mode" in ask(open, "f", mode=mode).reason
    assert "mode" in ask(pathlib.Path("f").open, mode).reason


def test_reading_names_the_file():
    assert ask(open, "f", "rb").files == (0, "file")
    assert ask(pathlib.Path("f").read_bytes).files == ("self",)
    assert ask(os.listdir, "f").effect is Effect.READS
    assert isinstance(ask(open, "/dev/urandom", "rb"), No)
    assert isinstance(ask(open, 3), No)


def test_what_reads_the_process_is_not_deterministic():
    for function in (time.time, os.getcwd, time.perf_counter):
        assert ask(function).effect is Effect.CLOCK
        assert not ask(function).deterministic
    assert ask(os.getenv, "HOME").effect is Effect.CLOCK


def test_views_are_not_fresh():
    for answer in (
        ask(PICTURE.reshape, -1), ask(PICTURE.transpose, 2, 0, 1), ask(np.asarray, PICTURE), ask(np.squeeze, PICTURE),
        ask(PICTURE.astype, np.uint8, copy=False), ask(np.array, PICTURE, copy=None), ask(list, [PICTURE]),
        known_operator("getitem", (PICTURE, slice(1))), known_operator("add", ([PICTURE], [1])),
    ):  # fmt: skip
        assert answer.effect is Effect.PURE
        assert not answer.fresh


def test_memory_left_as_it_was_is_not_deterministic():
    assert not ask(np.empty, 3).deterministic
    assert "where" in ask(np.add, PICTURE, 1, where=PICTURE > 0).reason


def test_code_of_the_program_is_told_apart():
    class Plain:
        def method(self):
            return None

        def __call__(self):
            return None

    for function in (mine, Plain, Plain(), Plain().method, lambda: None):
        assert ask(function) is USER


def test_no_code_of_the_user_runs_while_asking():
    stranger, odd = Mine(), Meta("Odd", (), {})
    for function in (len, sorted, np.add, np.stack, PICTURE.mean, [].append, {}.get, str, float, isinstance, mine):
        for args in ((stranger,), ([stranger],), ({"a": stranger},), (odd,), (PICTURE, stranger)):
            known_call(function, args, {})
            known_call(function, (), {"key": stranger})
    for name in ("add", "getitem", "iadd", "setitem", "iter", "eq", "contains", "neg"):
        for operands in ((stranger, 1, 2), (PICTURE, stranger, 1), ([1], stranger, stranger)):
            known_operator(name, operands[: {"setitem": 3, "iter": 1, "neg": 1}.get(name, 2)])
    assert known_call(stranger, (), {}) is USER
    assert not isinstance(known_call(odd, (), {}), Known)


def test_values_that_may_run_code_are_declined():
    objects = np.empty(1, object)
    objects[0] = 1
    assert isinstance(ask(np.add, objects, 1), No)
    assert isinstance(known_operator("add", (objects, 1)), No)
    assert isinstance(ask(sorted, [1], key=mine), No)
    assert isinstance(ask(np.apply_along_axis, mine, 0, PICTURE), No)
    assert isinstance(ask(map, mine, [1]), No)


def test_what_is_moved_and_not_looked_at_may_be_anything():
    stranger = Mine.__new__(Mine)
    assert ask([].append, stranger).writes == ("self",)
    assert ask(len, [stranger]).effect is Effect.PURE
    assert known_operator("getitem", ([stranger], 0)).effect is Effect.PURE


def test_the_order_of_sets_shows():
    assert isinstance(ask(list, {"a", "b"}), No)
    assert not known_operator("iter", ({"a", "b"},)).deterministic
    assert ask(sorted, {"a", "b"}).deterministic
    for function in (sorted, max, min):
        assert "order" in ask(function, {"ab", "cd"}, key=len).reason
        assert ask(function, ["ab", "cd"], key=len).deterministic


def test_a_choice_among_objects_looks_at_none_of_them():
    assert ask(random.choice, [Mine.__new__(Mine)]).effect is Effect.DRAWS
    assert isinstance(ask(random.choice, Mine.__new__(Mine)), No)


def test_reasons_are_given():
    for function in (print, id, input, hash):
        answer = ask(function, 1)
        assert answer.reason.startswith(f"builtins.{function.__name__}: ")
    assert "not known" in ask(os.system, "ls").reason
    assert "not known" in ask(collections.ChainMap, {}).reason


def test_in_place_operators_write_what_can_change():
    assert known_operator("iadd", (PICTURE, 1)).writes == (0,)
    assert known_operator("iadd", ([1], [2])).writes == (0,)
    assert known_operator("iadd", (1, 2)).effect is Effect.PURE
    assert known_operator("ior", (1, 2)).effect is Effect.PURE
    assert known_operator("setitem", (PICTURE, 0, 1)).writes == (0,)
    assert known_operator("setitem", ({}, "a", Mine.__new__(Mine))).writes == (0,)


def test_sound_is_read_from_names_and_at_once():
    wavfile = pytest.importorskip("scipy.io.wavfile")
    answer = known_call(wavfile.read, ("a.wav",), {})
    assert isinstance(answer, Known)
    assert (answer.effect, answer.files) == (Effect.READS, (0, "filename"))
    assert isinstance(known_call(wavfile.read, ("a.wav",), {"mmap": True}), No)
    assert isinstance(known_call(wavfile.read, (io.BytesIO(),), {}), No)


def test_files_that_are_read_move_on():
    with open(__file__) as file:
        assert ask(file.read).writes == ("self",)
    assert ask(io.BytesIO(b"").getvalue).effect is Effect.PURE


def test_a_function_that_somebody_replaced_is_not_known(monkeypatch):
    monkeypatch.setattr(np, "stack", mine)
    monkeypatch.setattr(builtins, "sorted", mine)
    assert ask(np.stack, 1) is USER
    assert ask(builtins.sorted, 1) is USER


def test_iterators_move_on():
    for value in (enumerate([1]), zip([1], (2,)), iter([1]), reversed([1]), enumerate(zip([1], "a"))):
        assert known_operator("iter", (value,)).writes == (0,)
    for value in (enumerate(x for x in [1]), zip([1], iter(lambda: 1, 2)), map(mine, [1])):
        assert isinstance(known_operator("iter", (value,)), No)


def test_a_generator_is_made_of_a_seed():
    assert ask(random.Random, 3).fresh
    assert isinstance(ask(random.Random), No)
    assert isinstance(ask(random.Random, None), No)


def test_what_a_partial_holds_is_asked():
    assert ask(functools.partial(np.clip, a_min=0, a_max=1), PICTURE).effect is Effect.PURE
    assert ask(functools.partial(mine, 1)) is USER
    for hidden in (functools.partial(np.add, out=PICTURE), functools.partial(random.uniform, 0)):
        assert isinstance(ask(hidden, 1, 2), No) or isinstance(ask(hidden, 1), No)


def test_dates_and_the_clock():
    assert ask(datetime.datetime, 2020, 1, 2).effect is Effect.PURE
    assert ask(datetime.datetime(2020, 1, 2).strftime, "%d").effect is Effect.PURE
    assert ask(datetime.datetime.now).effect is Effect.CLOCK
    assert ask(datetime.date.today).effect is Effect.CLOCK


def test_a_row_is_found_while_another_thread_learns_more(monkeypatch: pytest.MonkeyPatch) -> None:
    class Kind:
        def first(self) -> None: ...
        def second(self) -> None: ...
        def third(self) -> None: ...

    table, plain = known_table.Table(), known_table._unpatched
    table.hold(Kind)
    table.methods_of(Kind, "first second", outs=())

    def meanwhile(function: Any) -> Any:
        monkeypatch.setattr(known_table, "_unpatched", plain)
        table.methods_of(Kind, "third", outs=())
        return plain(function)

    value = Kind()
    plains = iter((plain, meanwhile))  # the called method is asked first, then the rows
    monkeypatch.setattr(known_table, "_unpatched", lambda function: next(plains)(function))
    found = table.row_of(value.second)
    assert found is not None
    assert found[0].name.endswith("Kind.second")
    assert found[1] is value
