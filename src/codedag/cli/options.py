"""What several commands share: naming a program, and saying things on stderr."""

from __future__ import annotations

import errno
import gc
import os
import sys
from collections.abc import Callable
from os import write  # by name: a program may leave a mock on the module
from typing import TYPE_CHECKING, Any, ParamSpec, TypeVar

import click

from codedag.instrument.guard import Failed, after
from codedag.instrument.launch import Target
from codedag.ir.errors import CannotWrite

if TYPE_CHECKING:
    from codedag.view.summary import Line

PREFIX = "codedag: "  # of every line of ours on stderr
COLUMNS, COLUMNS_MIN = 80, 40  # of an output that is no terminal; of the narrowest that lines are cut for

#: What is said where the C extensions were not built; `codedag doctor` names what is slower or missing.
WITHOUT_C = "note: installed without a C compiler, so slower: see codedag doctor"

P = ParamSpec("P")
F = TypeVar("F", bound=Callable[..., Any])

#: Everything after the script belongs to it: click must not look for its own options there.
PROGRAM_SETTINGS = {"ignore_unknown_options": False, "allow_interspersed_args": False}


def program_arguments(function: F) -> F:
    """Adds `[-m] SCRIPT [ARGS]...` to a command."""
    function = click.argument("arguments", nargs=-1, type=click.UNPROCESSED, metavar="SCRIPT [ARGS]...")(function)
    return click.option("-m", "module", is_flag=True, help="Run a module, as `python -m` does.")(function)


def output_option(function: F) -> F:
    """Adds `-o RUN` to a command."""
    text = "Write the run to this directory: a new or an empty one, or that of an earlier run, which is replaced."
    return click.option("-o", "--output", metavar="RUN", help=text)(function)


def target_of(module: bool, arguments: tuple[str, ...]) -> Target:
    """The program to run, checked to exist."""
    if not arguments:
        raise click.UsageError("Name the script to run, or -m and a module.")
    target = Target(arguments[0], tuple(arguments[1:]), module=module)
    target.check()
    return target


def is_disabled() -> bool:
    """Whether CODEDAG_DISABLE=1 asks to run programs as if CodeDAG were not there."""
    return os.environ.get("CODEDAG_DISABLE", "") not in ("", "0")


def out_of_the_way() -> None:
    """Hides what was loaded for a command from the garbage collector, which then looks at the program's own objects.

    Else every full collection of the program would go through some ten thousand objects more than without us.
    """
    gc.freeze()


def conclude(context: click.Context, report: Callable[P, None], /, *args: P.args, **keywords: P.kwargs) -> None:
    """Reports once the program has ended; if that fails, says so, since it changes nothing for the program."""
    done = after(report, *args, **keywords)
    if done.__class__ is Failed:
        after(say, context, f"the report could not be made: {done.reason}; the program itself was not affected")


def say(context: click.Context, *lines: str) -> None:
    """Prints our own words to the stderr that we were started with, unless told to be quiet.

    The program may have replaced or closed its own since; a closed one is not an error.
    """
    if _words is None or (context.obj or {}).get("quiet"):
        return
    try:
        write(_words, "".join(f"{PREFIX}{shown(line)}\n" for line in lines).encode(errors="backslashreplace"))
    except OSError:
        return


def say_lines(context: click.Context, lines: list[Line]) -> None:
    """Prints lines with styles and links where stderr is a terminal, else their text."""
    from codedag.cli import styled
    from codedag.view.summary import plain

    if _words is None or (context.obj or {}).get("quiet") or not styled.is_wanted(_words):
        say(context, *map(plain, lines))
        return
    made = after(styled.rendered, lines)
    if isinstance(made, Failed):  # the program may have left anything of rich's broken
        say(context, *map(plain, lines))
        return
    try:
        write(_words, made.encode(errors="backslashreplace"))
    except OSError:
        return


def is_terminal() -> bool:
    """Whether somebody looks at what `say` prints while the program runs."""
    try:
        return _words is not None and os.isatty(_words)
    except OSError:
        return False


def words_width() -> int:
    """The columns that `say` has for a line: those of the terminal that we were started in, else of one with 80."""
    try:
        width = os.get_terminal_size(_words).columns if _words is not None else 0
    except OSError:
        width = 0
    return max(width or COLUMNS, COLUMNS_MIN) - len(PREFIX)


def has_block_characters() -> bool:
    """Whether the user's locale has characters such as ▃; `say` itself always writes UTF-8."""
    name = os.environ.get("LC_ALL") or os.environ.get("LC_CTYPE") or os.environ.get("LANG") or "C.UTF-8"
    return "utf" in name.lower()


def tell(*lines: str) -> None:
    """Prints results to stdout; one that cannot be written to is an error, one that nobody reads any more is an end."""
    try:
        click.echo(encodable("".join(f"{shown(line)}\n" for line in lines)), nl=False)
    except OSError as error:
        os.dup2(os.open(os.devnull, os.O_WRONLY), 1)  # Python would try again, and complain, when it ends
        if error.errno == errno.EPIPE:
            raise SystemExit(1) from None
        why = error.strerror or str(error)
        raise CannotWrite(f"cannot write the output: {why}", hint="Send it to another place.") from error


def encodable(text: str) -> str:
    """The text with escapes for what stdout has no characters for."""
    encoding = getattr(sys.stdout, "encoding", None) or "utf-8"
    return text.encode(encoding, "backslashreplace").decode(encoding)


def shown(line: str) -> str:
    """A line as it can be printed: line breaks and control characters, of a file name say, are escaped."""
    return line if line.isprintable() else "".join(c if c.isprintable() else ascii(c)[1:-1] for c in line)


def _own_stderr() -> int | None:
    try:
        return os.dup(2)
    except OSError:
        return None


_words = _own_stderr()
