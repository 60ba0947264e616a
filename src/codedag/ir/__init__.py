"""The graph, costs, machine, plan and report: the types that every room passes on, and their files."""

from codedag.ir.check import check
from codedag.ir.costs import Alternative, CostRow, CostTable
from codedag.ir.errors import BadFile, BadGraph, BadScript, CannotPlan, CannotWrite, CodedagError
from codedag.ir.events import Event, Events, Lane, Mark, Resident
from codedag.ir.files import write_atomically
from codedag.ir.graph import Carried, Edge, Graph, GraphBuilder, Op
from codedag.ir.machine import Link, Machine, Pu
from codedag.ir.places import cache_dir, data_dir
from codedag.ir.plan import Decision, Move, Peak, Placement, Plan, Segment, Source, Step, Strategy, Tradeoff, Transfer
from codedag.ir.report import Block, Change, Claim, Declined, Heat, HotFunction, HotLine, HotTurn, Proof, Report, Speed
from codedag.ir.run import RunInfo
from codedag.ir.store import FILE_NAMES, RunDirectory, load, save
from codedag.ir.verdict import Accepted, No, Verdict, Yes

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
    "Edge",
    "Event",
    "Events",
    "Graph",
    "GraphBuilder",
    "Heat",
    "HotFunction",
    "HotLine",
    "HotTurn",
    "Lane",
    "Link",
    "Machine",
    "Mark",
    "Move",
    "No",
    "Op",
    "Peak",
    "Placement",
    "Plan",
    "Proof",
    "Pu",
    "Report",
    "Resident",
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
