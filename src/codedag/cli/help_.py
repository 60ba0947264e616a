"""`codedag help`: the help of a command, or what an error means and what to do about it."""

from __future__ import annotations

import re
from difflib import get_close_matches
from pathlib import Path

import click

from codedag.cli.options import tell


@click.command("help", short_help="Explain a command or an error.")
@click.argument("name", required=False)
@click.pass_context
def command(ctx: click.Context, name: str | None) -> None:
    """Show the help of a command, or explain an error by the name that its message gives (such as bad-script)."""
    group = ctx.find_root()
    assert isinstance(group.command, click.Group)
    if name is None:
        tell(*group.get_help().splitlines(), "", f"Errors: {', '.join(explanations())}")
        return
    if (known := group.command.get_command(group, name)) is not None:
        with click.Context(known, info_name=name, parent=group) as inner:
            tell(*known.get_help(inner).splitlines())
    elif (found := explanations().get(name)) is not None:
        tell(name, "", *found.splitlines())
    else:
        near = get_close_matches(name, [*group.command.list_commands(group), *explanations()], 3, 0.5)
        meant = f" Did you mean {' or '.join(near)}?" if near else ""
        raise click.UsageError(f"{name!r} is neither a command nor an error.{meant}", ctx)


def explanations() -> dict[str, str]:
    """What each error means, by its name."""
    text = (Path(__file__).parent / "errors.md").read_text(encoding="utf-8")
    sections = re.split(r"^## (.+)\n", text, flags=re.M)[1:]
    pairs = zip(sections[::2], sections[1::2], strict=True)
    return {name.strip(): re.sub(r"\[([^\]]+)\]\([^)]+\)", r"\1", words).strip() for name, words in pairs}
