"""The graph, costs, machine, plan and report: the types that every room passes on, and their files.

Names are looked up when used: a program that `codedag run` starts pays for what is used, not for all of this.
"""

from __future__ import annotations

TYPE_CHECKING = False  # type checkers know this name; `typing` itself would cost more than the rest of the import
if TYPE_CHECKING:
    from codedag.ir.checks import check as check
    from codedag.ir.costs import Alternative as Alternative
    from codedag.ir.costs import CostRow as CostRow
    from codedag.ir.costs import CostTable as CostTable
    from codedag.ir.errors import BadFile as BadFile
    from codedag.ir.errors import BadGraph as BadGraph
    from codedag.ir.errors import BadScript as BadScript
    from codedag.ir.errors import CannotPlan as CannotPlan
    from codedag.ir.errors import CannotWrite as CannotWrite
    from codedag.ir.errors import CodedagError as CodedagError
    from codedag.ir.events import DeviceValue as DeviceValue
    from codedag.ir.events import Event as Event
    from codedag.ir.events import Events as Events
    from codedag.ir.events import Lane as Lane
    from codedag.ir.events import Mark as Mark
    from codedag.ir.files import write_atomically as write_atomically
    from codedag.ir.graph import Carried as Carried
    from codedag.ir.graph import Edge as Edge
    from codedag.ir.graph import Graph as Graph
    from codedag.ir.graph import GraphBuilder as GraphBuilder
    from codedag.ir.graph import Op as Op
    from codedag.ir.machine import Link as Link
    from codedag.ir.machine import Machine as Machine
    from codedag.ir.machine import Pu as Pu
    from codedag.ir.places import cache_dir as cache_dir
    from codedag.ir.places import data_dir as data_dir
    from codedag.ir.plan import Decision as Decision
    from codedag.ir.plan import Move as Move
    from codedag.ir.plan import Peak as Peak
    from codedag.ir.plan import Placement as Placement
    from codedag.ir.plan import Plan as Plan
    from codedag.ir.plan import Segment as Segment
    from codedag.ir.plan import Source as Source
    from codedag.ir.plan import Step as Step
    from codedag.ir.plan import Strategy as Strategy
    from codedag.ir.plan import Tradeoff as Tradeoff
    from codedag.ir.plan import Transfer as Transfer
    from codedag.ir.report import Block as Block
    from codedag.ir.report import Change as Change
    from codedag.ir.report import Claim as Claim
    from codedag.ir.report import Declined as Declined
    from codedag.ir.report import Heat as Heat
    from codedag.ir.report import HotCall as HotCall
    from codedag.ir.report import HotFunction as HotFunction
    from codedag.ir.report import HotLine as HotLine
    from codedag.ir.report import HotProcess as HotProcess
    from codedag.ir.report import HotTurn as HotTurn
    from codedag.ir.report import OwnCosts as OwnCosts
    from codedag.ir.report import Proof as Proof
    from codedag.ir.report import Report as Report
    from codedag.ir.report import Speed as Speed
    from codedag.ir.run import RunInfo as RunInfo
    from codedag.ir.store import FILE_NAMES as FILE_NAMES
    from codedag.ir.store import RunDirectory as RunDirectory
    from codedag.ir.store import load as load
    from codedag.ir.store import save as save
    from codedag.ir.verdict import Accepted as Accepted
    from codedag.ir.verdict import No as No
    from codedag.ir.verdict import Verdict as Verdict
    from codedag.ir.verdict import Yes as Yes

_HOMES = {
    "Accepted": "verdict",
    "Alternative": "costs",
    "BadFile": "errors",
    "BadGraph": "errors",
    "BadScript": "errors",
    "Block": "report",
    "CannotPlan": "errors",
    "CannotWrite": "errors",
    "Carried": "graph",
    "Change": "report",
    "Claim": "report",
    "CodedagError": "errors",
    "CostRow": "costs",
    "CostTable": "costs",
    "Decision": "plan",
    "Declined": "report",
    "Edge": "graph",
    "Event": "events",
    "Events": "events",
    "FILE_NAMES": "store",
    "Graph": "graph",
    "GraphBuilder": "graph",
    "Heat": "report",
    "HotFunction": "report",
    "HotCall": "report",
    "HotLine": "report",
    "HotProcess": "report",
    "HotTurn": "report",
    "OwnCosts": "report",
    "Lane": "events",
    "Link": "machine",
    "Machine": "machine",
    "Mark": "events",
    "Move": "plan",
    "No": "verdict",
    "Op": "graph",
    "Peak": "plan",
    "Placement": "plan",
    "Plan": "plan",
    "Proof": "report",
    "Pu": "machine",
    "Report": "report",
    "DeviceValue": "events",
    "RunDirectory": "store",
    "RunInfo": "run",
    "Segment": "plan",
    "Source": "plan",
    "Speed": "report",
    "Step": "plan",
    "Strategy": "plan",
    "Tradeoff": "plan",
    "Transfer": "plan",
    "Verdict": "verdict",
    "Yes": "verdict",
    "cache_dir": "places",
    "check": "checks",
    "data_dir": "places",
    "load": "store",
    "save": "store",
    "write_atomically": "files",
}

__all__ = [
    "FILE_NAMES",
    "Accepted",
    "Alternative",
    "BadFile",
    "BadGraph",
    "BadScript",
    "Block",
    "CannotPlan",
    "CannotWrite",
    "Carried",
    "Change",
    "Claim",
    "CodedagError",
    "CostRow",
    "CostTable",
    "Decision",
    "Declined",
    "DeviceValue",
    "Edge",
    "Event",
    "Events",
    "Graph",
    "GraphBuilder",
    "Heat",
    "HotCall",
    "HotFunction",
    "HotLine",
    "HotProcess",
    "HotTurn",
    "Lane",
    "Link",
    "Machine",
    "Mark",
    "Move",
    "No",
    "Op",
    "OwnCosts",
    "Peak",
    "Placement",
    "Plan",
    "Proof",
    "Pu",
    "Report",
    "RunDirectory",
    "RunInfo",
    "Segment",
    "Source",
    "Speed",
    "Step",
    "Strategy",
    "Tradeoff",
    "Transfer",
    "Verdict",
    "Yes",
    "cache_dir",
    "check",
    "data_dir",
    "load",
    "save",
    "write_atomically",
]


def __getattr__(name: str) -> object:
    import importlib

    home = _HOMES.get(name)
    if home is None:
        raise AttributeError(f"module 'codedag.ir' has no attribute {name!r}")
    found: object = getattr(importlib.import_module(f"codedag.ir.{home}"), name)
    globals()[name] = found
    return found


def __dir__() -> list[str]:
    return sorted(__all__)
