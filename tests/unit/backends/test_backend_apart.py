"""Proofs in another process: the same verdicts, nothing on stderr, and an end at once when the program ends."""

from __future__ import annotations

import json
import sys
import threading
import time

import pytest

from codedag.backends import apart, proof
from codedag.backends.registry import EXACT, Call, find, substitutes
from codedag.ir.verdict import Code, No, Yes

pytest.importorskip("scipy")
pytest.importorskip("cv2")


@pytest.fixture
def median():
    """A substitution of ours that nothing is known of in this home."""
    (found,) = find("scipy.ndimage.median_filter", "cpu")
    return found


def test_a_proof_is_made_once_and_kept(median, codedag_home, monkeypatch):
    assert proof.known_here(median) is None
    prover = apart.Prover()
    assert prover(median) is Yes
    prover.close()
    (kept,) = json.loads((codedag_home / "cache" / proof.FILE).read_text())["proofs"].values()
    assert kept["ok"]
    monkeypatch.setattr(sys, "executable", "/nowhere")  # it is not asked again
    assert apart.Prover()(median) is Yes
    assert proof.proven_here(median) is Yes


def test_one_process_proves_several_and_is_started_again_when_it_has_ended(median, monkeypatch):
    started = []
    start = apart._start
    monkeypatch.setattr(apart, "_start", lambda: started.append(start()) or started[-1])
    prover = apart.Prover()
    (least,) = find("scipy.ndimage.minimum_filter", "cpu")
    assert prover(median) is prover(least) is Yes
    assert len(started) == 1
    prover.rest()
    assert started[0].returncode == 0
    (most,) = find("scipy.ndimage.maximum_filter", "cpu")
    assert prover(most) is Yes
    assert len(started) == 2
    prover.close()
    assert started[1].returncode != 0
    assert not prover(find("scipy.ndimage.sobel", "cpu")[0])


def test_what_fails_there_is_a_reason_here(median, monkeypatch):
    monkeypatch.setattr(sys, "executable", "/bin/false")
    prover = apart.Prover()
    verdict = prover(median)
    prover.close()
    assert isinstance(verdict, No)
    assert "gave no answer (exit code 1)" in verdict.reason


def test_the_end_of_the_program_ends_the_proof(median, tmp_path, monkeypatch):
    slow = tmp_path / "slow"
    slow.write_text("#!/bin/sh\necho began >&2\nexec sleep 600\n")
    slow.chmod(0o755)
    monkeypatch.setattr(sys, "executable", str(slow))
    prover, found = apart.Prover(), []
    thread = threading.Thread(target=lambda: found.append(prover(median)))
    thread.start()
    while prover._process is None and thread.is_alive():
        time.sleep(0.01)
    prover.end()
    thread.join(60)
    prover.close()
    assert found == [No(apart.ENDED, Code.ENDED)]
    assert prover(median) == No(apart.ENDED, Code.ENDED)


def test_what_is_plugged_in_is_proven_here():
    made = substitutes("json.dumps", into="plugged", gives=EXACT, needs="")(lambda obj: json.dumps(obj))
    made.guard(lambda call: Yes)
    made.calls(lambda rng: Call.of(rng.random()))
    assert apart.Prover()(made) is Yes


def test_what_is_asked_ahead_is_answered_without_another_question(median, monkeypatch):
    asked, ask = [], apart.Prover._ask
    monkeypatch.setattr(apart.Prover, "_ask", lambda self, *question: asked.append(question) or ask(self, *question))
    prover = apart.Prover()
    prover.ahead([("scipy.ndimage.minimum_filter", "cv2"), (median.source, median.into), ("no.such", "cv2")])
    assert prover.is_asked()
    assert prover.begin(median)
    while not prover.has_answered():
        time.sleep(0.01)
    assert prover.known(median) is Yes
    (least,) = find("scipy.ndimage.minimum_filter", "cpu")
    assert prover.known(least) is Yes
    while prover.is_asked():
        time.sleep(0.01)
    assert prover._said["no.such -> cv2"] == No("it is not in the registry")
    assert len(asked) == 3
    prover.close()
