"""A prefix that is kept: what counts as the same call."""

import operator

from codedag.migrate import stands
from codedag.migrate.remember import Link, _part


def test_a_patch_of_ours_is_the_function_behind_it():
    link = Link(None, 0)
    assert _part(link, stands.make(operator.add), (1, 2), {}) == _part(link, operator.add, (1, 2), {})
    assert type(_part(link, stands.make(operator.add), (1, 2), {})[0]) is type(operator.add)
