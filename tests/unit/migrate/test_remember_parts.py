"""A prefix that is kept: what counts as the same call."""

import operator
from types import SimpleNamespace

import pytest

from codedag.instrument.sites import BINARY, CALL, GETITEM, INPLACE, SETITEM, SiteInfo
from codedag.migrate.memo.prefix import Link, Prefix, _part, unwritten
from codedag.migrate.memo.store import Memory
from codedag.migrate.patches import proxies
from codedag.migrate.trial import Trial


def test_a_patch_of_ours_is_the_function_behind_it():
    link = Link(None, 0)
    assert _part(link, proxies.make(operator.add), (1, 2), {}) == _part(link, operator.add, (1, 2), {})
    assert type(_part(link, proxies.make(operator.add), (1, 2), {})[0]) is type(operator.add)


@pytest.mark.parametrize("kind", [SETITEM, INPLACE])
def test_a_prefix_ends_before_a_site_that_writes(kind):
    kinds = [CALL, BINARY, GETITEM, kind, CALL]
    links = [Link(SimpleNamespace(kind=each), 0) for each in kinds]
    assert unwritten(links) == links[:3]


def sites(count):
    infos = (SiteInfo(number, CALL, "", __file__, 1, 0, 1, 1, "use") for number in range(count))
    return [SimpleNamespace(info=info, kind=CALL, function=None, variant=None) for info in infos]


@pytest.mark.parametrize(("last", "length"), [("sort", 1), ("clip", 1), ("negative", 2)])
def test_a_step_that_gives_nothing_or_its_argument_ends_a_prefix(tmp_path, last, length):
    np = pytest.importorskip("numpy")
    np.save(tmp_path / "a.npy", np.arange(12.0))
    first, second = sites(2)
    prefix = Prefix([Link(first, 0), Link(second, -1 if last == "sort" else 0)], Trial("it"), Memory(), lambda: True)
    read, then = prefix.variants().values()
    for _ in range(40):
        value = read(np.load, str(tmp_path / "a.npy"))
        if last == "sort":
            then(value.sort)
        elif last == "clip":
            assert then(np.clip, value, 1, 5, out=value) is value
        else:
            assert then(np.negative, value)[-1] == -11
    assert prefix.length == length
