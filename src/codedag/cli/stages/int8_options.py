"""Options of int8 variants: `--allow int8`, `--max-error E`, and what they need of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


def _share(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:  # NaN is not either
        raise click.BadParameter(f"{value:g} is not between 0 and 1 (error = largest difference / largest value).")
    return value


def allow_option(*names: str, text: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """The option `--allow NAME,NAME`, which may be repeated: a tuple of names."""

    def split(_: click.Context, __: click.Parameter, values: Sequence[str]) -> tuple[str, ...]:
        found = tuple(part.strip() for value in values for part in value.split(","))
        unknown = [name for name in found if name not in names]
        if unknown:
            raise click.BadParameter(f"`{unknown[0]}` is none of {', '.join(names)}.")
        return found

    return click.option("--allow", metavar=",".join(names), multiple=True, callback=split, help=text)


def int8_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with `--allow` and `--max-error`."""
    text = "Also use int8 stages, within --max-error; or PUs that compute in float16."
    allow = allow_option("int8", "f16", text=text)
    error = click.option("--max-error", type=float, metavar="E", callback=_share,
                         help="The largest error of int8: largest difference / largest value.")  # fmt: skip
    return allow(error(command))


def need_together(allow: Sequence[str], **options: Any) -> bool:
    """Whether int8 was asked for; raises UsageError if one of its options is missing."""
    given = {"allow int8": "int8" in allow, **{name: value is not None for name, value in options.items()}}
    if any(given.values()) and not all(given.values()):
        names = ["--" + name.replace("_", "-") for name in given]
        missing = ["--" + name.replace("_", "-") for name, there in given.items() if not there]
        raise click.UsageError(f"{' and '.join(missing)} is missing: {', '.join(names)} belong together.")
    return all(given.values())
