"""Settings of a run: from pyproject.toml and from the command line, and what is wrong with them by name."""

from __future__ import annotations

import pytest

from codedag.cli.settings import BadSettings, classes, nbytes, settings, share


def _project(tmp_path, text):
    (tmp_path / "pyproject.toml").write_text(text)
    below = tmp_path / "deep" / "down"
    below.mkdir(parents=True)
    return below


def test_settings_of_the_project_around_a_directory(tmp_path):
    text = '[tool.codedag]\nallow = ["ulp"]\nbudget-ram = "2G"\nmax-overhead = "2%"\nfresh = true\nplan = "p.json"\n'
    assert settings(_project(tmp_path, text)) == {
        "allow": ("exact", "ulp"),
        "budget-ram": 2 << 30,
        "max-overhead": 0.02,
        "fresh": True,
        "plan": "p.json",
    }


def test_a_project_without_settings(tmp_path):
    assert settings(_project(tmp_path, "[project]\nname = 'x'\n")) == {}


@pytest.mark.parametrize(
    ("text", "words"),
    [
        ("[tool.codedag]\nspeed = 'very'\n", "tool.codedag.speed is not a setting"),
        ("[tool.codedag]\nallow = ['fast']\n", "tool.codedag.allow: 'fast' is no class"),
        ("[tool.codedag]\nallow = 3\n", "tool.codedag.allow: '3' is no class"),
        ("[tool.codedag]\nbudget-ram = 'much'\n", "tool.codedag.budget-ram: 'much' is no amount"),
        ("[tool.codedag]\nmax-overhead = 7\n", "tool.codedag.max-overhead: 7 is no share"),
        ("[tool.codedag]\nfresh = 'yes'\n", "tool.codedag.fresh: 'yes' is neither true nor false"),
        ("[tool.codedag]\nplan = 1\n", "tool.codedag.plan: 1 is not the name of a file"),
        ("[tool]\ncodedag = 1\n", "tool.codedag is not a table"),
        ("[tool.codedag\n", "cannot be read"),
    ],
)
def test_what_is_wrong_is_named(tmp_path, text, words):
    with pytest.raises(BadSettings) as raised:
        settings(_project(tmp_path, text))
    assert str(tmp_path / "pyproject.toml") in raised.value.message
    assert words in raised.value.message
    assert raised.value.hint


def test_words_of_the_command_line():
    assert classes("level1, ULP") == ("exact", "ulp", "level1")
    assert nbytes("1.5k") == 1536
    assert nbytes("64 MiB") == 64 << 20
    assert nbytes(100) == 100
    assert share("5%") == share(0.05) == 0.05
    for wrong in ("", "-1", "1.5", "nan", True):
        with pytest.raises(BadSettings):
            share(wrong)
