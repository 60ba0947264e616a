"""Rewritten code means what it meant: every feature, for both kinds of site, in every mode."""

from __future__ import annotations

from functools import cache

import pytest
import semantics_runs as runs

#: What the plain-Python twin cannot keep: its own frames are on the stack (docs/differences.md).
TWIN_DIFFERS = {
    "s_traceback_frames", "s_traceback_positions", "s_raise_forms", "s_iterator_errors", "s_warnings_once_per_place",
    "s_logging_caller", "s_print_stack", "s_recursion_depth", "s_deep_method_recursion", "s_getframe", "s_frame_depth",
    "s_inspect_stack", "s_inspect_caller_line", "s_caller_positions", "s_warnings_stacklevel", "s_refcount",
    "s_refcount_in_operators", "s_thread_exception_hook", "s_setprofile_sees_the_same_calls",
    "s_line_numbers_in_both_bodies",
}  # fmt: skip


@cache
def _plain(stem: str):
    return runs.plain(stem)


#: What the plain program says; asked once, since Python counts references otherwise in code that has run often, and
#: from the test itself, since one feature counts the frames below it.
EXPECTED: dict[tuple[str, str], str] = {}


@cache
def _rewritten(stem: str, kind: str) -> runs.Rewritten:
    return runs.Rewritten(stem, runs.SITES[kind])


@pytest.mark.parametrize("mode", runs.MODES)
@pytest.mark.parametrize("kind", runs.SITES)
@pytest.mark.parametrize(("stem", "name"), runs.features())
def test_feature_means_the_same(stem: str, name: str, kind: str, mode: str) -> None:
    if kind == "twin" and name in TWIN_DIFFERS:
        pytest.skip("listed in docs/differences.md: the twin has frames")
    rewritten = _rewritten(stem, kind)
    if (stem, name) not in EXPECTED:
        EXPECTED[stem, name] = runs.result(_plain(stem), name)
    with rewritten.running(mode):
        found = runs.result(rewritten.module, name)
    assert found == EXPECTED[stem, name]


def test_there_are_enough_features() -> None:
    assert len(runs.features()) >= 80
