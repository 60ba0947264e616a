"""Flags that turn variants on and off at once, and switches that count the turns of their loop: C and twin alike."""

import copyreg
import io
import operator
import pickle
import threading

import pytest

from codedag.instrument import _site, _twin
from codedag.instrument.sites import BINARY, CALL, PASS, SETITEM, VARIANT, SiteInfo

BOTH = pytest.mark.parametrize("native", [_site, _twin], ids=["c", "twin"])


def site_of(native, kind=CALL, function=None):
    info = SiteInfo(0, kind, function.__name__ if function else "", "a.py", 1, 0, 1, 0, "f")
    return native.Site(kind, info, function, False)


class Placeholder:
    pass


@pytest.fixture
def known_placeholders():
    for native in (_site, _twin):
        native.placeholders((Placeholder,))
    yield
    for native in (_site, _twin):
        native.placeholders(())


# -- flags


@BOTH
def test_a_flag_turns_the_variants_of_many_sites_off_and_on(native):
    flag = native.Flag()
    sites = [site_of(native), site_of(native, BINARY, operator.add)]
    for site in sites:
        site.variant, site.mode, site.flag = (lambda *args: "variant"), VARIANT, flag
    assert [sites[0](len, [1]), sites[1](1, 2)] == ["variant", "variant"]
    flag.on = False
    assert [sites[0](len, [1]), sites[1](1, 2)] == [1, 3]
    assert all(site.mode == VARIANT for site in sites)
    flag.on = True
    assert sites[0](len, [1]) == "variant"


@BOTH
def test_a_site_without_a_flag_runs_its_variant(native):
    site = site_of(native)
    site.variant, site.mode = (lambda *args: "variant"), VARIANT
    assert site.flag is None
    assert site(len, [1]) == "variant"
    site.flag = native.Flag(False)
    assert site(len, [1]) == 1
    site.flag = None
    assert site(len, [1]) == "variant"


@BOTH
def test_off_is_the_operation_as_written_for_every_kind(native):
    site = site_of(native, SETITEM)
    site.variant, site.mode, site.flag = (lambda *args: "variant"), VARIANT, native.Flag(False)
    values = [1, 2]
    assert site("new", values, 0) is None
    assert values == ["new", 2]


def test_only_flags_are_flags():
    with pytest.raises(TypeError, match="Flag"):
        site_of(_site).flag = True
    with pytest.raises(TypeError, match="bool"):
        _site.Flag().on = 1


@BOTH
def test_a_spread_call_reads_the_flag(native):
    site = site_of(native)
    site.variant, site.mode, site.flag = (lambda *args: "variant"), VARIANT, native.Flag(False)
    assert native.Spread(site)(max)(*[1, 3]) == 3
    site.flag.on = True
    assert native.Spread(site)(max)(*[1, 3]) == "variant"


@BOTH
def test_a_call_that_is_under_way_ends_as_it_began(native, known_placeholders):
    """The first site begins nothing while off; a later one still takes a placeholder that is on its way."""
    flag = native.Flag()
    first, later = site_of(native), site_of(native)
    for site in (first, later):
        site.mode, site.flag = VARIANT, flag
    first.variant = lambda function, value: Placeholder()
    later.variant = lambda function, value, **named: "resolved"
    later.follows = 1
    under_way = first(abs, -1)
    flag.on = False
    assert later(len, under_way) == "resolved"
    assert later(dict, value=under_way) == "resolved"  # also as a keyword
    assert first(abs, -1) == 1
    assert later(len, [1, 2]) == 2
    assert first(id, under_way) == id(under_way)  # a first site begins nothing, whatever it is given


@BOTH
def test_a_dead_flag_is_no_leak(native):
    flag, site = native.Flag(), site_of(native)
    site.flag = flag
    del site
    assert flag.on


# -- counting switches


def loop(switch, turns):
    return [switch.on for _ in range(turns)]


@BOTH
def test_a_switch_counts_turns_and_calls_back(native):
    switch, counter, calls = native.Switch(), native.Counter(), []
    switch.count_into(counter, 3, lambda: calls.append(counter.turns))
    assert loop(switch, 10) == [False] * 10
    assert counter.turns == 10
    assert calls == [3, 6, 9]
    switch.on = True
    assert loop(switch, 2) == [True, True]
    switch.uncount()
    assert loop(switch, 5) == [True] * 5
    assert counter.turns == 12
    assert type(switch) is native.Switch


@BOTH
def test_the_callback_says_when_it_comes_again(native):
    switch, counter, calls = native.Switch(), native.Counter(), []

    def callback():
        calls.append(counter.turns)
        return len(calls) * 2

    switch.count_into(counter, 1, callback)
    loop(switch, 15)
    assert calls == [1, 3, 7, 13]


@BOTH
def test_the_callback_may_end_the_counting(native):
    switch, counter = native.Switch(), native.Counter()
    switch.count_into(counter, 2, lambda: switch.uncount())
    assert loop(switch, 6) == [False] * 6
    assert counter.turns == 2


@BOTH
def test_a_callback_that_fails_ends_the_counting_and_nothing_else(native):
    switch, counter = native.Switch(), native.Counter()
    switch.count_into(counter, 2, lambda: 1 / 0)
    assert loop(switch, 6) == [False] * 6
    assert counter.turns == 2
    assert type(switch) is native.Switch


@BOTH
def test_ctrl_c_in_a_callback_is_the_programs(native):
    switch, counter = native.Switch(), native.Counter()

    def interrupted():
        raise KeyboardInterrupt

    switch.count_into(counter, 1, interrupted)
    with pytest.raises(KeyboardInterrupt):
        loop(switch, 1)


@BOTH
def test_the_longest_turn_is_known(native):
    switch, counter = native.Switch(), native.Counter()
    switch.count_into(counter, 1000, lambda: None)
    loop(switch, 1)
    assert counter.longest == 0  # nothing to compare with
    loop(switch, 5)
    assert counter.longest > 0
    counter.longest = counter.last = 0
    loop(switch, 1)
    assert counter.longest == 0


@BOTH
def test_turns_of_one_thread_count(native):
    switch, counter = native.Switch(), native.Counter()
    switch.count_into(counter, 1000, lambda: None)
    loop(switch, 4)
    thread = threading.Thread(target=loop, args=(switch, 50))
    thread.start()
    thread.join()
    assert counter.turns == 4
    switch.count_into(counter, 1000, lambda: None)  # anew: whichever thread comes first
    thread = threading.Thread(target=loop, args=(switch, 5))
    thread.start()
    thread.join()
    loop(switch, 50)
    assert counter.turns == 9


@BOTH
def test_a_switch_is_called_back_after_at_least_one_turn(native):
    with pytest.raises(ValueError, match="at least one turn"):
        native.Switch().count_into(native.Counter(), 0, lambda: None)


@BOTH
def test_a_counting_switch_can_be_sent(native):
    assert native.CountingSwitch in copyreg.dispatch_table
    switch = native.Switch()
    switch.count_into(native.Counter(), 1, lambda: None)
    file = io.BytesIO()
    pickle.Pickler(file, 5).dump(switch)
    assert pickle.loads(file.getvalue()).on is False


@BOTH
def test_a_running_loop_begins_to_count(native):
    """The interpreter has specialised reading the switch by then."""
    switch, counter = native.Switch(), native.Counter()
    seen = []
    for turn in range(300):
        if turn == 200:
            switch.count_into(counter, 10, lambda: seen.append(counter.turns))
        _ = switch.on
    assert counter.turns == 100
    assert len(seen) == 10


# -- who watches a method while nothing is recorded


@BOTH
def test_a_watch_is_told_without_a_recorder_if_it_asks(native):
    site, told = site_of(native), []
    site.mode, site.watch = PASS, lambda args, result, raised: told.append((args, result, raised))

    class Loader:
        def get(self, value):
            return value + 1

    original = Loader.get
    Loader.get = native.method(site, original)
    loader = Loader()
    assert loader.get(1) == 2
    assert not told
    site.always = 1
    assert loader.get(1) == 2
    assert told == [((loader, 1), 2, None)]
