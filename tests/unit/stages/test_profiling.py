"""A profile that is given up ends what it has begun."""

from __future__ import annotations

import time

import pytest

from codedag.ir import Machine
from codedag.stages.measuring import profiling
from codedag.stages.measuring.profiling import Profile
from codedag.stages.model import BadModel


@pytest.mark.parametrize("error", [BadModel("it is no model"), KeyboardInterrupt()])
def test_a_model_that_fails_ends_the_search_for_pus(tmp_path, monkeypatch, error):
    looked = []

    def here(families, told):
        for family in families:
            told(family)
            looked.append(family)
            time.sleep(0.2)
        return Machine(pus=[])

    def make():
        while not looked:
            time.sleep(0.01)
        raise error

    monkeypatch.setattr(profiling, "here", here)
    with pytest.raises(type(error)):
        Profile(tmp_path).export(make, [])
    assert len(looked) < 3
    assert not list(tmp_path.iterdir())
