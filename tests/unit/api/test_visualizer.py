"""The guides' visualizer: nodes and edges as they come from the tracer, drawn without a system package."""

from __future__ import annotations

import xml.etree.ElementTree as ElementTree

import codedag
from codedag import GraphvizDataflowVisualizer
from codedag.api.dag import DAGBuilder


def _builder():
    builder = DAGBuilder()
    x = builder.add_variable_node("x")
    load, scale = (builder.add_function_node(name, f"main/{name}") for name in ("load", "scale"))
    image, result = builder.add_variable_node("image"), builder.add_variable_node("result")
    for edge in ((x, load, "uses"), (load, image, "produces"), (image, scale, "uses"), (scale, result, "produces")):
        builder.add_edge(*edge)
    builder.add_edge(load, scale, "calls")
    return builder


def test_the_svg_shows_operations_and_what_flows(tmp_path):
    dag = _builder().dag
    place = tmp_path / "flow.svg"
    assert GraphvizDataflowVisualizer().generate_dataflow_svg(dag.nodes.values(), dag.edges, str(place), "标题") is True
    text = place.read_text()
    ElementTree.fromstring(text)
    assert all(word in text for word in ("load", "scale", "标题"))
    assert "3 boxes" in text  # x comes from outside; image and result are what flows


def test_layers_follow_the_data():
    dag = _builder().dag
    layers = GraphvizDataflowVisualizer()._organize_nodes_by_layer(dag.nodes.values(), dag.edges)
    assert [[node.name for node in layer] for layer in layers.values()] == [
        ["x"],
        ["load"],
        ["image"],
        ["scale"],
        ["result"],
    ]


def test_graphviz_text_has_every_node_edge_and_layer():
    dag = _builder().dag
    visualizer = GraphvizDataflowVisualizer()
    visualizer.edge_styles["uses"] = {"color": "red"}
    text = visualizer.generate_dot(dag.nodes, [*dag.edges, (0, 1, "strange")], 'a "title"')
    assert text.startswith('digraph "a \\"title\\"" {')
    assert text.count("rank=same") == 5
    assert text.count(" -> ") == 6
    assert 'label="uses", color="red"' in text
    assert 'label="strange", color="gray"' in text


def test_a_circle_still_has_layers_and_text():
    builder = _builder()
    builder.add_edge(4, 1, "uses")
    layers = GraphvizDataflowVisualizer()._organize_nodes_by_layer(builder.dag.nodes.values(), builder.dag.edges)
    assert sum(map(len, layers.values())) == len(builder.dag.nodes)


def test_a_run_shows_itself_in_a_notebook(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    with codedag.trace() as run:
        pass
    assert "no operation on data was seen" in run._repr_html_()
