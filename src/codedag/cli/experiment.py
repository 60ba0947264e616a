"""`codedag experiment`: the same training as baseline and as optimization, in an environment of its own."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING

import click

from codedag.cli.options import F, say, tell

if TYPE_CHECKING:
    from codedag.experiment.folder import Folder, Framework

FRAMEWORKS = ("pytorch", "tensorflow")
RUN = "results/run"  # what `codedag run` writes; it belongs to the experiment, and outlives a container
INTERRUPTED = (-2, 130)  # how Python and `codedag run` end on Ctrl+C
_json = click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")


def _framework(required: bool) -> Callable[[F], F]:
    return click.option("--framework", type=click.Choice(FRAMEWORKS), default="pytorch" if required else None)


def _folder(function: F) -> F:
    """Adds the folder of an experiment to a command: the working directory unless named."""
    place = click.Path(path_type=Path)
    return click.argument("folder", type=place, default=Path(), required=False, metavar="[FOLDER]")(function)


@click.group("experiment", short_help="Make and run an experiment: baseline against optimization.")
def command() -> None:
    """Run the same training as baseline and as optimization, in an environment of its own, and compare.

    The usual order is: check, new NAME, then in the new folder run baseline, run optimization, report.
    """


@command.command("check", short_help="Say what is there and what is missing.")
@_json
def check(as_json: bool) -> None:
    """Say what is there to run experiments with, and what is missing."""
    from dataclasses import asdict

    from codedag.experiment import environment

    found = environment.check()
    if as_json:
        tell(json.dumps({each.what: asdict(each) for each in found}))
        return
    tell(*(f"{'ok     ' if each.is_there else 'missing'}  {each.what}: {each.detail}" for each in found))
    tell("next: codedag experiment new NAME --framework pytorch")


@command.command("new", short_help="Make the folder of an experiment.")
@click.argument("name")
@_framework(required=True)
@_json
def new(name: str, framework: Framework, as_json: bool) -> None:
    """Make the folder of an experiment, with a training that runs as it is."""
    from codedag.experiment import folder as folders

    made = folders.create(name, framework, Path.cwd())
    names = sorted(each.name for each in made.path.iterdir())
    if as_json:
        tell(json.dumps({"folder": str(made.path), "files": names, "docker": str(made.docker)}))
        return
    tell(f"made {made.path}: {', '.join(names)}")
    tell(f"next: cd {quote(made.path.name)} && codedag experiment run baseline")


@command.command("build")
@_framework(required=False)
@click.option("--docker", type=click.Path(path_type=Path), default=Path("docker"), help="Where the Dockerfiles are.")
@click.pass_context
def build(ctx: click.Context, framework: Framework | None, docker: Path) -> None:
    """Build the Docker images that experiments begin with."""
    from codedag.experiment import environment

    with _waiting(ctx, "building images"):
        images = environment.build(docker, [framework] if framework else FRAMEWORKS)  # type: ignore[arg-type]
    tell(*(f"built {image}" for image in images), "next: codedag experiment setup FOLDER")


def _where(function: F) -> F:
    text = "Where to run: an own virtual environment, or a container; a container if a Docker engine answers."
    return click.option("--in", "where", type=click.Choice(["venv", "docker"]), help=text)(function)


@command.command("setup", short_help="Make the environment of an experiment.")
@_folder
@_where
@click.option("--fresh", is_flag=True, help="Make the environment anew even if nothing has changed.")
@click.pass_context
def setup(ctx: click.Context, folder: Path, where: str | None, fresh: bool) -> None:
    """Make the environment of an experiment: its requirements, and this CodeDAG."""
    from codedag.experiment import folder as folders

    found = folders.find(folder)
    _ready(ctx, found, _chosen(where), fresh)
    there = "" if found.path == Path.cwd() else f"cd {quote(str(folder))} && "
    tell(f"ready: {found.path}", f"next: {there}codedag experiment run baseline")


@command.command("run", short_help="Run the training: baseline or optimization.")
@click.argument("mode", type=click.Choice(["baseline", "optimization"]))
@_folder
@_where
@click.option("--no-install", is_flag=True, help="Run with the Python that runs this command; install nothing.")
@click.option("--fresh", is_flag=True, help="Make the environment anew even if nothing has changed.")
@click.pass_context
def run(ctx: click.Context, mode: str, folder: Path, where: str | None, no_install: bool, fresh: bool) -> int:
    """Run the training: baseline as it is, optimization under `codedag run`.

    Its output is its own; the results are written to FOLDER/results, and for optimization also what CodeDAG did, as a
    run directory (results/run). The exit code is that of the training.
    """
    from codedag.experiment import folder as folders

    if no_install and (where or fresh):
        raise click.UsageError("--no-install makes no environment: leave out --in and --fresh.")
    found = folders.find(folder)
    found.program(mode)
    prefix = [sys.executable] if no_install else _ready(ctx, found, _chosen(where), fresh)
    arguments = ["baseline.py"] if mode == "baseline" else ["-m", "codedag", "run", "-o", RUN, "optimization.py"]
    code = _ended([*prefix, *arguments], found.path)
    if code in INTERRUPTED:
        return 130
    if code != 0:  # what is in the folder is of another time
        ended = f"exit code {code}" if code > 0 else f"signal {-code}"
        say(ctx, f"the training ended with {ended}: correct {mode}.py", f"next: codedag experiment run {mode}")
        return code if code > 0 else 128 - code
    newest = found.newest(mode)
    if newest is not None:
        say(ctx, f"results: {newest[0]}")
    say(ctx, "next: codedag experiment " + ("run optimization" if mode == "baseline" else "report"))
    return 0


def _ended(command: list[str], cwd: Path) -> int:
    """How a training ended.  Ctrl+C reaches it too, and what it has to save then is waited for; once more kills it."""
    with subprocess.Popen(command, cwd=cwd) as process:
        try:
            return process.wait()
        except KeyboardInterrupt:
            pass
        try:
            return process.wait()
        except BaseException:
            process.kill()
            raise


def _chosen(where: str | None) -> str:
    from codedag.experiment import environment

    return where or ("docker" if environment.docker_version() else "venv")


def _ready(ctx: click.Context, found: Folder, where: str, fresh: bool) -> list[str]:
    """The command that Python's arguments follow, once the environment is there."""
    from codedag.experiment import environment

    with _waiting(ctx, f"preparing the environment ({where})"):
        if where == "venv":
            return [str(environment.make_venv(found, fresh=fresh))]
        environment.make_image(found)
        return environment.in_container(found, [])


@command.command("report", short_help="Show the results of both modes beside each other.")
@_folder
@_json
def report(folder: Path, as_json: bool) -> int:
    """Show the newest results of both modes beside each other; exit code 1 if losses or accuracies differ."""
    from codedag.experiment import folder as folders
    from codedag.experiment.results import beside

    found = beside(folders.find(folder))
    code = 0 if all(found.same.values()) else 1
    if as_json:
        tell(json.dumps(found.facts()))
        return code
    tell(f"{'':24} {'baseline':>14} {'optimization':>14}")
    for name, values in found.figures.items():
        tell(f"{name:24} " + " ".join(f"{'-' if v is None else f'{v:.6g}':>14}" for v in values.values()))
    tell(*(f"{kind}: {'equal, entry by entry' if same else 'DIFFERENT'}" for kind, same in found.same.items()))
    if found.batch_time_ratio:
        tell(f"batch time: {found.batch_time_ratio:.2f}x (one run of each: `codedag compare` gives an interval)")
    tell("next: codedag compare baseline.py")
    return code


@contextmanager
def _waiting(ctx: click.Context, what: str) -> Iterator[None]:
    """Shows on a terminal that something is going on; elsewhere one line says so."""
    if ctx.obj["quiet"] or not sys.stderr.isatty():
        say(ctx, f"{what} ...")
        yield
        return
    from rich.console import Console

    with Console(stderr=True).status(f"codedag: {what} ..."):
        yield
