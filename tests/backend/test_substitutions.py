"""Every substitution against its original: an accepted call is bit-equal, any other has a reason."""

from __future__ import annotations

import random
import warnings
from importlib.util import find_spec

import pytest

pytest.importorskip("cv2")

from substitution_checks import prove_a_thousand

from codedag.backends.proof import prove
from codedag.backends.registry import all_substitutions, attempt

pytestmark = pytest.mark.filterwarnings("ignore")  # originals may warn about odd calls; the tests compare results
#: Substitutions of cv2_ have tests of their own in cv2/.
SUBSTITUTIONS = {
    made.name: made
    for made in all_substitutions()
    if made.pu == "cpu" and not made.module.endswith(".cv2_") and find_spec(made.source.partition(".")[0])
}
ALL = sorted(SUBSTITUTIONS)


def calls(name):
    """Random calls of one substitution; sounds and tables take longer than pictures."""
    return 50 if name.startswith(("librosa.", "pandas.")) else 100


def test_there_are_substitutions():
    assert len(ALL) >= 31  # of numpy and scipy; the other libraries may be missing


@pytest.mark.parametrize("name", ALL)
def test_random_calls(name, seed):
    proof = prove(SUBSTITUTIONS[name], calls=calls(name), seed=seed)
    assert proof.verdict, proof
    assert proof.accepted >= calls(name) // 16  # two in five and more are: no seed in ten million gives so few


@pytest.mark.long
@pytest.mark.parametrize("name", ALL)
def test_a_thousand_accepted_calls(name, seed):
    prove_a_thousand(SUBSTITUTIONS[name], seed)


#: scipy itself can crash on odd calls of binary_closing, so calls of these are not tried out in this process
@pytest.mark.parametrize("name", [name for name in ALL if "ndimage.binary_" not in name])
def test_half_of_the_valid_calls_are_accepted(name):
    made, valid, accepted = SUBSTITUTIONS[name], 0, 0
    for number in range(150):
        call = made.random_call(random.Random(number))
        if made.accepts(call.args, call.kwargs):
            valid, accepted = valid + 1, accepted + 1
        elif attempt(made.original(), *call.args, **call.kwargs).error is None:
            valid += 1
    assert accepted >= valid // 2
    assert valid >= 60


@pytest.mark.parametrize("name", ALL)
def test_accepted_calls_warn_only_if_the_original_does(name):
    made = SUBSTITUTIONS[name]
    for number in range(60):
        call = made.random_call(random.Random(number))
        if made.accepts(call.args, call.kwargs):
            with warnings.catch_warnings():
                warnings.simplefilter("error")
                expected = attempt(made.original(), *call.args, **call.kwargs)
                got = attempt(made.run, *call.args, **call.kwargs)
            assert type(expected.error) is type(got.error), (expected.error, got.error)


@pytest.mark.parametrize("name", ALL)
def test_facts(name):
    made = SUBSTITUTIONS[name]
    assert made.takes
    assert made.available()
    assert callable(made.original())
