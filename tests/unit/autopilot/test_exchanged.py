"""Code that the program exchanges between two batches: what is let through is what was asked about."""

import random
import types

import numpy as np
import pytest
from test_ordered import Ran, states

from codedag.backends.same import same
from codedag.migrate._order import ALWAYS, Check, enter

SOURCE = """
COUNT = [0]
def one(i): return np.full(8, i)
def other(i): return np.full(8, i) + np.random.rand()
class Op:
    def __call__(self, i): return np.full(8, i)
class Data:
    def __init__(self): self.op = Op()
    def load(self, i): return one(i)
    def __getitem__(self, i): return self.load(i), self.op(i)
"""


def draws(self, i):
    return np.full(8, i) + np.random.rand()


def code_of_another(space):
    space["one"].__code__ = space["other"].__code__


def other_constants(space):
    code = space["one"].__code__
    space["one"].__code__ = code.replace(co_consts=tuple(9 if each == 8 else each for each in code.co_consts))


def a_method(space):
    space["Data"].load = lambda self, i: space["other"](i)


def a_method_at_the_same_address(space):
    kind = space["Data"]
    for _ in range(200):
        kind.load = None
        kind.load = types.FunctionType(draws.__code__, globals())


def what_is_called(space):
    space["Op"].__call__ = draws


CHANGES = [code_of_another, other_constants, a_method, a_method_at_the_same_address, what_is_called]


@pytest.mark.parametrize("change", CHANGES)
def test_what_the_program_exchanges(tmp_path, change):
    random.seed(5)
    np.random.seed(5)
    ran = Ran(tmp_path, SOURCE)
    try:
        assert ran.ahead(list(range(8))).reason == ""
        change(ran.space)
        for _ in range(3):
            before = states()
            batch = ran.ahead(list(range(8)))
            assert not batch.unasked
            if batch.reason:
                batch.take_back()
                assert states() == before
                continue
            after = states()
            batch.take_back()
            assert same([ran.data[i] for i in range(8)], batch.results)
            assert states() == after
    finally:
        ran.program.restore()


def test_code_that_the_program_exchanged_stays(tmp_path):
    ran = Ran(tmp_path, SOURCE)
    other_constants(ran.space)
    code = ran.space["one"].__code__
    ran.program.settle(ran.path, "one")
    ran.program.install(ran.path, ["one"])
    assert ran.space["one"](2).shape == (9,)
    ran.program.restore()
    assert ran.space["one"].__code__ is code


def test_functions_that_are_made_anew_ask_too(tmp_path):
    ran = Ran(
        tmp_path,
        """
    class Data:
        def __getitem__(self, i):
            def noise(k): return np.random.rand() + k
            return noise(i)
    """,
    )
    try:
        for _ in range(3):
            batch = ran.ahead(list(range(8)))
            assert (batch.unasked, batch.reason) == (False, "")
            after = states()
            batch.take_back()
            assert [ran.data[i] for i in range(8)] == batch.results
            assert states() == after
            ran.program.install(ran.path, ["Data.__getitem__"])
    finally:
        ran.program.restore()


def test_a_function_is_asked_about_again_once_it_has_other_code():
    asked = []

    def one():
        return 1

    def two():
        return 2

    check = Check(0, None, None, None, lambda *_: asked.append(1) or ALWAYS)
    enter(object())
    try:
        results = [check(one), check(one)]
        one.__code__ = two.__code__
        results += [check(one), check(one)]
    finally:
        enter(None)
    assert (results, len(asked)) == ([1, 1, 2, 2], 2)
