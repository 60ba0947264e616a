"""Work that warns is noticed, whatever the filters of the program say, and these are left as they were."""

from __future__ import annotations

import threading
import warnings

import pytest

from codedag.instrument.warned import Ear, Heard, mode, unheard


def warn():
    warnings.warn("careful", RuntimeWarning, stacklevel=1)


def in_another_thread(function):
    other = threading.Thread(target=function)
    other.start()
    other.join()


@pytest.mark.parametrize("action", ["ignore", "always", "default", "once"])
def test_a_warning_is_heard_of_unless_nothing_comes_of_it(action):
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter(action)
        before, entries = warnings.filters, list(warnings.filters)
        with Heard() as heard:
            warn()
        assert heard.warned is (action != "ignore")
        assert len(shown) == (action != "ignore")
        assert warnings.filters is before
        assert warnings.filters == entries


FILTERS = {
    "its category": (("ignore", "", RuntimeWarning, "", 0), False),
    "a wider category": (("ignore", "", Warning, "", 0), False),
    "another category": (("ignore", "", UserWarning, "", 0), True),
    "its text": (("ignore", "care", Warning, "", 0), False),
    "another text": (("ignore", "easy", Warning, "", 0), True),
    "its module": (("ignore", "", Warning, __name__.replace(".", r"\."), 0), False),
    "another module": (("ignore", "", Warning, "other", 0), True),
    "a line": (("ignore", "", Warning, "", 1), True),
}


@pytest.mark.parametrize("name", FILTERS)
def test_what_a_filter_ignores_is_not_heard_of(name):
    arguments, heard_of = FILTERS[name]
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        warnings.filterwarnings(*arguments)
        with Heard() as heard:
            warn()
    assert heard.warned is heard_of
    assert len(shown) == heard_of


def test_a_filter_before_one_that_ignores_counts():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("ignore")
        warnings.simplefilter("always", RuntimeWarning)
        with Heard() as heard:
            warn()
    assert heard.warned
    assert len(shown) == 1


def test_work_without_a_warning_is_not_taken_for_one():
    with Heard() as heard:
        sum(range(3))
    assert not heard.warned


def test_who_only_goes_through_the_filters_is_not_taken_for_a_warning():
    with Heard() as heard:
        assert not any(issubclass(RuntimeWarning, entry[2]) for entry in warnings.filters if entry[0] == "nothing")
        assert not issubclass(RuntimeWarning, warnings.filters[0][2])
    assert not heard.warned


def test_what_it_raises_comes_before_the_warning_is_shown():
    def heard(message):
        raise KeyError(message)

    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with pytest.raises(KeyError, match="careful"), Ear(heard):
            warn()
        assert not shown
        warn()
        assert len(shown) == 1


def test_filters_that_were_exchanged_or_emptied_meanwhile_are_left_alone():
    with warnings.catch_warnings():
        ear = Ear(lambda message: None)
        ear.open()
        warnings.resetwarnings()
        ear.close()
        assert warnings.filters == []
        ear.open()
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            ear.close()
            warn()
        assert warnings.filters == []


def test_an_ear_is_no_setting():
    before = mode()
    with Heard():
        assert mode() == before
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        assert mode() != before


def test_what_is_unheard_in_one_thread_is_heard_in_another():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with unheard():
            warn()
            assert not shown
            in_another_thread(warn)
        assert len(shown) == 1


def test_what_fails_in_one_thread_only_warns_in_another():
    with warnings.catch_warnings(record=True) as shown:
        warnings.simplefilter("always")
        with unheard("error"):
            with pytest.raises(RuntimeWarning):
                warn()
            in_another_thread(warn)
        assert len(shown) == 1


def test_filters_that_were_emptied_meanwhile_stay_empty():
    with warnings.catch_warnings():
        with unheard():
            warnings.resetwarnings()
        assert warnings.filters == []
