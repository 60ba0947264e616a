"""Which calls of libraries are looked into: those that take much of the time while they are observed."""

from __future__ import annotations

import email
import json
from types import SimpleNamespace

from codedag.autopilot.inside import _hot

LOADED = (email, json)  # only libraries that are loaded are looked into


def template(name: str, seconds: float, span: float, count: int = 40) -> SimpleNamespace:
    return SimpleNamespace(name=name, self_ns=seconds * 1e9, span=span, count=count)


def hot(*templates: SimpleNamespace) -> list[str]:
    return [each.name for each in _hot(list(templates), lambda each: each.span)]


def test_items_that_were_observed_for_a_moment_count_as_much_as_what_was_observed_for_long():
    making = template("json.dumps", 20.0, 20.0)
    item = template("email.parse", 0.03, 0.1)
    assert hot(making, item) == ["json.dumps", "email.parse"]


def test_what_takes_little_of_the_time_is_left_alone():
    assert hot(template("json.dumps", 1.0, 1.0), template("email.parse", 0.001, 1.0)) == ["json.dumps"]


def test_calls_that_were_seen_too_few_times_are_not_believed():
    assert hot(template("json.dumps", 1.0, 1.0, count=2)) == []
