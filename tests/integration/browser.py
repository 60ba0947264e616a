"""A real headless Chromium, driven over a pipe: what a page says, shows and asks for."""

from __future__ import annotations

import base64
import json
import os
import select
import shutil
import subprocess
import tempfile
import time
from pathlib import Path
from typing import Any

CHROMIUM = shutil.which("chromium") or shutil.which("chromium-browser") or shutil.which("google-chrome")
PATIENCE = 300.0


class Browser:
    """One browser with one tab; use it as a context manager."""

    def __init__(self, width: int = 1500, height: int = 1000) -> None:
        assert CHROMIUM
        self.complaints: list[str] = []
        self.requests: list[str] = []
        self._folder = tempfile.mkdtemp(prefix="codedag-browser-")
        to_read, self._write = os.pipe()
        self._read, to_write = os.pipe()
        flags = ["--headless=new", "--no-sandbox", "--disable-gpu", "--remote-debugging-pipe", "--no-first-run"]
        flags += ["--disable-background-networking", "--disable-dev-shm-usage", f"--user-data-dir={self._folder}"]
        # Chromium reads commands from 3 and answers on 4
        script = f'exec 3<&{to_read} 4>&{to_write}; exec "$0" "$@"'
        self._process = subprocess.Popen(
            ["bash", "-c", script, CHROMIUM, *flags, "about:blank"], pass_fds=(to_read, to_write),
            stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
        )  # fmt: skip
        os.close(to_read)
        os.close(to_write)
        self._rest, self._number, self._session = b"", 0, ""
        targets = self._send("Target.getTargets")["targetInfos"]
        page = next(one["targetId"] for one in targets if one["type"] == "page")
        self._session = self._send("Target.attachToTarget", targetId=page, flatten=True)["sessionId"]
        for domain in ("Page", "Runtime", "Log", "Network"):
            self._send(f"{domain}.enable")
        self.resize(width, height)

    def __enter__(self) -> Browser:
        return self

    def __exit__(self, *_: object) -> None:
        self._process.kill()
        self._process.wait()
        os.close(self._write)
        os.close(self._read)
        shutil.rmtree(self._folder, ignore_errors=True)

    def resize(self, width: int, height: int) -> None:
        self._send("Emulation.setDeviceMetricsOverride", width=width, height=height, deviceScaleFactor=1, mobile=False)

    def theme(self, name: str) -> None:
        self._send("Emulation.setEmulatedMedia", features=[{"name": "prefers-color-scheme", "value": name}])

    def open(self, address: str) -> float:
        """Opens a page and returns the seconds until it can be used."""
        begun = time.perf_counter()
        self._send("Page.navigate", url=address)
        self.wait("document.body && document.body.dataset.ready === 'yes'")
        return time.perf_counter() - begun

    def wait(self, expression: str) -> None:
        """Waits until an expression is true."""
        until = time.monotonic() + PATIENCE
        while not self.run(expression):
            assert time.monotonic() < until, f"never true: {expression}; {self.complaints}"
            time.sleep(0.02)

    def run(self, expression: str) -> Any:
        """The value of an expression in the page."""
        done = self._send("Runtime.evaluate", expression=expression, returnByValue=True, awaitPromise=True)
        assert "exceptionDetails" not in done, done["exceptionDetails"]
        return done["result"].get("value")

    def press(self, key: str) -> None:
        text = key if len(key) == 1 else "\r" if key == "Enter" else None
        more = {"text": text} if text else {}
        for kind in ("keyDown", "keyUp"):
            self._send("Input.dispatchKeyEvent", type=kind, key=key, **(more if kind == "keyDown" else {}))

    def click(self, selector: str) -> None:
        """A real click in the middle of the first element that fits."""
        box = self.run(
            f"(() => {{ const e = document.querySelector({json.dumps(selector)});"
            " e.scrollIntoView({block: 'center'});"
            " const r = e.getBoundingClientRect(); return [r.x + r.width / 2, r.y + r.height / 2]; })()"
        )
        for kind in ("mousePressed", "mouseReleased"):
            self._send("Input.dispatchMouseEvent", type=kind, x=box[0], y=box[1], button="left", clickCount=1)

    def picture(self, file: Path) -> None:
        file.write_bytes(base64.b64decode(self._send("Page.captureScreenshot", format="png")["data"]))

    def _send(self, method: str, **parameters: Any) -> dict[str, Any]:
        self._number += 1
        message: dict[str, Any] = {"id": self._number, "method": method, "params": parameters}
        if self._session:
            message["sessionId"] = self._session
        left = json.dumps(message).encode() + b"\0"
        while left:
            left = left[os.write(self._write, left[: 1 << 16]) :]
        while True:
            told = self._receive()
            if told.get("id") == self._number:
                assert "error" not in told, told
                return told["result"]
            self._heard(told)

    def _receive(self) -> dict[str, Any]:
        until = time.monotonic() + PATIENCE
        while b"\0" not in self._rest:
            ready, _, _ = select.select([self._read], [], [], max(until - time.monotonic(), 0))
            assert ready, "the browser does not answer"
            part = os.read(self._read, 1 << 20)
            assert part, "the browser has ended"
            self._rest += part
        first, _, self._rest = self._rest.partition(b"\0")
        return json.loads(first)

    def _heard(self, told: dict[str, Any]) -> None:
        method, said = told.get("method"), told.get("params", {})
        if method == "Runtime.exceptionThrown":
            self.complaints.append(json.dumps(said["exceptionDetails"])[:2000])
        elif method == "Log.entryAdded" and said["entry"]["level"] in ("error", "warning"):
            self.complaints.append(said["entry"]["text"])
        elif method == "Runtime.consoleAPICalled" and said["type"] in ("error", "warning", "assert"):
            self.complaints.append(str(said["args"]))
        elif method == "Network.requestWillBeSent":
            self.requests.append(said["request"]["url"])
