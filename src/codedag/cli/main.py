"""The command line: one file per command, results to stdout, our own words to stderr."""

from __future__ import annotations

import logging
import sys
from collections.abc import Callable
from typing import Any

import click

from codedag._version import __version__
from codedag.cli.lazy import LazyGroup
from codedag.ir.errors import CodedagError

SECTIONS = {
    "Begin here": ("run", "view", "compare"),
    "One run": ("trace", "explain", "runs", "demo"),
    "Several runs": ("diff", "check", "experiment"),
    "Devices and kernels": ("devices", "profile", "plan", "tune", "stages"),
    "Help": ("doctor", "help", "cache"),
}
COMMANDS = {name: f"codedag.cli.{name}" for names in SECTIONS.values() for name in names}
COMMANDS["help"] = "codedag.cli.help_"

#: What `codedag` alone says.
FIRST_STEPS = """\
codedag run SCRIPT [ARGS]       your program, same results, less waiting
codedag view                    what it did and what is slow: the newest run
codedag compare SCRIPT [ARGS]   is it really faster, and are results equal?

no program at hand?             codedag demo
does it work here?              codedag doctor
all commands                    codedag --help
a command or an error           codedag help NAME"""


@click.group(
    cls=LazyGroup,
    modules=COMMANDS,
    sections=SECTIONS,
    invoke_without_command=True,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 110},
)
@click.option("-v", "--verbose", count=True, help="Say more (twice: everything).")
@click.option("-q", "--quiet", is_flag=True, help="Say nothing but errors.")
@click.version_option(__version__, prog_name="codedag", message="%(prog)s %(version)s")
@click.pass_context
def cli(ctx: click.Context, verbose: int, quiet: bool) -> None:
    """Makes a Python data pipeline faster without a change to its code, and proves that it computes the same.

    Begin with `codedag run SCRIPT`; `codedag view` shows what it did. Everything after the name of a script belongs to
    the script.
    """
    level = logging.ERROR if quiet else (logging.WARNING, logging.INFO, logging.DEBUG)[min(verbose, 2)]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("codedag: %(message)s"))
    logger = logging.getLogger("codedag")
    logger.addHandler(handler)
    logger.setLevel(level)
    logger.propagate = False
    ctx.obj = {"quiet": quiet, "verbose": bool(verbose)}
    if ctx.invoked_subcommand is None:
        click.echo(FIRST_STEPS)


def main(args: list[str] | None = None) -> None:
    """Runs a command; an error that is meant for the user is printed with what to do, and exits with 2.

    A command that runs the user's program returns how to leave: the program runs inside the command, but it is left
    from here, where no frame of click is in the way.
    """
    try:
        leave = cli.main(args=args, prog_name="codedag", standalone_mode=False)
    except click.exceptions.Abort:
        sys.exit(130)
    except click.ClickException as error:
        error.show()
        sys.exit(2)
    except CodedagError as error:
        from codedag.cli.options import shown

        click.echo(f"codedag: error: {shown(error.message)}", err=True)
        if error.hint:
            click.echo(f"  {shown(error.hint)}", err=True)
        click.echo(f"  (more: codedag help {error.slug})", err=True)
        sys.exit(error.exit_code)
    if callable(leave):
        _leave(leave)
    sys.exit(leave if isinstance(leave, int) else 0)


def _leave(leave: Callable[[], Any]) -> None:
    leave()
