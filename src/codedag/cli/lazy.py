"""A group of commands that are imported when they are used; a word that is none of them gets the nearest one."""

from __future__ import annotations

import importlib
from collections.abc import Mapping
from typing import Any

import click


class LazyGroup(click.Group):
    """A group that knows the module of each of its commands, in the order in which one uses them.

    With `sections` the help lists the commands below headings.
    """

    def __init__(
        self, *args: Any, modules: Mapping[str, str], sections: Mapping[str, tuple[str, ...]] | None = None,
        **settings: Any,
    ) -> None:  # fmt: skip
        super().__init__(*args, **settings)
        self._modules, self._sections = modules, sections or {"Commands": tuple(modules)}

    def list_commands(self, ctx: click.Context) -> list[str]:
        """The names of the commands."""
        return list(self._modules)

    def get_command(self, ctx: click.Context, cmd_name: str) -> click.Command | None:
        """The command of this name."""
        if cmd_name not in self._modules:
            return None
        found: click.Command = importlib.import_module(self._modules[cmd_name]).command
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:  # fmt: skip
        """The command that is meant; for another word the error names the nearest command, or `run` for a script."""
        if args and args[0] not in self._modules and not args[0].startswith("-"):
            raise click.UsageError(f"No such command {args[0]!r}.{self._meant(args[0])}", ctx)
        return super().resolve_command(ctx, args)

    def _meant(self, word: str) -> str:
        from difflib import get_close_matches

        if "run" in self._modules and word.endswith((".py", ".ipynb")):
            return f" Did you mean `codedag run {word}`?"
        near = get_close_matches(word, self._modules, 3, 0.5)
        return f" Did you mean {' or '.join(near)}?" if near else ""

    def format_commands(self, ctx: click.Context, formatter: click.HelpFormatter) -> None:
        """The list of commands in the help, by section."""
        for heading, names in self._sections.items():
            rows = [(name, each.get_short_help_str(90)) for name in names if (each := self.get_command(ctx, name))]
            with formatter.section(heading):
                formatter.write_dl(rows)
