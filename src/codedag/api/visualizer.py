"""The guides' picture of a graph: nodes and edges in, an SVG or Graphviz text out; no system package is needed."""

from __future__ import annotations

import os
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from codedag.api.dag import DAGNode
from codedag.ir import Edge, Graph, Op, write_atomically
from codedag.view.dot import attributes, quoted

Nodes = Mapping[int, DAGNode] | Iterable[DAGNode]
Edges = Iterable[tuple[int, int, str]]


@dataclass(frozen=True, slots=True)
class NodeStyle:
    """How nodes of one type look in Graphviz."""

    shape: str
    style: str
    fillcolor: str


class GraphvizDataflowVisualizer:
    """Draws the nodes and edges of `tracer.dag_builder.dag`; styles can be changed before."""

    def __init__(self) -> None:
        self.node_styles = {
            "function_call": NodeStyle("box", "filled,rounded", "#cfe2f3"),
            "operator": NodeStyle("circle", "filled", "#fce5cd"),
            "variable": NodeStyle("ellipse", "filled", "#ffffff"),
        }
        self.edge_styles = {
            "uses": {"color": "#4a6a94"},
            "produces": {"color": "#38761d"},
            "calls": {"color": "#7d7d7d", "style": "dashed"},
        }

    def generate_dataflow_svg(
        self, nodes: Nodes, edges: Edges, output_path: str | os.PathLike[str], title: str = ""
    ) -> bool:
        """True once the picture is written: operations in boxes, with what flows between them."""
        from codedag.view.svg import draw

        write_atomically(Path(output_path), draw(_graph(_listed(nodes), list(edges)), title).encode())
        return True

    def generate_dot(self, nodes: Nodes, edges: Edges, title: str = "") -> str:
        """The same nodes and edges as Graphviz text, each layer in a row of its own."""
        listed, joined = _listed(nodes), list(edges)
        lines = [f"digraph {quoted(title or 'dataflow')} {{", '  rankdir="TB"; splines="spline";']
        lines += [f"  n{node.node_id} {self._node(node)};" for node in listed]
        for layer in self._organize_nodes_by_layer(listed, joined).values():
            lines.append(f"  {{ rank=same; {' '.join(f'n{node.node_id};' for node in layer)} }}")
        lines += [f"  n{src} -> n{dst} {attributes(label=kind, **self._edge(kind))};" for src, dst, kind in joined]
        return "\n".join([*lines, "}", ""])

    def _node(self, node: DAGNode) -> str:
        style = self.node_styles.get(node.node_type, self.node_styles["variable"])
        version = f" v{node.version}" if node.version else ""
        milliseconds = 1e3 * node.performance.get("execution_time", 0.0)
        time = f"\n{milliseconds:.2f} ms" if milliseconds else ""
        return attributes(
            label=f"{node.name}{version}{time}", shape=style.shape, style=style.style, fillcolor=style.fillcolor
        )

    def _edge(self, kind: str) -> dict[str, str]:
        return self.edge_styles.get(kind, {"color": "gray"})

    def _organize_nodes_by_layer(self, nodes: Iterable[DAGNode], edges: Edges) -> dict[int, list[DAGNode]]:
        """The nodes by how many steps of data lead to them; a call is not data."""
        by_id = {node.node_id: node for node in nodes}
        followers, waiting = defaultdict(list), dict.fromkeys(by_id, 0)
        for src, dst, kind in edges:
            if kind != "calls" and src in by_id and dst in by_id:
                followers[src].append(dst)
                waiting[dst] += 1
        layer = {number: 0 for number, count in waiting.items() if not count}
        ready = list(layer)
        for number in ready:
            for after in followers[number]:
                layer[after] = max(layer.get(after, 0), layer[number] + 1)
                waiting[after] -= 1
                if not waiting[after]:
                    ready.append(after)
        found: defaultdict[int, list[DAGNode]] = defaultdict(list)
        for number, node in by_id.items():
            found[layer.get(number, 0)].append(node)
        return dict(sorted(found.items()))


def _listed(nodes: Nodes) -> list[DAGNode]:
    return list(nodes.values()) if isinstance(nodes, Mapping) else list(nodes)


def _graph(nodes: list[DAGNode], edges: list[tuple[int, int, str]]) -> Graph:
    """The graph of the operations: a variable is the edge from who made it to who uses it, or a source."""
    variables = {node.node_id: node for node in nodes if node.node_type == "variable"}
    makers = {dst: src for src, dst, kind in edges if kind == "produces" and dst in variables}
    sources = [node for number, node in variables.items() if number not in makers]
    ops = [_op(node, node.attributes.get("kind") or "call") for node in nodes if node.node_id not in variables]
    ops += [_op(node, "source") for node in sources]
    flows = {
        (makers.get(src, src), dst): int(variables[src].performance.get("memory_usage", 0)) if src in variables else 0
        for src, dst, kind in edges
        if kind == "uses" and dst not in variables
    }
    return Graph.build(ops, [Edge(src, dst, "flow", nbytes) for (src, dst), nbytes in flows.items() if src != dst])


_KINDS = ("call", "operator", "subscript", "region", "source", "sink")


def _op(node: DAGNode, kind: str) -> Op:
    known: dict[str, Any] = node.attributes
    cost = node.performance
    return Op(
        id=node.node_id, name=node.name, kind=kind if kind in _KINDS else "call",  # type: ignore[arg-type]
        file=str(known.get("file") or ""), line=int(known.get("line") or 0), context=str(known.get("context") or ""),
        count=int(known.get("count") or 1), self_seconds=cost.get("self_time", cost.get("execution_time", 0.0)),
        total_seconds=cost.get("execution_time", 0.0), out_nbytes=int(cost.get("memory_usage", 0)),
    )  # fmt: skip
