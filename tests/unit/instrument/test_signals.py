"""What a signal raised goes through; what a statement raised is tried again as written."""

import signal
import threading

import pytest

from codedag.instrument.guard import on_trial


def raises(kind):
    raise kind


@pytest.mark.parametrize("kind", [ValueError, SystemExit, KeyboardInterrupt, GeneratorExit, BaseException])
def test_what_a_statement_raises_is_told(kind):
    assert on_trial(raises, kind) == (None, kind.__name__)


def test_ctrl_c_is_never_taken():
    with pytest.raises(KeyboardInterrupt):
        on_trial(signal.raise_signal, signal.SIGINT)
    with pytest.raises(KeyboardInterrupt):
        on_trial(lambda: [signal.raise_signal(signal.SIGINT) for _ in range(3)])


def test_what_a_handler_raises_is_never_taken():
    before = signal.signal(signal.SIGUSR1, lambda *_: raises(SystemExit))
    try:
        with pytest.raises(SystemExit):
            on_trial(signal.raise_signal, signal.SIGUSR1)
    finally:
        signal.signal(signal.SIGUSR1, before)


def test_no_interrupt_comes_to_another_thread():
    told = []
    thread = threading.Thread(target=lambda: told.append(on_trial(int, InterruptingNumber())))
    thread.start()
    thread.join()
    assert told == [(None, "KeyboardInterrupt")]


class InterruptingNumber:
    """A number whose making is interrupted by no statement of the function that asks for it."""

    def __int__(self):
        return next(iter_that_interrupts())


def iter_that_interrupts():
    raise KeyboardInterrupt
    yield
