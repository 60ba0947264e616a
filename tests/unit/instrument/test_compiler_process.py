"""The compiler process answers what the work done here gives; killed, hanging or unstartable it answers No."""

from __future__ import annotations

import os
import select
import signal
import stat
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument import compiler_process, compiler_requests
from codedag.instrument.cache import Cache, Entry
from codedag.instrument.compiler_process import KINDS, CompilerProcess, Ticket
from codedag.instrument.instrumented_file import DOUBLED, FULL, InstrumentedFile
from codedag.ir.sha256 import sha256
from codedag.ir.verdict import Code, No

SOURCE = b"""
def f(x):
    with open(x) as file:
        y = file.read()
    for i in range(3):
        y = y + str(i)
    return (y + "a") * 2
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("CODEDAG_HOME", str(tmp_path / "home"))
    return tmp_path / "home"


@pytest.fixture
def compiler() -> Iterator[CompilerProcess]:
    process = CompilerProcess(only_idle=False)  # a machine that runs tests may have no idle core for long
    yield process
    process.close()


@pytest.fixture
def source(tmp_path: Path) -> str:
    path = tmp_path / "m.py"
    path.write_bytes(SOURCE)
    return str(path)


def answer(compiler: CompilerProcess, ticket: Ticket, seconds: float = 300.0) -> Any:
    until = time.monotonic() + seconds
    while not ticket.is_answered and time.monotonic() < until:
        if compiler.descriptor() >= 0:
            select.select([compiler.descriptor()], [], [], 0.1)
        compiler.poll()
    assert ticket.is_answered
    return ticket.answer


def _pid(compiler: CompilerProcess) -> int:
    return int(answer(compiler, compiler.ask("pid")))


@pytest.fixture(autouse=True)
def kinds(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows that only these tests need: what a room does that adds requests of its own."""
    monkeypatch.setitem(KINDS, "pid", "codedag.instrument.compiler_main:os.getpid")


def test_answers_are_those_of_the_same_work_done_here(compiler: CompilerProcess, source: str, home: Path) -> None:
    number = sha256(SOURCE).hexdigest()
    tickets = {
        "rewrite": compiler.ask("rewrite", source, number, (), False, FULL),
        "lean": compiler.ask("lean", source, number, (), False, (3,)),
        "links": compiler.ask("links", source, number, (), False, False),
        "opened": compiler.ask("opened", source, number, (), False, False),
        "digests": compiler.ask("digests", source, number),
        "compiled_names": compiler.ask("compiled_names", (source,)),
    }
    for ticket in tickets.values():
        answer(compiler, ticket)
    file = InstrumentedFile(source, SOURCE, main=False)
    assert Entry(*tickets["rewrite"].answer).digests == file.entry.digests == tickets["digests"].answer
    assert tickets["links"].answer == compiler_requests.links(source, number, (), False, False)
    assert tickets["opened"].answer == compiler_requests.opened(source, number, (), False, False)
    assert tickets["links"].answer
    assert tickets["opened"].answer
    assert tickets["lean"].answer == compiler_requests.lean(source, number, (), False, (3,))
    assert tickets["compiled_names"].answer == ()
    stored = Cache(home / "cache" / "code").load(source, number, FULL)
    assert stored is not None
    assert stored.digests == file.entry.digests


def test_a_file_takes_links_and_lean_code_from_the_process(
    compiler: CompilerProcess, source: str, monkeypatch: Any
) -> None:
    file = InstrumentedFile(source, SOURCE, main=False)
    expected = file.links, file.opened
    fresh = InstrumentedFile(source, SOURCE, main=False, entry=file.entry)
    assert not fresh.ask_ahead(compiler, {3})
    for ticket in fresh._answers.values():
        answer(compiler, ticket)
    assert fresh.ask_ahead(compiler, {3})
    monkeypatch.setattr("codedag.instrument.instrumented_file.parsed", None)  # nothing is parsed here
    monkeypatch.setattr(compiler_requests, "parsed", None)
    assert (fresh.links, fresh.opened) == expected
    code = next(c for c in fresh.only({3}).co_consts if hasattr(c, "co_code"))
    assert sum(type(c).__name__ == "Site" for c in code.co_consts) == 1


def test_a_source_that_changed_meanwhile_is_not_rewritten(compiler: CompilerProcess, source: str) -> None:
    found = answer(compiler, compiler.ask("rewrite", source, "0" * 64, (), False, DOUBLED))
    assert isinstance(found, No)
    assert found.code is Code.FAILED
    assert "changed" in found.reason


def test_unknown_requests_and_values_that_cannot_be_sent_are_no(compiler: CompilerProcess) -> None:
    assert compiler.ask("what").answer.code is Code.FAILED
    assert compiler.ask("digests", object()).answer.code is Code.FAILED
    found = answer(compiler, compiler.ask("digests", "/nowhere/at/all.py", ""))
    assert (found.code, "all.py" in found.reason) == (Code.FAILED, True)


def test_a_read_only_cache_folder_only_costs_time(compiler: CompilerProcess, source: str, home: Path) -> None:
    folder = home / "cache" / "code"
    folder.mkdir(parents=True, mode=0o700)
    folder.chmod(stat.S_IRUSR | stat.S_IXUSR)
    found = answer(compiler, compiler.ask("rewrite", source, sha256(SOURCE).hexdigest(), (), False, FULL))
    folder.chmod(0o700)
    assert Entry(*found).digests


def test_a_process_that_is_killed_is_started_again(compiler: CompilerProcess, source: str) -> None:
    first = _pid(compiler)
    os.kill(first, signal.SIGKILL)
    found = answer(compiler, compiler.ask("digests", source, ""))
    assert isinstance(found, dict)
    assert _pid(compiler) != first


def test_a_request_that_kills_the_process_is_no_and_the_next_one_is_answered(
    compiler: CompilerProcess, source: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setitem(KINDS, "die", "codedag.instrument.compiler_main:os._exit")
    bad, good = compiler.ask("die", 3), compiler.ask("digests", source, "")
    assert answer(compiler, bad).code is Code.DIED
    assert isinstance(answer(compiler, good), dict)


def test_a_process_that_hangs_is_given_up(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(KINDS, "hang", "codedag.instrument.compiler_main:select.select")
    compiler = CompilerProcess(seconds_max=300.0, only_idle=False)
    pid = _pid(compiler)
    compiler._seconds_max = 0.5
    hanging, behind = compiler.ask("hang", (), (), (), 600), compiler.ask("digests", source, "")
    assert answer(compiler, hanging).code is Code.HUNG
    assert answer(compiler, behind).code is Code.HUNG
    compiler._seconds_max = 300.0
    assert _is_gone(pid)
    assert isinstance(answer(compiler, compiler.ask("digests", source, "")), dict)
    compiler.close()


def _is_gone(pid: int) -> bool:
    for _ in range(500):
        try:
            os.kill(pid, 0)
        except ProcessLookupError:
            return True
        if " Z " in Path(f"/proc/{pid}/stat").read_text():
            return True  # ended; whoever adopted it has not looked yet
        time.sleep(0.02)
    return False


def test_a_process_that_cannot_be_started_is_no(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    for executable in ("/nowhere/python", "/bin/false"):
        monkeypatch.setattr(sys, "executable", executable)
        compiler = CompilerProcess(only_idle=False)
        found = answer(compiler, compiler.ask("digests", source, ""))
        assert isinstance(found, No)
        assert found.code in (Code.UNSTARTABLE, Code.DIED)
        assert compiler._starts - 1 <= compiler_process.STARTS_WITHOUT_ANSWER_MAX
    monkeypatch.setattr(compiler_process.subprocess, "Popen", _refuses)
    assert CompilerProcess().ask("digests", source, "").answer.code is Code.UNSTARTABLE


def _refuses(*args: Any, **keywords: Any) -> None:
    raise OSError("no more processes")


def test_modules_are_found_where_a_relative_path_names_them(source: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(Path(compiler_process.__file__).parents[2])
    compiler = CompilerProcess({**os.environ, "PYTHONPATH": "."}, only_idle=False)
    monkeypatch.chdir("/")
    assert isinstance(answer(compiler, compiler.ask("digests", source, "")), dict)
    compiler.close()


def test_closing_ends_the_process_and_answers_no(source: str) -> None:
    compiler = CompilerProcess(only_idle=False)
    pid = _pid(compiler)
    waiting = compiler.ask("digests", source, "")
    compiler.close()
    assert waiting.answer.code is Code.ENDED
    assert compiler.ask("digests", source, "").answer.code is Code.ENDED
    assert _is_gone(pid)


@pytest.mark.skipif(not hasattr(os, "SCHED_IDLE"), reason="the system has no idle class")
def test_the_process_is_no_child_comes_last_and_has_nothing_of_the_programs_output() -> None:
    compiler = CompilerProcess(seconds_max=300.0)
    pid = _pid(compiler)
    assert os.sched_getscheduler(pid) == os.SCHED_IDLE
    assert Path(f"/proc/{pid}/fd/1").readlink() == Path("/dev/null")
    with pytest.raises(ChildProcessError):
        os.waitpid(pid, os.WNOHANG)
    compiler.close()


def test_a_forked_process_has_no_connection(compiler: CompilerProcess) -> None:
    _pid(compiler)
    child = os.fork()
    if child == 0:
        os._exit(0 if compiler.descriptor() == -1 and not compiler.is_busy() else 1)
    assert os.waitpid(child, 0)[1] == 0
    assert isinstance(_pid(compiler), int)


def test_an_answer_that_was_given_before_needs_no_process(compiler: CompilerProcess, source: str):
    request = ("links", source, sha256(SOURCE).hexdigest(), (), False, False)
    first = answer(compiler, compiler.ask(*request))
    again = CompilerProcess(only_idle=False)
    ticket = again.ask(*request)
    assert ticket.is_answered
    assert ticket.answer == first
    assert not again.is_running()
    other = again.ask("links", source, "0" * 64, (), False, False)  # another source: it must be looked at
    assert isinstance(answer(again, other), No)
    again.close()


def test_names_read_by_other_compilers_are_looked_for_again_in_an_edited_source(compiler: CompilerProcess, source: str):
    assert answer(compiler, compiler.ask("compiled_names", (source,))) == ()
    assert compiler.ask("compiled_names", (source,)).is_answered
    Path(source).write_bytes(SOURCE + b"import numba\n@numba.njit\ndef g(x): return x\n")
    ticket = compiler.ask("compiled_names", (source,))
    assert not ticket.is_answered
    assert not isinstance(answer(compiler, ticket), No)


def test_no_process_is_started_before_it_may_be(source: str):
    may: list[bool] = []
    compiler = CompilerProcess(only_idle=False, may_start=lambda: bool(may))
    ticket = compiler.ask("digests", source, sha256(SOURCE).hexdigest())
    compiler.poll()
    assert (compiler.is_running(), compiler.is_busy(), ticket.is_answered) == (False, True, False)
    may.append(True)
    assert answer(compiler, ticket) == compiler_requests.digests(source, "")
    assert compiler.cpu_seconds() >= 0.0
    compiler.close()
    late = CompilerProcess(only_idle=False, may_start=lambda: False)
    ticket = late.ask("digests", source, "")
    late.close()
    assert isinstance(ticket.answer, No)
