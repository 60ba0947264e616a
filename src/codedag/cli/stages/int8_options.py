"""Options of int8 variants: `--allow int8`, `--max-error E`, and what they need of each other."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import click


def _share(_: click.Context, option: click.Parameter, value: float | None) -> float | None:
    if value is not None and not 0 < value < 1:  # NaN is not either
        raise click.BadParameter(f"{value:g} is not between 0 and 1 (error = largest difference / largest value).")
    return value


def int8_options(command: Callable[..., Any]) -> Callable[..., Any]:
    """A command with `--allow` and `--max-error`."""
    allow = click.option("--allow", type=click.Choice(["int8", "f16"]), multiple=True,
                         help="Also use int8 stages, within --max-error; or PUs that compute in float16.")  # fmt: skip
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
