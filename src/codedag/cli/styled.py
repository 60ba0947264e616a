"""Lines on a terminal: colours, and file names as links (OSC 8); everywhere else the text alone."""

from __future__ import annotations

import os
import re
from io import StringIO
from pathlib import Path
from urllib.parse import quote

from codedag.cli.options import PREFIX, shown
from codedag.view.summary import Line

#: A template for links to a file and line, such as vscode://file/{file}:{line}; a browser opens file: links.
EDITOR = "CODEDAG_EDITOR"


def is_wanted(descriptor: int | None) -> bool:
    """Whether this is a terminal that shows colours; NO_COLOR and TERM=dumb say no."""
    if descriptor is None or os.environ.get("NO_COLOR") or os.environ.get("TERM", "dumb") == "dumb":
        return False
    try:
        return os.isatty(descriptor)
    except OSError:
        return False


def rendered(lines: list[Line]) -> str:
    """The lines as a terminal shows them."""
    from rich.console import Console
    from rich.style import Style
    from rich.text import Text

    out = StringIO()
    console = Console(file=out, force_terminal=True, width=10_000, legacy_windows=False, emoji=False, highlight=False)
    for line in lines:
        text = Text(PREFIX)
        for span in line:
            style = Style.parse(span.style) if span.style else Style()
            text.append(shown(span.text), style + Style(link=address(span.link)) if span.link else style)
        console.print(text, soft_wrap=True)
    return out.getvalue()


def address(link: str) -> str:
    """The address of a file, with a line if it names one: by the template of the environment, else as file:."""
    place = re.fullmatch(r"(.*?):(\d+)(?:-\d+)?", link)
    file, line = (place[1], place[2]) if place else (link, "")
    path = quote(str(Path(file).absolute()))
    template = os.environ.get(EDITOR, "")
    if line and "{file}" in template:
        return template.replace("{file}", path).replace("{line}", line)
    return f"file://{path}"
