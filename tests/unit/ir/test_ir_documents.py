from __future__ import annotations

import json

import msgspec
import pytest
from ir_samples import COSTS, DOCUMENTS, MACHINE, PLAN, REPORT, RUN, everything

from codedag.ir import BadFile, CostRow, CostTable, Link, Machine, Pu, load, save

NAN = float("nan")


@pytest.mark.parametrize("kind", sorted(everything()))
def test_what_is_saved_is_loaded(kind, tmp_path):
    one, path = everything()[kind], tmp_path / "file.json"
    save(one, path)
    assert load(path) == one
    assert load(path, kind) == one
    assert json.loads(path.read_bytes())["format"] == f"codedag/{kind}"


@pytest.mark.parametrize("kind", sorted(everything()))
def test_unknown_fields_are_ignored_everywhere(kind, tmp_path):
    one, path = everything()[kind], tmp_path / "file.json"
    save(one, path)
    path.write_text(json.dumps(_with_extras(json.loads(path.read_bytes()))))
    assert load(path) == one


def _with_extras(value):
    if isinstance(value, list):
        return [_with_extras(part) for part in value]
    if isinstance(value, dict) and "numpy" not in value:  # `versions` is a plain dict: every key is data
        return {key: _with_extras(part) for key, part in value.items()} | {"zz": {"deep": [1, '}],"', None]}}
    return value


@pytest.mark.parametrize("kind", sorted(everything()))
def test_the_order_of_fields_does_not_matter(kind, tmp_path):
    one, path = everything()[kind], tmp_path / "file.json"
    save(one, path)
    path.write_text(json.dumps(json.loads(path.read_bytes()), sort_keys=True, indent=4))
    assert load(path) == one


@pytest.mark.parametrize("kind", sorted(DOCUMENTS))
def test_documents_cannot_be_changed(kind):
    with pytest.raises(AttributeError):
        DOCUMENTS[kind].version = 2


def test_the_promised_fields_are_written_even_when_they_are_defaults(tmp_path):
    save(MACHINE, tmp_path / "m")
    save(COSTS, tmp_path / "c")
    pus = json.loads((tmp_path / "m").read_bytes())["pus"]
    assert pus[0] == {
        "name": "cpu",
        "resource": "host",
        "memory_nbytes": 25769803776,
        "launch_seconds": 0.000001,
        "simulated": False,
    }
    assert "resource" not in pus[1]
    assert json.loads((tmp_path / "c").read_bytes())["rows"][0]["scratch_nbytes"] == 0


def test_who_takes_turns():
    def pu(name, **more):
        return Pu(name=name, memory_nbytes=1, launch_seconds=0, **more)

    assert pu("cpu", resource="host").turn == pu("torch:cpu", resource="host").turn
    assert pu("cpu").turn != pu("gpu").turn
    assert pu("host").turn != pu("cpu", resource="host").turn
    there, back = MACHINE.links
    assert there.turn == ("shared", "pcie0") != back.turn
    assert msgspec.structs.replace(back, src="cpu", dst="cuda:0").turn != back.turn


def test_a_null_resource_is_an_absent_one():
    raw = b'{"name":"a","memory_nbytes":1,"launch_seconds":0,"simulated":false,"resource":null}'
    assert b"resource" not in msgspec.json.encode(msgspec.json.decode(raw, type=Pu))


def test_lookups():
    assert COSTS.row(0, "cpu") is COSTS.rows[0]
    assert COSTS.row(1, "cpu") is None
    assert MACHINE.pu("cuda:0") is MACHINE.pus[1]
    assert MACHINE.pu("x") is None
    assert MACHINE.link("cuda:0", "cpu") is MACHINE.links[1]
    assert MACHINE.link("cpu", "cpu") is None


def _row(**more):
    return CostRow(**({"op": 0, "pu": "cpu", "variant": "original", "seconds": 1.0, "status": "ok"} | more))


def _pu(name):
    return Pu(name=name, memory_nbytes=1, launch_seconds=0)


def _link(src, dst):
    return Link(src=src, dst=dst, latency_seconds=0, bytes_per_second=1)


@pytest.mark.parametrize(
    ("make", "words"),
    [
        (lambda: _row(seconds=None), "status is `ok`"),
        (lambda: CostTable(pus=["gpu"], rows=[_row()]), r"rows\[0\].pu: `cpu`"),
        (lambda: CostTable(pus=["cpu"], rows=[_row(), _row()]), r"rows\[1\]: a second row for op 0"),
        (lambda: Machine(pus=[_pu("a"), _pu("a")]), r"pus\[1\].name: a second PU named `a`"),
        (lambda: Machine(pus=[_pu("a")], links=[_link("a", "b")]), r"links\[0\].dst: there is no PU `b`"),
        (
            lambda: Machine(pus=[_pu("a"), _pu("b")], links=[_link("a", "b")] * 2),
            r"links\[1\]: a second link",
        ),
        (lambda: _pu("a,b"), "comma"),
        (lambda: _pu(""), "empty"),
    ],
)
def test_rules_over_several_fields(make, words):
    with pytest.raises(ValueError, match=words):
        make()


@pytest.mark.parametrize(
    ("one", "field"),
    [
        (msgspec.structs.replace(PLAN, makespan_seconds=NAN), "makespan_seconds"),
        (msgspec.structs.replace(PLAN, makespan_seconds=-1.0), "makespan_seconds"),
        (msgspec.structs.replace(REPORT, gain=NAN), "gain: nan"),
        (msgspec.structs.replace(REPORT, gain_high=float("inf")), "gain_high: inf"),
        (msgspec.structs.replace(COSTS, rows=[_row(low=float("-inf"))]), r"rows\[0\].low: -inf"),
        (msgspec.structs.replace(RUN, argv=[3]), r"argv\[0\]"),
        (msgspec.structs.replace(RUN, argv=[object()]), "object"),
        (msgspec.structs.replace(RUN, status="fine"), "status"),
    ],
)
def test_what_could_not_be_read_back_is_not_written(one, field, tmp_path):
    with pytest.raises(BadFile, match=field):
        save(one, tmp_path / "file.json")
    assert list(tmp_path.iterdir()) == []


def test_arguments_that_are_not_utf8_are_written_escaped(tmp_path):
    save(msgspec.structs.replace(RUN, argv=["a\udcff"]), tmp_path / "run.json")
    assert load(tmp_path / "run.json", "run").argv == ["a\\udcff"]


def test_large_files_are_not_indented(tmp_path):
    many = msgspec.structs.replace(RUN, notes=["x" * 100] * 20_000)
    save(many, tmp_path / "run.json")
    assert b"\n" not in (tmp_path / "run.json").read_bytes()
    assert load(tmp_path / "run.json") == many
