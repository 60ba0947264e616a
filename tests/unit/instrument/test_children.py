"""Followers of child processes: which events they get, in which order, and what multiprocessing has afterwards."""

from __future__ import annotations

import functools
import multiprocessing.spawn as spawn
import os
import pickle
import sys
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument import children
from codedag.instrument.children import Follower, ReportFolder, follow, unfollow
from codedag.ir.errors import CannotWrite

HEARD: list[str] = []


class Spy(Follower):
    """Keeps the events that it gets, with its name."""

    def __init__(self, name: str = "spy", ticket: Any = None) -> None:
        self.name = name
        self.given = ticket

    def before_fork(self) -> None:
        HEARD.append(f"{self.name} before")

    def after_fork(self) -> None:
        HEARD.append(f"{self.name} after")

    def in_fork(self) -> None:
        HEARD.append(f"{self.name} in")

    def begin_worker(self) -> None:
        HEARD.append(f"{self.name} begins")

    def end_worker(self) -> None:
        HEARD.append(f"{self.name} ends")

    def ticket(self, main: str | None) -> Any:
        if self.given == "broken":
            raise ValueError
        return self.given

    @staticmethod
    def arrive(ticket: Any) -> None:
        follow(Spy("arrived"))
        if ticket["fails"]:
            raise LookupError("no")

    @staticmethod
    def stay_away(ticket: Any, reason: str) -> None:
        HEARD.append(reason)


@pytest.fixture(autouse=True)
def _alone(monkeypatch):
    HEARD.clear()
    hook = children._spawn_hook
    monkeypatch.setattr(children, "_state", children._State())
    monkeypatch.setattr(children._state, "hears_forks", True)  # by this interpreter: events are sent by hand
    yield
    children._state.followers = ()
    hook.remove()


def test_forks_are_told_like_the_layers_of_an_onion():
    first, second = Spy("first"), Spy("second")
    follow(first)
    follow(second)
    follow(first)  # again: it is told once, as the last one
    children._before_fork()
    children._after_fork()
    assert HEARD == ["first before", "second before", "second after", "first after"]


def test_locks_are_renewed_before_anyone_is_told():
    follow(Spy())
    children.renew_in_fork(lambda: HEARD.append("renewed"))
    children._in_fork()
    assert HEARD == ["renewed", "spy in"]


@pytest.mark.skipif(not hasattr(os, "fork"), reason="forks")
def test_a_real_fork_is_told(tmp_path):
    code = (
        "import os, sys; sys.path.insert(0, sys.argv[1]); import test_children as t\n"
        "from codedag.instrument.children import follow\n"
        "follow(t.Spy())\n"
        "process = os.fork()\n"
        "print(t.HEARD, flush=True) if not process else os.waitpid(process, 0)\n"
        "os._exit(0) if not process else print(t.HEARD)\n"
    )
    import subprocess

    command = [sys.executable, "-c", code, str(Path(__file__).parent)]
    done = subprocess.run(command, capture_output=True, text=True, timeout=120, check=True)
    assert done.stdout.splitlines() == ["['spy before', 'spy in']", "['spy before', 'spy after']"]


def test_multiprocessing_has_its_function_back_after_the_last_follower():
    original, finders = spawn.get_preparation_data, list(sys.meta_path)
    first, second = Spy(ticket={"fails": False}), Spy()
    follow(first)
    follow(second)
    unfollow(second)
    assert "codedag" in spawn.get_preparation_data("x")
    unfollow(first)
    assert spawn.get_preparation_data is original
    assert sys.meta_path == finders
    unfollow(first)  # once more does nothing


def test_a_function_that_somebody_put_over_ours_stays(monkeypatch):
    original = spawn.get_preparation_data
    monkeypatch.setattr(spawn, "get_preparation_data", original)  # put back at the end
    follower = Spy(ticket={"fails": False})
    follow(follower)
    ours = spawn.get_preparation_data
    theirs = functools.wraps(ours)(lambda name: ours(name))
    spawn.get_preparation_data = theirs
    unfollow(follower)
    assert spawn.get_preparation_data is theirs
    assert "codedag" not in theirs("x")
    follow(follower)
    assert spawn.get_preparation_data is theirs, "not wrapped a second time"
    assert "codedag" in theirs("x")
    unfollow(follower)
    children._spawn_hook._original = None


def test_without_a_ticket_nothing_travels():
    follow(Spy())
    follow(Spy(ticket="broken"))
    assert "codedag" not in spawn.get_preparation_data("x")


@pytest.mark.parametrize(("fails", "heard"), [(False, ["arrived begins"]), (True, ["LookupError: no"])])
def test_a_spawned_process_gets_the_tickets(fails, heard):
    follower = Spy(ticket={"fails": fails})
    follow(follower)
    sent = pickle.dumps(spawn.get_preparation_data("x")["codedag"])
    unfollow(follower)
    assert pickle.loads(sent) is None
    assert heard == HEARD
    children._end_worker()
    assert ("arrived ends" in HEARD) is not fails


def test_a_report_is_read_once_per_version(tmp_path):
    folder = ReportFolder(tmp_path / "reports")
    assert folder.changed() == []
    folder.prepare()
    folder.write("1-7", b"{}")
    folder.write("2-8", b"{}")
    assert [path.name for path in folder.changed()] == ["1-7.json", "2-8.json"]
    assert folder.changed() == []
    assert [path.name for path in folder.paths("2-")] == ["2-8.json"]
    folder.prepare()
    assert folder.paths() == []


def test_a_folder_that_cannot_be_made_is_said_and_used_no_more(tmp_path):
    (tmp_path / "file").write_text("")
    folder = ReportFolder(tmp_path / "file" / "reports")
    folder.prepare()
    assert "workers could not report" in folder.failure
    folder.write("1", b"")
    assert folder.changed() == []


def test_a_report_for_a_folder_that_is_gone_does_not_make_it(tmp_path):
    folder = ReportFolder(tmp_path / "gone")
    with pytest.raises(CannotWrite):
        folder.write("1", b"")
    assert not (tmp_path / "gone").exists()


def test_a_temporary_folder_is_removed_by_its_own_process_only(tmp_path):
    children._remove(tmp_path, os.getpid() + 1)
    assert tmp_path.exists()
    children._remove(tmp_path, os.getpid())
    assert not tmp_path.exists()
