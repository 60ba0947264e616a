"""The table of substitutions: binding, guards, versions, lazy loading and bad plug-ins."""

from __future__ import annotations

import importlib.metadata
import random
import subprocess
import sys
import textwrap

import pytest

from codedag.backends import registry, requirements
from codedag.backends.registry import EXACT, Call, Equivalence, find, substitutes
from codedag.ir.errors import CodedagError
from codedag.ir.verdict import No, Yes


@pytest.fixture
def table(monkeypatch):
    """An empty table that has not loaded anything yet."""
    fresh = registry._Table()
    monkeypatch.setattr(registry, "_table", fresh)
    return fresh


def make(source="json.dumps", into="other", function=None, **options):
    options = {"gives": EXACT, "needs": "", **options}
    return substitutes(source, into=into, **options)(function or (lambda obj, *, indent=None: "x"))


def test_the_guard_sees_bound_arguments_with_defaults(table):
    seen = []

    def dumps(obj, skipkeys=False, *, indent=4):
        return "x"

    made = make(function=dumps)

    @made.guard
    def _(call):
        seen.append((call.obj, call.skipkeys, call.indent))
        return Yes

    assert made.accepts((1,), {})
    assert made.accepts((1, True), {"indent": 2})
    assert made.accepts((), {"indent": 3, "obj": 5})
    assert seen == [(1, False, 4), (1, True, 2), (5, False, 3)]
    assert made.run(1) == "x"


@pytest.mark.parametrize(("args", "kwargs"), [((), {}), ((1, 2, 3), {}), ((1,), {"wrong": 2}), ((1,), {"obj": 2})])
def test_a_call_that_does_not_bind_is_declined(table, args, kwargs):
    made = make()
    made.guard(lambda call: Yes)
    verdict = made.accepts(args, kwargs)
    assert verdict == No("the arguments do not fit the signature of json.dumps")


def test_signatures_that_no_dataclass_has_bind_too(table):
    made = make(function=lambda a, /, *rest, b=[1], **more: None)
    made.guard(lambda call: Yes if (call.a, call.rest, call.b, call.more) == (1, (2,), [1], {"c": 3}) else No("no"))
    assert made.accepts((1, 2), {"c": 3})
    assert not made.accepts((), {"a": 1})


def test_without_a_guard_everything_is_declined(table):
    assert make().accepts((1,), {}) == No("the substitution has no guard")


def test_without_a_generator_there_is_no_random_call(table):
    with pytest.raises(CodedagError):
        make().random_call(random.Random(0))


def test_find_by_public_and_by_private_name(table):
    table._loaded = True
    made = make("some.room.function")
    assert find("some.room.function") == (made,)
    assert find("some.room._inner.function") == (made,)
    assert find("some.room._function") == ()
    assert find("nothing") == ()


def test_a_method_is_found_by_the_class_that_is_shown_and_by_the_one_that_defines_it(table):
    made = make("json.decoder.JSONDecoder.decode")
    module = sys.modules["json.decoder"]
    more = {"Derived": type("Derived", (module.JSONDecoder,), {}), "Other": type("Other", (module.JSONDecoder,), {})}
    more["Other"].decode = lambda self, s: s
    with pytest.MonkeyPatch.context() as patch:
        for name, kind in more.items():
            patch.setattr(module, name, kind, raising=False)
        assert find("json.decoder.Derived.decode") == (made,)
        assert find("json.decoder.Other.decode") == ()
        assert find("json.decoder.Derived.encode") == ()
        assert find("json.no_such_module.Derived.decode") == ()


def test_a_module_that_registers_again_replaces(table):
    table._loaded = True
    first, second, other = make(), make(), make(into="third")
    assert first is not second
    assert set(find("json.dumps")) == {second, other}
    assert registry.all_substitutions() == (second, other)


def test_original_is_remembered_from_before_a_patch(table, monkeypatch):
    import json

    made, dumps = make(), json.dumps
    assert made.original() is dumps
    monkeypatch.setattr(json, "dumps", len)
    assert made.original() is dumps


@pytest.mark.parametrize(
    "source", ["no_such_library.thing", "json.no_such_name", "json.decoder.nothing.more", "json.__doc__"]
)
def test_an_original_that_is_not_there(table, source):
    with pytest.raises(CodedagError, match=source.replace(".", r"\.")):
        make(source).original()


def test_a_wrong_equivalence_is_refused(table):
    with pytest.raises(ValueError):
        make(gives="nearly")
    assert Equivalence("exact") is EXACT


@pytest.fixture
def versions(monkeypatch):
    installed = {"here": "1.11.4", "early": "2.0.0rc1", "opencv-contrib-python": "4.10.0.84"}

    monkeypatch.setattr(requirements, "version_of", installed.get)


@pytest.mark.parametrize(
    ("requirement", "good"),
    [
        ("here", True),
        ("here>=1.9", True),
        ("here>=1.11,<2", True),
        ("here >= 1.11.4, != 1.12", True),
        ("here==1.11.4.0", True),
        ("here>1.11.4", False),
        ("here>=1.12", False),
        ("here<1.11", False),
        ("early>=2", False),
        ("early<2", True),
        ("missing>=1", False),
        ("opencv-python-headless>=4.8", True),
        ("opencv-python>=5", False),
    ],
)
def test_version_ranges(versions, requirement, good):
    verdict = requirements.satisfied(requirement)
    assert bool(verdict) is good
    assert good or requirements.parse(requirement)[0] in verdict.reason


@pytest.mark.parametrize("requirement", ["", "here~1", "here>=x", ">=1"])
def test_bad_requirements(requirement):
    with pytest.raises(ValueError):
        requirements.parse(requirement)


def test_available_needs_both_libraries(table, versions):
    assert make(needs="here>=1", source_needs="opencv-python>=4").available()
    assert make(needs="here>=1").available()
    assert make(needs="here>=1", source_needs="missing").available() == No("missing is not installed")
    assert "2.0.0rc1" in make(needs="early>=2", source_needs="here").available().reason


class Point:
    def __init__(self, name, load):
        self.name, self.value, self.load = name, f"{name}:module", load


def test_bad_plug_ins_are_left_out_with_a_reason(table, monkeypatch):
    def good():
        make("plug.good")

    def half():
        make("plug.half")
        raise RuntimeError("half way")

    def missing():
        raise ModuleNotFoundError("No module named 'gone'")

    points = [Point("half", half), Point("good", good), Point("missing", missing)]
    monkeypatch.setattr(importlib.metadata, "entry_points", lambda group: points if group == registry.GROUP else [])
    monkeypatch.setattr(registry, "_built_in", tuple)
    assert len(find("plug.good")) == 1
    assert find("plug.half") == ()
    assert registry.problems() == {
        "half = half:module": "RuntimeError: half way",
        "missing = missing:module": "ModuleNotFoundError: No module named 'gone'",
    }


def test_importing_the_registry_imports_no_library():
    code = """
        import sys
        import codedag.backends.registry as registry, codedag.backends.proof
        heavy = {"numpy", "scipy", "cv2", "torch"}
        assert not heavy & set(sys.modules), heavy & set(sys.modules)
        names = {made.into for made in registry.all_substitutions()}
        assert "cv2" in names and not registry.problems()
        assert not {"scipy", "cv2", "torch"} & set(sys.modules)
    """
    subprocess.run([sys.executable, "-W", "error", "-c", textwrap.dedent(code)], check=True)


def test_call_of_keeps_positions_and_keywords():
    assert Call.of(1, 2, x=3) == Call((1, 2), {"x": 3})
