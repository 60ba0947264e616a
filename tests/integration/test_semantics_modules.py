"""Whole modules of the standard library, rewritten and recorded, give what they give as they are."""

from __future__ import annotations

import importlib.util
import sys
import types
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument import _site, _twin
from codedag.instrument import sites as site_module
from codedag.instrument.program import Program
from codedag.instrument.sites import PASS
from codedag.trace.recorder import Recorder

TEXT = 'a {"k": [1, 2.5e3, -0, true, null, "x\\u00e9\\n"]} tail ' * 3


def _json(m: Any) -> Any:
    out = [m.JSONDecoder(strict=False).raw_decode(TEXT, 2), m.JSONDecoder(parse_float=str).decode("[1.5, {}]")]
    m.c_scanner, m.scanner = None, __import__("json.scanner").scanner
    return out + [_fails(m.JSONDecoder().decode, bad) for bad in ("{", "[1,]", '{"a" 1}', "nul", '"\\x"', "")]


def _textwrap(m: Any) -> Any:
    text = "The quick (brown) fox -- jumps over\tthe lazy dog. " * 5
    wrapped = [
        m.wrap(text, width, **o) for width in (10, 33) for o in ({}, {"break_long_words": False}, {"max_lines": 2})
    ]
    return (
        wrapped,
        m.fill(text, 40, initial_indent="> "),
        m.dedent("  a\n   b\n\n  c"),
        m.shorten(text, 30),
        m.indent("a\nb", "- "),
    )


def _statistics(m: Any) -> Any:
    data = [1, 2.5, 2.5, 4, 8.75, 3]
    normal = m.NormalDist.from_samples(data)
    return [
        m.mean(data), m.median(data), m.mode(data), m.stdev(data), m.quantiles(data), m.fmean(data, data),
        m.variance(data),
        m.linear_regression(data, data[::-1]), m.correlation(data, data[::-1]), normal.cdf(3), (normal + 1).mean,
        normal.overlap(normal * 2), m.geometric_mean(data), m.harmonic_mean(data), _fails(m.mean, []),
        m.multimode(data),
    ]  # fmt: skip


def _fractions(m: Any) -> Any:
    f, g = m.Fraction(3, 7), m.Fraction("1.25")
    out = [
        f + g,
        f - 1,
        2 * g,
        f / g,
        g // f,
        g % f,
        f**2,
        2**f,
        -f,
        abs(-g),
        f < g,
        f == 0.5,
        round(g),
        hash(f),
        float(f),
        str(g),
    ]
    return [repr(x) for x in out] + [
        _fails(m.Fraction, 1, 0),
        _fails(m.Fraction, "x"),
        m.Fraction(0.1).limit_denominator(9)._numerator,
    ]


def _difflib(m: Any) -> Any:
    a, b = ["one", "two", "three", "four", "five"], ["one", "too", "three", "for", "five", "six"]
    matcher = m.SequenceMatcher(None, a, b)
    return [
        matcher.get_opcodes(), matcher.ratio(), list(m.ndiff(a, b)), list(m.unified_diff(a, b, n=1)),
        m.get_close_matches("appel", ["ape", "apple", "peach"]), list(m.context_diff(a, b)),
        len(m.HtmlDiff().make_table(a, b)),
    ]  # fmt: skip


def _heapq(m: Any) -> Any:
    heap = [5, 3, 8, 1, 9, 2]
    m.heapify(heap)
    out = [
        m.heappop(heap),
        m.heappushpop(heap, 4),
        m.heapreplace(heap, 7),
        list(heap),
        m.nlargest(3, heap),
        m.nsmallest(2, heap, key=str),
    ]
    return out, list(m.merge([1, 4], [2, 3], reverse=False)), list(m.merge([4, 1], [3], key=lambda x: -x))


def _argparse(m: Any) -> Any:
    parser = m.ArgumentParser(prog="p", description="d", exit_on_error=False)
    parser.add_argument("-n", "--number", type=int, default=3, choices=[1, 2, 3], help="a number (%(default)s)")
    parser.add_argument("rest", nargs="*")
    group = parser.add_mutually_exclusive_group()
    group.add_argument("--on", action="store_true")
    group.add_argument("--off", dest="on", action="store_false")
    commands = m.ArgumentParser(prog="q")
    commands.add_subparsers(dest="cmd").add_parser("go").add_argument("--speed", action="append")
    parsed = [vars(parser.parse_args(a)) for a in ([], ["-n2", "a", "b"], ["--num", "1", "--on"])]
    return (
        parsed,
        vars(commands.parse_args(["go", "--speed", "1", "--speed=2"])),
        parser.format_help(),
        _fails(parser.parse_args, ["-n", "9"]),
    )


def _fails(function: Callable[..., Any], *args: Any) -> Any:
    try:
        return function(*args)
    except Exception as error:  # noqa: BLE001 - what was raised is the result
        return type(error).__name__, str(error)


MODULES: dict[str, Callable[[Any], Any]] = {
    "json.decoder": _json, "textwrap": _textwrap, "statistics": _statistics, "fractions": _fractions,
    "difflib": _difflib, "heapq": _heapq, "argparse": _argparse,
}  # fmt: skip


def _copy(name: str, directory: Path) -> Path:
    origin = importlib.util.find_spec(name).origin
    path = directory / Path(origin).name
    path.write_bytes(Path(origin).read_bytes())
    return path


@contextmanager
def _using(native: Any) -> Iterator[None]:
    before = site_module.native
    site_module.use(native)
    try:
        yield
    finally:
        site_module.use(before)


def _execute(name: str, path: Path, code: types.CodeType) -> types.ModuleType:
    spec = importlib.util.spec_from_file_location(name, path)
    module = importlib.util.module_from_spec(spec)
    before = sys.modules[name]
    sys.modules[name] = module  # NamedTuple and friends look their module up
    try:
        exec(code, module.__dict__)
    finally:
        sys.modules[name] = before
    return module


@pytest.mark.parametrize("mode", ["pass", "record"])
@pytest.mark.parametrize("native", [_site, _twin], ids=["c", "twin"])
@pytest.mark.parametrize("name", MODULES)
def test_a_rewritten_module_gives_the_same(name: str, native: Any, mode: str, tmp_path: Path) -> None:
    __import__(name)
    path = _copy(name, tmp_path)
    expected = repr(MODULES[name](_execute(name, path, compile(path.read_bytes(), str(path), "exec"))))
    program = Program([tmp_path])
    with _using(native):
        code = program.load(str(path), path.read_bytes())
        recorder = Recorder(program.names)
        native.start(recorder, program.names)
        try:
            if mode == "pass":
                for site in program.files[str(path)].sites:
                    site.mode = PASS
            found = repr(MODULES[name](_execute(name, path, code)))
        finally:
            native.stop()
    assert native.failure() is None
    assert found == expected
