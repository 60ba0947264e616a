"""The report served to a browser on this machine, with newer data while the run goes on.

Only the loopback interface is listened on, and only addresses that begin with a random token are answered: another
user of the machine, or a page in the same browser that guesses the port, gets nothing.
"""

from __future__ import annotations

import hmac
import secrets
from collections.abc import Callable
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from threading import Lock
from time import monotonic, thread_time
from types import TracebackType
from urllib.parse import parse_qs, urlsplit

from codedag.ir import CodedagError, Graph, RunDirectory
from codedag.view.html.page import data_of, document

HOST = "127.0.0.1"
SHARE = 100  # making data anew may take one part in so many of the time: the run needs the processor
LONGEST_SECONDS = 30.0  # between one and the next, however long it takes

Recover = Callable[[Path], Graph | None]


class CannotServe(CodedagError):  # noqa: N818 - reads as what happened
    """A port that cannot be listened on."""

    slug = "cannot-serve"


class Server:
    """Serves one run; use it as a context manager."""

    def __init__(self, path: Path, port: int, recover: Recover) -> None:
        self._run = _Live(path, recover)
        self._token = secrets.token_urlsafe(16)
        handler = type("Handler", (_Handler,), {"live": self._run, "token": self._token})
        try:
            self._server = ThreadingHTTPServer((HOST, port), handler)
        except OSError as error:
            raise CannotServe(
                f"cannot listen on port {port} of this machine: {error.strerror or error}",
                hint="Another server may use it. Name another one with --port, or none, and a free one is taken.",
            ) from error
        self._server.daemon_threads = True

    @property
    def address(self) -> str:
        """What to open in a browser."""
        return f"http://{HOST}:{self._server.server_address[1]}/{self._token}/"

    def serve(self) -> None:
        """Answers until it is interrupted or closed."""
        try:
            self._server.serve_forever(poll_interval=0.2)
        except KeyboardInterrupt:
            return

    def stop(self) -> None:
        """Makes `serve` return; to be called from another thread."""
        self._server.shutdown()

    def __enter__(self) -> Server:
        return self

    def __exit__(self, *_: type[BaseException] | BaseException | TracebackType | None) -> None:
        self._server.server_close()


class _Live:
    """The facts of a run, made anew when its files have changed."""

    def __init__(self, path: Path, recover: Recover) -> None:
        self._path, self._recover = path, recover
        self._lock = Lock()
        self._version, self._data, self._due = "", "", 0.0

    def data(self) -> tuple[str, str]:
        """The version and the facts as JSON."""
        with self._lock:
            begun, version = thread_time(), self._seen()
            if version != self._version and monotonic() >= self._due:
                self._data, self._version = self._made(), version
                self._due = monotonic() + min(SHARE * (thread_time() - begun), LONGEST_SECONDS)
            return self._version, self._data

    def _made(self) -> str:
        run = RunDirectory(self._path)
        return data_of(run, None if run.has("graph") else self._recover(self._path))

    def _seen(self) -> str:
        """What changes whenever a file of the run does."""
        marks = []
        for file in sorted([*self._path.glob("*"), *self._path.glob("records/*.json")]):
            try:
                found = file.stat()
            except OSError:  # replaced meanwhile
                continue
            marks.append(f"{file.name}:{found.st_mtime_ns}:{found.st_size}")
        return f"{hash(tuple(marks)) & (2**64 - 1):x}"


class _Handler(BaseHTTPRequestHandler):
    """Answers two addresses: the page and its data."""

    live: _Live
    token: str
    server_version, sys_version = "codedag", ""

    def do_GET(self) -> None:
        """Answers one request."""
        asked = urlsplit(self.path)
        own = hmac.compare_digest(asked.path.split("/")[1].encode(), self.token.encode())
        if not own or not self._is_local():
            self._answer(404, "text/plain", "There is nothing here: use the whole address that codedag printed.\n")
        elif asked.path == f"/{self.token}/":
            self._answer(200, "text/html", document(self.live.data()[1], live="data.json"))
        elif asked.path == f"/{self.token}/data.json":
            self._newer(parse_qs(asked.query).get("version", [""])[0])
        else:
            self._answer(404, "text/plain", "There is no such page.\n")

    def _is_local(self) -> bool:
        """Whether the browser asked for this machine by its own name, not for a name that only leads here."""
        return (self.headers.get("Host") or "").rpartition(":")[0] in (HOST, "localhost")

    def _newer(self, version: str) -> None:
        now, data = self.live.data()
        if version == now:
            self._answer(204, "application/json", "")
        else:
            self._answer(200, "application/json", data, now)

    def _answer(self, status: int, kind: str, words: str, version: str = "") -> None:
        body = words.encode()
        self.send_response(status)
        self.send_header("Content-Type", f"{kind}; charset=utf-8")
        self.send_header("Content-Length", str(len(body)))
        self.send_header("Cache-Control", "no-store")
        self.send_header("X-Content-Type-Options", "nosniff")
        self.send_header("Referrer-Policy", "no-referrer")
        if version:
            self.send_header("ETag", version)
        self.end_headers()
        if body:
            self.wfile.write(body)

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002
        """Says nothing: results are on stdout, and requests are no news."""
