"""`codedag view RUN --serve`: on this machine only, for who has the address, and live while files change."""

from __future__ import annotations

import json
import os
import signal
import socket
import subprocess
import sys
import threading
import time
import urllib.error
import urllib.request

import pytest
import report_runs
from browser import CHROMIUM, Browser

from codedag.ir import save
from codedag.trace.session import recovered
from codedag.view.serve import Server


@pytest.fixture
def run(tmp_path):
    folder = tmp_path / "run"
    folder.mkdir()
    report_runs.info(folder, status="running", exit_code=None, command="trace")
    return folder


@pytest.fixture
def server(run):
    with Server(run, 0, recovered) as found:
        thread = threading.Thread(target=found.serve)
        thread.start()
        yield found
        found.stop()
        thread.join()


def _ask(address: str, **headers: str) -> tuple[int, bytes, str]:
    try:
        with urllib.request.urlopen(urllib.request.Request(address, headers=headers), timeout=600) as answer:
            return answer.status, answer.read(), answer.headers.get("ETag") or ""
    except urllib.error.HTTPError as error:
        with error:
            return error.code, error.read(), ""


def test_the_page_and_its_data_are_served(server):
    status, page, _ = _ask(server.address)
    assert status == 200
    assert b'data-live="data.json"' in page
    status, data, version = _ask(f"{server.address}data.json")
    assert status == 200
    assert json.loads(data)["run"]["status"] == "running"
    assert _ask(f"{server.address}data.json?version={version}")[:2] == (204, b"")


def test_newer_data_is_given_when_a_file_has_changed(server, run):
    _, _, version = _ask(f"{server.address}data.json")
    save(report_runs.graph(30), run / "graph.json")
    for _ in range(1200):  # it is made anew when that is due
        status, data, newer = _ask(f"{server.address}data.json?version={version}")
        if status == 200:
            break
        assert (status, data) == (204, b"")
        time.sleep(0.05)
    assert newer not in ("", version)
    assert json.loads(data)["whole"]["operations"] == 30


def test_nothing_is_said_without_the_token_or_under_another_name(server):
    root = server.address.rsplit("/", 2)[0]
    for address in (f"{root}/", f"{root}/wrong/", f"{root}/wrong/data.json", f"{server.address}run.json"):
        status, said, _ = _ask(address)
        assert status == 404
        assert b"train.py" not in said
    assert _ask(server.address, Host="attacker.example:80")[0] == 404


def test_only_this_machine_is_listened_on(server):
    assert server.address.startswith("http://127.0.0.1:")
    port = int(server.address.split(":")[2].split("/")[0])
    others = {info[4][0] for info in socket.getaddrinfo(socket.gethostname(), None, socket.AF_INET)} - {"127.0.0.1"}
    for address in others:
        if not address.startswith("127."):
            with socket.socket() as knocking:
                knocking.settimeout(5)
                assert knocking.connect_ex((address, port)) != 0


def test_a_port_that_is_taken_is_an_error_that_says_so(codedag, run):
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        port = other.getsockname()[1]
        said = codedag("view", "run", "--serve", "--port", port)
    assert said.returncode == 2
    assert f"cannot listen on port {port}" in said.stderr
    assert "--port" in said.stderr
    assert "cannot-serve" in said.stderr


def test_the_command_prints_the_address_and_ends_with_an_interrupt(run):
    command = [sys.executable, "-m", "codedag", "view", str(run), "--serve"]
    with subprocess.Popen(
        command, stdout=subprocess.PIPE, text=True, env={**os.environ, "PYTHONUNBUFFERED": "1"}
    ) as child:
        assert child.stdout is not None
        address = child.stdout.readline().removeprefix("report: ").strip()
        assert _ask(address)[0] == 200
        child.send_signal(signal.SIGINT)
        assert child.wait(timeout=600) == 0


@pytest.mark.skipif(not CHROMIUM, reason="there is no Chromium here (Debian package: chromium)")
def test_an_open_page_follows_the_run(server, run):
    with Browser() as browser:
        browser.open(server.address)
        browser.run("window.same = true")
        assert "running" in browser.run("document.querySelector('header').innerText")
        save(report_runs.graph(30), run / "graph.json")
        report_runs.info(run, command="trace")
        browser.wait("document.querySelector('header').innerText.includes('finished')")
        browser.wait("document.querySelector('main').innerText.includes('30 recorded operations')")
        assert browser.run("window.same") is True  # it was not loaded again
        assert browser.complaints == []
        assert all(one.startswith((server.address, "data:")) for one in browser.requests)
