"""Writes docs/reference/*.md from the code (commands, names, fields of files, libraries) and docs/adr/index.md.

The pages are not kept in the repository: `make docs` writes them, and then the site.

python scripts/write_reference.py
"""

from __future__ import annotations

import inspect
import json
import re
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import click

import codedag
import codedag.migrate
from codedag.backends.registry import all_substitutions
from codedag.cli.main import cli

ROOT = Path(__file__).resolve().parent.parent
DOCS = ROOT / "docs"
FOLDER = DOCS / "reference"
PUBLIC = {
    codedag: [name for name in codedag.__all__ if not name.startswith("__")],
    codedag.migrate: ["list_supported_functions"],
}
NOTE = "Written by `scripts/write_reference.py` from the code.\n"


def pages() -> dict[Path, str]:
    """The text of every page, by its place."""
    made = {
        FOLDER / "commands.md": _commands,
        FOLDER / "names.md": _names,
        FOLDER / "fields.md": _fields,
        FOLDER / "libraries.md": _libraries,
        DOCS / "adr" / "index.md": _decisions,
    }
    return {place: "\n".join(make()) + "\n" for place, make in made.items()}


# -- the command line ------------------------------------------------------------------------------------------------


def _commands() -> Iterator[str]:
    yield "# Commands\n"
    yield NOTE
    yield "Everything after the name of a script belongs to the script. Results go to stdout, CodeDAG's own words to"
    yield "stderr. Exit code 2 is an error of CodeDAG's own ([errors](../errors.md)).\n"
    yield from _options(cli)
    for path, command in _each(cli, ("codedag",)):
        yield f"\n## {' '.join(path)}\n"
        context = click.Context(command, info_name=" ".join(path))
        yield f"`{' '.join([*path, *command.collect_usage_pieces(context)])}`\n"
        yield inspect.cleandoc(command.help or "").replace("\b", "") + "\n"
        yield from _options(command)


def _each(group: click.Group, path: tuple[str, ...]) -> Iterator[tuple[tuple[str, ...], click.Command]]:
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        assert command is not None, name
        yield (*path, name), command
        if isinstance(command, click.Group):
            yield from _each(command, (*path, name))


def _options(command: click.Command) -> Iterator[str]:
    given = [option for option in command.params if isinstance(option, click.Option)]
    rows = [record for option in given if (record := option.get_help_record(click.Context(command)))]
    if rows:
        yield "| option | meaning |\n|---|---|"
    for name, meaning in rows:
        yield f"| `{_cell(name)}` | {_cell(meaning)} |"


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


# -- names -----------------------------------------------------------------------------------------------------------


def _names() -> Iterator[str]:
    yield "# Python names\n"
    yield NOTE
    yield "How they are used: [tracing from Python](../tracing_api.md), [plans in force](../migration.md),"
    yield "[experiments](../experiments.md).\n"
    for module, names in PUBLIC.items():
        yield f"\n## {module.__name__}\n"
        for name in names:
            yield from _name(f"{module.__name__}.{name}", getattr(module, name))


def _name(name: str, what: Any) -> Iterator[str]:
    if inspect.ismodule(what):  # codedag.trace is a package that can be called
        from codedag.api.tracing import trace as what
    yield f"### {name}\n"
    yield f"```text\n{name.rpartition('.')[2]}{_signature(what)}\n```\n"
    yield f"{inspect.cleandoc(what.__doc__ or '')}\n"
    for each, member in sorted(_members(what)):
        first = inspect.cleandoc(member.__doc__).splitlines()[0]
        call = (
            "" if isinstance(member, property) else _signature(member).replace("(self, ", "(").replace("(self)", "()")
        )
        yield f"* `{each}{call}`: {first}"
    yield ""


def _signature(what: Any) -> str:
    """How it is called; types as they are written in the source, a class without what its __init__ returns."""
    try:
        text = re.sub(r"(: |-> )'([^']*)'", r"\1\2", str(inspect.signature(what)))
    except (TypeError, ValueError):
        return ""
    return text.removesuffix(" -> None") if inspect.isclass(what) else text


def _members(what: Any) -> list[tuple[str, Any]]:
    """The public methods and properties of a class that say what they give."""
    if not inspect.isclass(what):
        return []
    found = {name: inspect.getattr_static(what, name) for name in dir(what) if not name.startswith("_")}
    found = {name: getattr(member, "__func__", member) for name, member in found.items()}
    return [(n, m) for n, m in found.items() if (inspect.isfunction(m) or isinstance(m, property)) and m.__doc__]


# -- files, libraries, decisions -------------------------------------------------------------------------------------


def _fields() -> Iterator[str]:
    yield "# Fields of the files\n"
    yield NOTE
    yield "What they mean is told in [the files of a run](../files.md).\n"
    for path in sorted((ROOT / "src" / "codedag" / "ir" / "schemas").glob("*.schema.json")):
        schema = json.loads(path.read_text())
        yield f"\n## {schema['title']}\n"
        for name, part in schema["$defs"].items():
            yield from _part(name, part)


def _part(name: str, part: dict[str, Any]) -> Iterator[str]:
    if "properties" not in part:
        return
    yield f"**{name}**\n\n| field | type | required |\n|---|---|---|"
    for field, what in part["properties"].items():
        needed = "yes" if field in part.get("required", ()) else ""
        yield f"| `{field}` | {_cell(_type(what))} | {needed} |"
    yield ""


def _type(what: dict[str, Any]) -> str:
    if "$ref" in what:
        return str(what["$ref"].rpartition("/")[2])
    if "anyOf" in what:
        return " or ".join(map(_type, what["anyOf"]))
    if "enum" in what:
        return " or ".join(f"`{json.dumps(value)}`" for value in what["enum"])
    inner = what.get("items")
    return f"{what.get('type', 'any')}{f' of {_type(inner)}' if inner else ''}"


def _libraries() -> Iterator[str]:
    yield "# Libraries\n"
    yield NOTE
    yield "How many substitutes there are for functions of a library, by class ([what they mean](../exactness.md))."
    yield "Each function with its conditions is in [substitutions](../substitutions.md).\n"
    made = list(all_substitutions())
    counts = Counter((each.source.partition(".")[0], each.equivalence.name) for each in made)
    classes = sorted({name for _, name in counts})
    yield "| library | " + " | ".join(classes) + " | into |\n|---|" + "---|" * (len(classes) + 1)
    for library in sorted({name for name, _ in counts}):
        into = sorted({each.into for each in made if each.source.partition(".")[0] == library})
        cells = [str(counts[library, name] or "") for name in classes]
        yield f"| [{library}](../substitutions.md#{library.lower()}) | " + " | ".join(cells) + f" | {', '.join(into)} |"


def _decisions() -> Iterator[str]:
    yield "# Decisions\n"
    yield "One page for each decision that someone will want to reverse.\n"
    for path in sorted((DOCS / "adr").glob("0*.md")):
        title = re.search(r"^# (.+)$", path.read_text(), re.M)
        yield f"* [{title[1] if title else path.stem}]({path.name})"


def main() -> None:
    FOLDER.mkdir(exist_ok=True)
    for path, text in pages().items():
        path.write_text(text, encoding="utf-8")
        print(path.relative_to(ROOT))


if __name__ == "__main__":
    main()
