"""Proofs: what they catch, and how they are remembered per machine."""

from __future__ import annotations

import json
import os

import numpy as np
import pytest

from codedag.backends import proof, registry
from codedag.backends.proof import forget, key, prove, proven_here
from codedag.backends.registry import EXACT, LEVEL1, ULP, Call, substitutes
from codedag.ir.places import cache_dir
from codedag.ir.verdict import No, Yes


@pytest.fixture(autouse=True)
def table(monkeypatch):
    fresh = registry._Table()
    monkeypatch.setattr(registry, "_table", fresh)
    forget()
    yield fresh
    forget()


def make(run, guard=None, gives=EXACT, call=None, source="numpy.negative"):
    """A substitution for a function of one array, with a counter of generated calls."""
    made = substitutes(source, into="test", gives=gives, needs="")(run)
    made.guard(guard or (lambda bound: Yes))
    counts = {"calls": 0}

    def calls(rng):
        counts["calls"] += 1
        return call(rng) if call else Call.of(np.array([rng.random(), 1.0, 200.0]))

    made.calls(calls)
    return made, counts


def good(x):
    return np.multiply(x, -1.0)


def test_a_good_one_is_proven():
    made, _ = make(good)
    assert prove(made, calls=20) == proof.Proof("numpy.negative -> test", 20, 20, Yes)


def mutates(x):
    result = -x
    x += 1
    return result


KEPT = np.empty(3)


def keeps(x):
    return np.negative(x, out=KEPT)


def raises(x):
    raise KeyError("inside")


def remembers(x, _seen=[]):
    _seen.append(-x)
    return _seen[0]


@pytest.mark.parametrize(
    ("run", "words"),
    [
        (lambda x: x, "elements differ"),
        (lambda x: (-x).astype("f4"), "dtype"),
        (lambda x: list(-x), "type"),
        (lambda x: np.stack([-x, -x], axis=1)[:, 0], "strides"),
        (mutates, "argument 0"),
        (keeps, "share memory"),
        (raises, "inside"),
    ],
)
def test_a_bad_one_is_caught(run, words):
    found = prove(make(run)[0], calls=5)
    assert isinstance(found.verdict, No)
    assert words in found.verdict.reason


def test_a_result_that_is_the_argument_is_caught():
    made, _ = make(lambda x: x, source="numpy.copy")
    assert "OWNDATA" in str(prove(made, 5).verdict) or "shares memory" in str(prove(made, 5).verdict)


def test_an_accepted_call_whose_original_raises_is_caught():
    made, _ = make(good, call=lambda rng: Call.of("text"))
    assert "original raises" in prove(made, 5).verdict.reason
    declining, _ = make(good, guard=lambda bound: No("text"), call=lambda rng: Call.of("text"))
    assert prove(declining, 5).verdict == No("none of 5 calls was accepted")


def test_weaker_promises_allow_what_they_say():
    def off_by_one(x):
        return np.negative(x) + np.uint8(1)

    def near(x):
        return np.negative(x) * (1 + 2**-52)

    def pixels(rng):
        return Call.of(np.array([rng.randrange(1, 200)], np.uint8))

    assert prove(make(off_by_one, gives=LEVEL1, call=pixels)[0], 9).verdict
    assert not prove(make(lambda x: off_by_one(x) + np.uint8(1), gives=LEVEL1, call=pixels)[0], 9).verdict
    assert not prove(make(off_by_one, gives=ULP, call=pixels)[0], 9).verdict
    assert prove(make(near, gives=ULP)[0], 9).verdict
    assert not prove(make(near)[0], 9).verdict
    assert not prove(make(lambda x: -x * 1.001, gives=ULP)[0], 9).verdict


def test_the_second_question_is_answered_from_memory_then_from_the_file():
    made, counts = make(good)
    assert proven_here(made)
    first = counts["calls"]
    assert first > 60
    assert proven_here(made)
    forget()
    assert proven_here(made)
    assert counts["calls"] == first
    content = json.loads((cache_dir() / "proofs.json").read_text())
    assert (content["format"], content["version"]) == ("codedag/proofs", 1)
    assert content["proofs"][key(made)]["ok"] is True


def test_a_failed_proof_is_remembered_with_its_reason():
    made, counts = make(lambda x: x)
    reason = proven_here(made).reason
    assert "elements differ" in reason
    first = counts["calls"]
    forget()
    assert proven_here(made) == No(reason)
    assert counts["calls"] == first


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"\xff\xfe",
        b"[]",
        b"null",
        b'{"proofs": 3}',
        b'{"format": "other", "version": 1, "proofs": {"KEY": {"ok": false, "reason": "x"}}}',
        b'{"format": "codedag/proofs", "version": 2, "proofs": {"KEY": {"ok": false, "reason": "x"}}}',
        b'{"format": "codedag/proofs", "version": 1, "proofs": {"KEY": {"ok": 0}}}',
        b'{"format": "codedag/proofs", "version": 1, "proofs": {"KEY": 5}}',
    ],
)
def test_a_corrupted_file_is_ignored_and_rewritten(content):
    made, _ = make(good)
    file = cache_dir() / "proofs.json"
    file.parent.mkdir(parents=True)
    file.write_bytes(content.replace(b"KEY", key(made).encode()))
    assert proven_here(made)
    assert json.loads(file.read_text())["proofs"][key(made)]["ok"] is True


def test_an_unwritable_cache_means_proving_in_each_process(monkeypatch, tmp_path):
    blocked = tmp_path / "file"
    blocked.write_text("not a folder")
    monkeypatch.setenv("CODEDAG_HOME", str(blocked))
    made, counts = make(good)
    assert proven_here(made)
    first = counts["calls"]
    assert proven_here(made)
    assert counts["calls"] == first
    forget()
    assert proven_here(made)
    assert counts["calls"] == 2 * first
    assert os.listdir(tmp_path) == ["file"]


def test_other_proofs_in_the_file_are_kept_up_to_a_bound(monkeypatch):
    monkeypatch.setattr(proof, "KEPT", 2)
    made = [make(good, source=f"numpy.{name}")[0] for name in ("negative", "positive", "abs")]
    for one in made:
        proven_here(one)
    kept = json.loads((cache_dir() / "proofs.json").read_text())["proofs"]
    assert list(kept) == [key(made[1]), key(made[2])]


def test_the_key_depends_on_everything_that_matters(monkeypatch):
    made, _ = make(good)
    keys = {key(made), key(make(good, gives=ULP)[0]), key(make(good, source="numpy.abs")[0])}
    monkeypatch.setattr(proof, "installed_version", lambda name: "9.9")
    keys.add(key(made))
    monkeypatch.setattr(proof, "_processor", lambda: "another")
    keys.add(key(made))
    monkeypatch.setenv("OPENCV_IPP", "disabled")
    keys.add(key(made))
    monkeypatch.setattr(proof, "_sources", lambda substitution: "edited")
    keys.add(key(made))
    assert len(keys) == 7


def test_what_is_not_installed_is_neither_proven_nor_remembered():
    made, counts = make(good)
    made.needs = "no-such-library>=1"
    assert proven_here(made) == No("no-such-library is not installed")
    assert counts["calls"] == 0
    assert not (cache_dir() / "proofs.json").exists()


def test_a_generator_or_guard_that_breaks_is_a_failed_proof():
    made, _ = make(good, guard=lambda bound: bound.nothing)
    assert "could not be run" in proven_here(made).reason


def test_a_substitute_with_memory_is_caught():
    assert not prove(make(remembers)[0], calls=5).verdict
