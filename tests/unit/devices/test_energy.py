"""Counters of energy: read where they are, and nothing is invented where they are not."""

from __future__ import annotations

import pytest

from codedag.devices.energy import joules_so_far, watts_of


def counter(folder, name, microjoules):
    (folder / name).mkdir(exist_ok=True)
    (folder / name / "energy_uj").write_text(f"{microjoules}\n")


def test_packages_are_added_up_and_their_parts_are_not(tmp_path):
    counter(tmp_path, "intel-rapl:0", 1_500_000)
    counter(tmp_path, "intel-rapl:1", 500_000)
    counter(tmp_path, "intel-rapl:0:0", 9_000_000)
    assert joules_so_far(tmp_path) == 2.0


def test_what_work_draws(tmp_path):
    counter(tmp_path, "intel-rapl:0", 0)
    done = []

    def work():
        done.append(1)
        counter(tmp_path, "intel-rapl:0", 1_000_000 * len(done))

    assert watts_of(work, 0.01, tmp_path) > 0
    assert done


@pytest.mark.parametrize("content", [None, "unknown"])
def test_without_a_counter_nothing_is_said(tmp_path, content):
    if content is not None:
        counter(tmp_path, "intel-rapl:0", content)
    assert joules_so_far(tmp_path) is None
    assert watts_of(lambda: None, 0.01, tmp_path) is None


def test_a_counter_that_began_again_says_nothing(tmp_path):
    counter(tmp_path, "intel-rapl:0", 5_000_000)
    assert watts_of(lambda: counter(tmp_path, "intel-rapl:0", 1_000), 0.01, tmp_path) is None
