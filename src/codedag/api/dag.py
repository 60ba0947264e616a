"""The guides' graph: operations and the versions of variables between them, made from what a trace recorded."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass, field
from typing import Any, Literal

from codedag.ir import Op
from codedag.trace.live import Recorded

NodeType = Literal["function_call", "variable", "operator"]
EdgeType = Literal["uses", "produces", "calls"]
_TYPES: dict[str, NodeType] = {"operator": "operator", "subscript": "operator"}


def _no_cost() -> dict[str, float]:
    return {"execution_time": 0.0, "memory_usage": 0}


@dataclass(slots=True)
class DAGNode:
    """One node: a call, an operator, or one version of a variable."""

    node_id: int
    name: str
    node_type: NodeType
    version: int | None = None
    performance: dict[str, float] = field(default_factory=_no_cost)
    attributes: dict[str, Any] = field(default_factory=dict)


@dataclass(slots=True)
class DAG:
    """Nodes by id, and edges as (source, target, type)."""

    nodes: dict[int, DAGNode] = field(default_factory=dict)
    edges: list[tuple[int, int, EdgeType]] = field(default_factory=list)


class DAGBuilder:
    """Fills a DAG, node by node or from a trace."""

    def __init__(self) -> None:
        self.dag = DAG()
        self.carried: list[tuple[int, int]] = []  # from one iteration to a later one: no edge of an acyclic graph
        self.order_only: list[tuple[int, int]] = []  # the second overwrites what the first reads
        self._versions: Counter[str] = Counter()
        self._variables: dict[tuple[str, int], int] = {}

    def add_function_node(self, name: str, context: str = "", node_type: NodeType = "function_call") -> int:
        """The id of a new node for a call or an operator."""
        return self._add(DAGNode(len(self.dag.nodes), name, node_type, attributes={"context": context}))

    def add_variable_node(self, name: str, version: int | None = None) -> int:
        """The id of the node for this version of a variable; without a version, of a new version."""
        if version is None:
            version = self._versions[name]
        known = self._variables.get((name, version))
        if known is not None:
            return known
        self._versions[name] = max(self._versions[name], version + 1)
        node = self._variables[name, version] = self._add(DAGNode(len(self.dag.nodes), name, "variable", version))
        return node

    def add_edge(self, source: int, target: int, type: EdgeType) -> None:  # noqa: A002 - the guides' name
        """Adds an edge between two nodes that exist."""
        for end in (source, target):
            if end not in self.dag.nodes:
                raise ValueError(f"there is no node {end}")
        self.dag.edges.append((source, target, type))

    def _add(self, node: DAGNode) -> int:
        self.dag.nodes[node.node_id] = node
        return node.node_id

    # -- from a trace

    def add_trace(self, recorded: Recorded) -> None:
        """Adds what a trace recorded: its operations, what they made and used, and which region they ran in."""
        graph = recorded.graph
        ops: dict[int, int] = {}
        made: dict[int, int] = {}
        for op in sorted(graph.ops, key=lambda op: _when(recorded, op)):
            number = op.id
            if op.kind != "source":
                ops[number] = self._operation(op)
            if op.kind == "source" or op.out_sig or any(edge.kind == "flow" for edge in graph.edges_from(number)):
                made[number] = self._result(op, recorded.names.get(number, ""), ops.get(number))
        self._join(recorded, ops, made)

    def _operation(self, op: Op) -> int:
        number = self.add_function_node(op.name, op.context, _TYPES.get(op.kind, "function_call"))
        node = self.dag.nodes[number]
        node.performance = {
            "execution_time": op.total_seconds, "self_time": op.self_seconds, "memory_usage": op.out_nbytes,
        }  # fmt: skip
        node.attributes.update(
            file=op.file, line=op.line, kind=op.kind, count=op.count, out_nbytes=op.out_nbytes,
            in_signature=op.in_sig, out_signature=op.out_sig, op=op.id,
        )  # fmt: skip
        return number

    def _result(self, op: Op, name: str, producer: int | None) -> int:
        """The variable that holds what an operation made (for a source: what was made before the trace)."""
        last = op.name.rpartition(":" if op.kind == "source" else ".")[2]
        number = self.add_variable_node(name or (last if producer is None else f"{last}_return"))
        node = self.dag.nodes[number]
        node.performance["memory_usage"] = op.out_nbytes
        signature = op.in_sig if producer is None else op.out_sig
        node.attributes.update(
            file=op.file, line=op.line, context=op.context, count=op.count, out_nbytes=op.out_nbytes,
            signature=signature, op=op.id,
        )  # fmt: skip
        if producer is not None:
            self.add_edge(producer, number, "produces")
        return number

    def _join(self, recorded: Recorded, ops: dict[int, int], made: dict[int, int]) -> None:
        for edge in recorded.graph.edges:
            if edge.kind == "flow":
                self.add_edge(made[edge.src], ops[edge.dst], "uses")
            elif edge.src in ops:
                self.order_only.append((ops[edge.src], ops[edge.dst]))
        for inner, outer in recorded.callers.items():
            if inner in ops and outer in ops and inner != outer:
                self.add_edge(ops[outer], ops[inner], "calls")
        self.carried += [(ops.get(c.src, made.get(c.src, -1)), ops[c.dst]) for c in recorded.graph.carried]


def _when(recorded: Recorded, op: Op) -> tuple[int, bool]:
    """The order in which things were first made: ids are given as operations end, to a source after its reader."""
    if op.kind != "source":
        return op.id, True
    return min(recorded.graph.successors(op.id), default=op.id), False
