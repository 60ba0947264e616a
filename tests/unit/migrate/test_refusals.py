"""What a refusal leads to is decided by its code, never by its words."""

from __future__ import annotations

import pytest

from codedag.ir.verdict import Code, No
from codedag.migrate.patches.library_patches import Patch
from codedag.migrate.placement.migrator import WAITING, _all_of


def test_several_answers_have_the_code_that_they_share():
    both = _all_of([No("a is not used", Code.NOT_USED), No("b is not used", Code.NOT_USED)])
    assert both == No("a is not used; b is not used", Code.NOT_USED)
    assert _all_of([No("a is not used", Code.NOT_USED), No("it differs")]).code is Code.OTHER


@pytest.mark.parametrize("name", ["no_such_library.f", "json.no_such_function"])
def test_what_is_not_loaded_is_waited_for(name):
    answer = Patch(name).possible()
    assert isinstance(answer, No)
    assert answer.code in WAITING


def test_a_reason_without_a_code_is_a_failure():
    assert No("it cannot be replaced").code not in WAITING
