"""The page itself: style, script and facts in one file that asks nobody for anything."""

from __future__ import annotations

import base64
import hashlib
import zlib
from functools import cache
from html import escape
from pathlib import Path

import msgspec

from codedag.ir import Graph, RunDirectory, write_atomically
from codedag.view.html.facts import facts

PLAIN_MAX = 120_000  # characters of data that stand in the page as they are
#: In this order: each may use what stands before it.
SCRIPTS = (
    "base.js",
    "simulate.js",
    "speed.js",
    "heat.js",
    "summary.js",
    "layout.js",
    "columns.js",
    "fold.js",
    "graph.js",
    "icicle.js",
    "timeline.js",
    "operations.js",
    "plan.js",
    "log.js",
    "memory.js",
    "method.js",
    "start.js",
)


def write_page(
    run: RunDirectory, file: Path, recovered: Graph | None = None, advised: list[str] | None = None
) -> int:  # fmt: skip
    """Writes the page of a run and returns its size in bytes; `advised`: sentences of what could be saved by hand."""
    made = document(data_of(run, recovered, advised)).encode()
    write_atomically(file, made)
    return len(made)


def page(run: RunDirectory, recovered: Graph | None = None) -> str:
    """The page of a run as HTML text."""
    return document(data_of(run, recovered))


def data_of(run: RunDirectory, recovered: Graph | None = None, advised: list[str] | None = None) -> str:
    """The facts of a run as JSON text; characters that are not seen, or that turn text around, are spelled out."""
    return msgspec.json.encode(_spelled(facts(run, recovered, advised))).decode()


def document(data: str, live: str = "") -> str:
    """A page with this data; `live` is the address from which it asks for newer data, if any."""
    script, style = assets()
    # Only our own script may run, whatever the data says, and nothing may be loaded from anywhere.
    digest = base64.b64encode(hashlib.sha256(script.encode()).digest()).decode()
    connect = "connect-src 'self'; " if live else ""
    policy = f"default-src 'none'; {connect}img-src data:; style-src 'unsafe-inline'; script-src 'sha256-{digest}'"
    return (
        '<!doctype html>\n<html lang="en">\n<head>\n<meta charset="utf-8">\n'
        f'<meta http-equiv="Content-Security-Policy" content="{policy}">\n'
        '<meta name="viewport" content="width=device-width, initial-scale=1">\n'
        '<meta name="color-scheme" content="light dark">\n<title>CodeDAG report</title>\n'
        '<link rel="icon" href="data:,">\n'
        f'<style>\n{style}</style>\n</head>\n<body data-live="{escape(live)}">\n'
        '<noscript><p class="noscript">This report draws itself with a script that is inside this file. '
        "Allow scripts for it, or use <code>codedag view RUN</code> in a terminal.</p></noscript>\n"
        f"{_element(data)}\n"
        f"<script>{script}</script>\n</body>\n</html>\n"
    )


def _element(data: str) -> str:
    """The element that holds the data: as JSON that one can read, or, of a large run, deflated."""
    if len(data) <= PLAIN_MAX:
        return f'<script type="application/json" id="data">{_inert(data)}</script>'
    packed = zlib.compress(data.encode(), 9, -zlib.MAX_WBITS)
    return f'<script type="text/plain" id="data">{base64.b64encode(packed).decode()}</script>'


def _inert(data: str) -> str:
    """JSON that is the same as JSON and is nothing but text as HTML: no name in it can end the element."""
    for raw in "<>&\u2028\u2029":
        data = data.replace(raw, f"\\u{ord(raw):04x}")
    return data


@cache
def assets() -> tuple[str, str]:
    """The script and the style of the page."""
    folder = Path(__file__).parent / "assets"
    lines = "".join((folder / name).read_text(encoding="utf-8") for name in SCRIPTS).splitlines()
    code = (line.strip() for line in lines if not line.strip().startswith("//"))  # no text of ours has two lines
    return "\n".join(['"use strict";', *filter(None, code), ""]), (folder / "style.css").read_text(encoding="utf-8")


def _spelled(value: object) -> object:
    if isinstance(value, str):
        return value if value.isprintable() else _visible(value)
    if isinstance(value, list):
        return [one if isinstance(one, int | float) else _spelled(one) for one in value]
    if isinstance(value, dict):
        return {_spelled(key): _spelled(part) for key, part in value.items()}
    return value


def _visible(text: str) -> str:
    """Text of which everything is seen: a name may hold controls that hide or turn around what follows."""
    words = " ".join(text.split("\n"))
    return "".join(letter if letter.isprintable() else ascii(letter)[1:-1] for letter in words)
