"""An experiment in MLflow: the figures of an ExperimentMonitor, one MLflow run per mode."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Iterator
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from codedag.experiment.monitor import ExperimentMonitor, plain
from codedag.ir.errors import MissingPackage

# MLflow takes at most this many in one request.
MOST_METRICS, MOST_PARAMS = 1000, 100
_LONGEST_NAME, _LONGEST_PARAM = 240, 500  # of 250 the rest is for what tells equal names apart


def log_to_mlflow(monitor: ExperimentMonitor, tracking_uri: str | None = None) -> list[str]:
    """The ids of the MLflow runs, one per mode, in the experiment of this name.

    Without `tracking_uri` they go where MLflow is told to log. Parameters are the configuration; metrics are batch
    times, losses, accuracies and resources with their steps; the results file is an artefact.
    """
    if find_spec("mlflow") is None:
        raise MissingPackage("mlflow is not installed", hint="`pip install 'codedag[mlflow]'` brings it.")
    from mlflow.tracking import MlflowClient

    client = MlflowClient(tracking_uri)
    known = client.get_experiment_by_name(monitor.experiment_name)
    experiment = known.experiment_id if known else client.create_experiment(monitor.experiment_name)
    results = plain(monitor.results())
    return [_log(client, experiment, monitor, name, results) for name in results["modes"]]


def _log(client: Any, experiment: str, monitor: ExperimentMonitor, name: str, results: dict[str, Any]) -> str:
    facts = results["modes"][name]
    tags = {"mode": name, **{f"version.{key}": value for key, value in results["versions"].items()}}
    run: str = client.create_run(experiment, run_name=f"{name} {monitor.timestamp}", tags=tags).info.run_id
    ended = "FAILED"
    try:
        _log_figures(client, run, facts, monitor.timestamp)
        with tempfile.TemporaryDirectory() as folder:
            copied = Path(folder) / monitor.file(".json").name
            copied.write_bytes(_text(results))
            client.log_artifact(run, str(copied))
        ended = "FINISHED"
    finally:
        client.set_terminated(run, ended)
    return run


def _text(results: dict[str, Any]) -> bytes:
    import json

    return json.dumps(results, indent=2).encode()


def _log_figures(client: Any, run: str, facts: dict[str, Any], timestamp: int) -> None:
    from mlflow.entities import Metric, Param

    params = [Param(name, value) for name, value in parameters(facts["config"])]
    metrics = [Metric(name, value, at, step) for name, value, at, step in _series(facts, timestamp * 1000)]
    for first in range(0, len(params), MOST_PARAMS):
        client.log_batch(run, params=params[first : first + MOST_PARAMS])
    for first in range(0, len(metrics), MOST_METRICS):
        client.log_batch(run, metrics=metrics[first : first + MOST_METRICS])


def parameters(config: dict[str, Any]) -> list[tuple[str, str]]:
    """The configuration as names and texts that MLflow takes; the artefact has all of it as it is.

    A name may only have letters, digits and a few signs, may not look like another place in a tree of files, and
    occurs once.
    """
    found: dict[str, str] = {}
    for key, value in _flat("", config):
        name = re.sub(r"[^\w.\- :]", "_", key)[:_LONGEST_NAME]
        name = plain_name = f"_{name}" if not name or name.startswith(".") else name
        number = 1
        while name in found:
            number += 1
            name = f"{plain_name}_{number}"
        found[name] = str(value)[:_LONGEST_PARAM]
    return list(found.items())


def _flat(prefix: str, value: Any) -> Iterator[tuple[str, Any]]:
    """The leaves of the configuration, by dotted name."""
    if isinstance(value, dict) and (value or not prefix):
        for key, each in value.items():
            yield from _flat(f"{prefix}.{key}" if prefix else str(key), each)
    else:
        yield prefix or "config", value


def _series(facts: dict[str, Any], begun: int) -> Iterator[tuple[str, float, int, int]]:
    """Every figure as name, value, milliseconds since 1970, step; what is no number is left out."""
    metrics, used = facts["metrics"], facts["resource_usage"]
    rows = [("batch_time", seconds, begun, number) for number, seconds in facts["batch_times"]]
    for name, logged in (("loss", metrics["losses"]), ("accuracy", metrics["accuracies"])):
        rows += [(name, value, begun, step) for step, (_, _, value) in enumerate(logged)]
    series = {"cpu_percent": used["cpu_usage"], "memory_percent": used["memory_usage"]}
    series |= {f"gpu{number}_percent": each for number, each in used["gpu_usage"].items()}
    series |= {f"gpu{number}_mb": each for number, each in used["gpu_memory"].items()}
    for name, readings in series.items():
        rows += [(name, value, int(stamp * 1000), step) for step, (stamp, value) in enumerate(readings)]
    for name, value in _flat("summary", facts["summary"]):
        rows.append((name, value, begun, 0))
    yield from (row for row in rows if row[1] is not None)
