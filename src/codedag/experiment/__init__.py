"""Watching a training, and comparing it plain with optimised: time, machine, losses, and whether results are equal."""

from codedag.experiment.metrics import MetricsLogger as MetricsLogger
from codedag.experiment.monitor import ExperimentMonitor as ExperimentMonitor
from codedag.experiment.resources import ResourceMonitor as ResourceMonitor
from codedag.experiment.timing import Timer as Timer

__all__ = ["ExperimentMonitor", "MetricsLogger", "ResourceMonitor", "Timer"]
