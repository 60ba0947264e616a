"""`codedag stages profile`: export the stages of a model, measure them on every PU, write the tables."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path
from shlex import quote
from typing import TYPE_CHECKING, Any

import click

from codedag.cli.options import say, tell
from codedag.cli.progress import progress
from codedag.cli.stages.int8_options import int8_options, need_together

if TYPE_CHECKING:
    from codedag.stages.measuring.calibration import Calibration
    from codedag.stages.measuring.grid import Cases
    from codedag.stages.measuring.profiling import Outcome, Profile
    from codedag.stages.model import StagedModel


INT8 = ("allow", "calibration", "max_error")


#: Up to so many stages and sizes all blocks are measured unless something else is said.
AUTO_STAGES, AUTO_SIZES = 8, 4
#: PUs that compile a block for seconds: of blocks of several stages they get the whole model only, unless asked.
SLOW_COMPILERS = ("inductor:cpu",)


@click.command("profile", short_help="Measure every stage of a model on every PU.")
@click.argument("model", required=False)
@click.option("-o", "--output", metavar="DIR", required=True, help="The directory of the profile; it is continued.")
@click.option("--all", "everything", is_flag=True, help="Export, measure and analyse (the default).")
@click.option("--export", "do_export", is_flag=True, help="Only export the stages.")
@click.option("--measure", "do_measure", is_flag=True, help="Only measure what is not known yet.")
@click.option("--analyze", "--analyse", "do_analyze", is_flag=True, help="Only write the tables from what is there.")
@click.option("--preset", type=click.Choice(["seed15"]), help="The guide's 15 cases of nodes and edges.")
@click.option("--cases", metavar="FILE", help="The cases of a test_cases.json.")
@click.option("--graph", metavar="FILE|synthetic:flickr", help="Also measure sizes around the parts of this graph.")
@click.option("--parts", type=click.IntRange(1), default=8, show_default=True, help="Parts of the graph.")
@click.option("--warmup", type=click.IntRange(0), help="Calls before a cell is timed [10].")
@click.option("--repeats", type=click.IntRange(1), help="Timed calls of a cell [50].")
@click.option("--pus", metavar="A,B", help="Only these PUs.")
@click.option("--again", metavar="PU", multiple=True, help="Measure this PU again.")
@click.option("--budget", type=click.FloatRange(0), metavar="SECONDS", help="Stop measuring after so long.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), default=60.0, show_default=True,
              help="Seconds that a PU may take for one answer.")  # fmt: skip
@click.option("--stages", type=click.IntRange(1), metavar="K", help="Cut the model into K stages.")
@click.option("--cuts", metavar="NAME,NAME", help="Cut the model at these tensors.")
@click.option("--weights", metavar="FILE.npz", help="Weights of sage7.")
@click.option("--blocks", type=click.Choice(["auto", "none", "whole", "all"]), default="auto", show_default=True,
              help="Blocks measured as one; auto: all of small models at few sizes.")  # fmt: skip
@click.option("--layouts", is_flag=True, help="Also measure runtimes on halves of the cores, beside each other.")
@click.option("--static", is_flag=True, help="Use few static sizes and padded inputs on every PU, as an NPU needs.")
@int8_options
@click.option("--calibration", metavar="FILE.npz", help="Inputs by name: half calibrate int8, half measure its error.")
@click.option("--json", "as_json", is_flag=True, help="Print the facts as JSON.")
@click.pass_context
def command(ctx: click.Context, /, output: str, as_json: bool, **options: Any) -> None:
    """Measure every stage of MODEL (else sage7) on every PU; what is known already is not measured again.

    A PU that fails costs only itself; its reason is in the report. Where each cell ran is proven by the runtime itself.
    """
    from codedag.stages.measuring.profiling import Profile, prepared

    directory = Path(output)
    need_together(**{name: options[name] for name in INT8})
    steps = _steps(options)
    with prepared(directory), progress(ctx, "profiling", 1.0) as advance:
        profile = Profile(
            directory,
            options["layouts"],
            lambda line: say(ctx, line),
            lambda done, total, at: advance(done / max(total, 1), at),
        )
        if "measure" in steps and options["pus"]:
            profile.pus(_names(options["pus"]))  # a wrong name is told before anything takes long
        model, cases = _model(profile, options, steps)
        measured = _measured(profile, model, cases, options) if "measure" in steps else None
        outcome = profile.analyze(model) if "analyze" in steps else measured
    _tell(directory, outcome, measured, steps, as_json)


def _steps(options: dict[str, Any]) -> set[str]:
    named = {step for step in ("export", "measure", "analyze") if options[f"do_{step}"]}
    return {"export", "measure", "analyze"} if options["everything"] or not named else named


def _model(profile: Profile, options: dict[str, Any], steps: set[str]) -> tuple[StagedModel, Cases]:
    """The model as it was exported, now or before, and the sizes to measure."""
    known = (profile.directory / "stages.json").exists()
    given = [f"--{name}" for name in ("weights", "stages", "cuts") if options[name]]
    if given and "export" not in steps:
        raise click.UsageError(f"{given[0]} says what is exported: name it with --export or --all.")
    if "export" in steps and (options["model"] or given or not known):
        profile.say(f"exporting the stages of {options['model'] or 'sage7'}")
        model = profile.export(lambda: _source(options), _names(options["pus"]) if "measure" in steps else None)
    else:
        model = profile.model()
    return model, _cases(options, model.sizes, model)


def _source(options: dict[str, Any]) -> StagedModel:
    """The model that was named; sage7 has as many features as the file of cases says."""
    from codedag.stages.sources import SAGE, model_of

    text = options["model"] or SAGE
    if text == SAGE and (options["stages"] or options["cuts"]):
        raise click.UsageError("sage7 has the guide's seven stages: --stages and --cuts are for other models.")
    if text == SAGE and options["cases"] and not options["weights"]:
        from codedag.stages.measuring.grid import read_cases
        from codedag.stages.sizes import GRAPH
        from codedag.stages.torch_models.sage import FEATURES, sage7

        return sage7(features=read_cases(Path(options["cases"]), GRAPH).features or FEATURES)
    return model_of(text, stages=options["stages"], cuts=_names(options["cuts"]), weights=options["weights"] or "")


def _cases(options: dict[str, Any], names: tuple[str, ...], model: StagedModel | None = None) -> Cases:
    from codedag.stages.measuring.grid import SEED15, Cases, default_sizes, read_cases

    if options["cases"]:
        return read_cases(Path(options["cases"]), names)
    if options["preset"]:
        return Cases(list(SEED15))
    example = model.sizes_of(model.example) if model is not None and model.example else {}
    return Cases(default_sizes(names, example))


def _measured(profile: Profile, model: StagedModel, cases: Cases, options: dict[str, Any]) -> Outcome:
    from codedag.stages.measuring.grid import REPEATS, WARMUP
    from codedag.stages.measuring.measure import Settings

    warmup = next(n for n in (options["warmup"], cases.warmup, WARMUP) if n is not None)
    settings = Settings(
        warmup=warmup, repeats=options["repeats"] or cases.repeats or REPEATS, timeout_seconds=options["timeout"],
        budget_seconds=options["budget"], static=options["static"],
        whole_only=() if options["blocks"] == "all" else SLOW_COMPILERS,
    )  # fmt: skip
    sizes = [*cases.sizes, *_of_graph(options, model)]
    calibration = _calibration(model, options)  # what is wrong with it is told before anything takes long
    pus, again = _names(options["pus"]), options["again"]
    measured = profile.measure(model, sizes, _blocks(model, options["blocks"], len(sizes)), settings, pus, again)
    if calibration is None:
        return measured
    if settings.budget_seconds is not None:
        settings = replace(settings, budget_seconds=max(0.0, settings.budget_seconds - measured.seconds))
    which = options["blocks"] if options["blocks"] != "none" else "whole"  # for the error of the whole
    blocks = _blocks(model, which, len(sizes))
    more = profile.measure_int8(model, sizes, blocks, settings, calibration, options["max_error"], pus, again)
    return replace(measured, measured=measured.measured + more.measured, seconds=measured.seconds + more.seconds)


def _calibration(model: StagedModel, options: dict[str, Any]) -> Calibration | None:
    from codedag.stages.measuring.calibration import read_calibration

    return read_calibration(Path(options["calibration"]), model) if "int8" in options["allow"] else None


def _of_graph(options: dict[str, Any], model: StagedModel) -> list[dict[str, int]]:
    """Sizes around the parts of the graph that will be run."""
    if not options["graph"]:
        return []
    from codedag.stages.graph.graphs import read_graph
    from codedag.stages.graph.parts import parts_of
    from codedag.stages.measuring.grid import around

    graph = read_graph(options["graph"])
    parts = parts_of(graph.edge_index, graph.nodes, options["parts"])
    return around([{"nodes": part.rows, "edges": part.edges} for part in parts.sizes])


def _blocks(model: StagedModel, which: str, sizes: int) -> list[Any]:
    """The blocks to measure: every stage, and of the longer ones those that were asked for, or that cost little."""
    singles = [block for block in model.blocks if block.first == block.last]
    longer = [block for block in model.blocks if block.first != block.last]
    whole = [block for block in longer if (block.first, block.last) == (1, len(model.stages))]
    little = len(model.stages) <= AUTO_STAGES and sizes <= AUTO_SIZES
    return singles + {"none": [], "whole": whole, "auto": longer if little else whole, "all": longer}[which]


def _names(text: str | None) -> tuple[str, ...]:
    return tuple(filter(None, (part.strip() for part in (text or "").split(","))))


def _tell(directory: Path, outcome: Outcome | None, measured: Outcome | None, steps: set[str], as_json: bool) -> None:
    facts = {
        "directory": str(directory), "steps": sorted(steps), "measured": measured.measured if measured else 0,
        "known": outcome.known if outcome else 0, "pus": outcome.pus if outcome else [],
        "absent": outcome.absent if outcome else {}, "seconds": measured.seconds if measured else 0.0,
    }  # fmt: skip
    if as_json:
        tell(json.dumps(facts))
        return
    if outcome is not None:
        tell(
            f"{facts['known']} cells, {facts['measured']} measured now"
            + (f" in {measured.seconds:.1f} s" if measured else ""),
            f"PUs: {', '.join(outcome.pus)}",
            *(f"absent: {pu}: {reason}" for pu, reason in outcome.absent.items()),
        )
    where = quote(str(directory))
    if "analyze" in steps:
        tell(f"report: {directory / 'profiling_report.txt'}", f"next: codedag stages plan {where}")
    else:
        step = "--analyze" if "measure" in steps else "--measure"
        tell(f"next: codedag stages profile -o {where} {step}")
