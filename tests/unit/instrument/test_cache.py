"""Rewritten code comes back from disk as it was; whatever is wrong with the disk costs only time."""

from __future__ import annotations

import marshal
import os
import pickle
import sys
import types
import zlib
from pathlib import Path
from typing import Any

import pytest

from codedag.instrument import cache as cache_module
from codedag.instrument import instrumented_file as file_module
from codedag.instrument import rewrite as rewrite_module
from codedag.instrument import table as table_module
from codedag.instrument.cache import Cache
from codedag.instrument.compiled import Compiled
from codedag.instrument.program import InstrumentedFile, Program
from codedag.instrument.rewrite import bind, bound_anew, parsed, rewrite
from codedag.instrument.sites import RECORD
from codedag.instrument.table import SiteTable

SOURCE = b"""
import functools
def f(x, *rest):
    total = 0
    for i in range(x):
        total += (lambda y: y * i)(2) + sum(rest[1:])
    while total > 100:
        total -= max(*rest, 7)
    return [total, {k: -k for k in range(2)}]
class K:
    def g(self): return f(3, 4, 5)[0]
"""


@pytest.fixture
def cache(tmp_path: Path) -> Cache:
    return Cache(tmp_path / "code")


def _file(cache: Cache, source: bytes = SOURCE, compiled: Compiled | None = None) -> InstrumentedFile:
    return InstrumentedFile("/somewhere/m.py", source, main=False, compiled=compiled, cache=cache)


def _entries(cache: Cache) -> list[Path]:
    assert cache.folder is not None
    return sorted(cache.folder.iterdir())


def _run(file: InstrumentedFile) -> Any:
    space: dict[str, Any] = {"__name__": "m"}
    exec(file.full, space)
    return space["f"](4, 1, 2, 3), space["K"]().g()


@pytest.fixture
def rewrites(monkeypatch: pytest.MonkeyPatch) -> list[str]:
    """The files that were rewritten, in order."""
    seen: list[str] = []

    def spy(tree: Any, file: str, *args: Any, **kw: Any) -> Any:
        seen.append(file)
        return rewrite(tree, file, *args, **kw)

    monkeypatch.setattr(file_module, "rewrite", spy)
    return seen


def test_a_second_load_rewrites_nothing_and_is_the_same(cache: Cache, rewrites: list[str]):
    first, second = _file(cache), _file(cache)
    assert len(rewrites) == 1
    assert second.infos == first.infos
    assert len(second.switches) == len(first.switches) > 0
    assert second.full.co_code == first.full.co_code
    assert _run(second) == _run(first)
    assert second.links == first.links
    assert second.only({3}).co_code == first.only({3}).co_code


@pytest.mark.parametrize(
    "spoil",
    [
        lambda data: b"",
        lambda data: data[:-1],
        lambda data: data[:10],
        lambda data: data[:100] + b"\xff" + data[101:],
        lambda data: b"another format\n\0" + data[16:],
        lambda data: _sealed(b"no marshal at all"),
        lambda data: _sealed(marshal.dumps((1, 2, 3))),
        lambda data: _sealed(marshal.dumps("text")),
    ],
    ids=["empty", "truncated", "head only", "one byte", "foreign", "no marshal", "few fields", "no tuple"],
)
def test_a_spoilt_entry_is_made_again(cache: Cache, rewrites: list[str], spoil: Any):
    expected = _run(_file(cache))
    (path,) = _entries(cache)
    path.write_bytes(spoil(path.read_bytes()))
    assert _run(_file(cache)) == expected
    assert len(rewrites) == 2
    assert _run(_file(cache)) == expected
    assert len(rewrites) == 2  # it was put right


def _sealed(body: bytes) -> bytes:
    return cache_module._MAGIC + zlib.crc32(body).to_bytes(4, "little") + body


@pytest.mark.parametrize("change", ["source", "path", "rewriter"])
def test_another_source_place_or_rewriter_is_another_entry(
    cache: Cache, rewrites: list[str], change: str, monkeypatch: pytest.MonkeyPatch
):
    _file(cache)
    if change == "rewriter":
        monkeypatch.setattr(cache_module, "rewriter_version", lambda: "another")
    path = "/elsewhere/m.py" if change == "path" else "/somewhere/m.py"
    source = SOURCE + b"\n" if change == "source" else SOURCE
    file = InstrumentedFile(path, source, main=False, cache=cache)
    assert len(rewrites) == 2
    assert file.full.co_filename == path


def test_the_rewriter_s_own_files_decide_about_the_version(monkeypatch: pytest.MonkeyPatch):
    real, read = cache_module.rewriter_version.__wrapped__(), Path.read_bytes
    monkeypatch.setattr(Path, "read_bytes", lambda self: read(self) + (b" " if self.name == "numbering.py" else b""))
    assert cache_module.rewriter_version.__wrapped__() != real
    monkeypatch.undo()
    monkeypatch.setattr(sys, "flags", types.SimpleNamespace(optimize=2))
    assert cache_module.rewriter_version.__wrapped__() != real


def test_what_other_files_compile_decides_too(cache: Cache, rewrites: list[str]):
    plainly = _file(cache)
    left = _file(cache, compiled=Compiled({"f"}))
    assert len(rewrites) == 2
    assert "f" in plainly.owners()
    assert "f" not in left.owners()
    _file(cache, compiled=Compiled({"f", "not_in_this_file"}))
    assert len(rewrites) == 2


def test_what_a_file_compiles_is_remembered(cache: Cache, rewrites: list[str]):
    source = b"import numba\n@numba.njit\ndef f(x): return helper(x)\n"
    for _ in range(2):
        compiled = Compiled({"unrelated"})
        _file(cache, source, compiled)
        assert compiled.names == {"unrelated", "helper"}
    assert len(rewrites) == 1


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners here")
def test_what_others_can_write_is_not_read(cache: Cache, rewrites: list[str]):
    _file(cache)
    (path,) = _entries(cache)
    assert path.stat().st_mode & 0o777 == 0o600
    assert path.parent.stat().st_mode & 0o777 == 0o700
    path.chmod(0o666)
    _file(cache)
    assert len(rewrites) == 2
    target = path.rename(path.parent.parent / "moved")
    path.symlink_to(target)
    _file(cache)
    assert len(rewrites) == 3


@pytest.mark.skipif(not hasattr(os, "getuid"), reason="no owners here")
def test_a_folder_that_others_can_write_is_not_used(tmp_path: Path):
    (tmp_path / "code").mkdir()
    (tmp_path / "code").chmod(0o777)
    assert Cache(tmp_path / "code").folder is None
    _run(_file(Cache(tmp_path / "code")))
    assert list((tmp_path / "code").iterdir()) == []


def test_files_of_another_user_are_not_read(cache: Cache, rewrites: list[str], monkeypatch: pytest.MonkeyPatch):
    _file(cache)
    monkeypatch.setattr(os, "getuid", lambda: 12345, raising=False)
    _file(cache)
    assert len(rewrites) == 2


def test_no_place_to_write_is_no_error(tmp_path: Path):
    (tmp_path / "code").write_text("a file where the folder should be")
    assert _run(_file(Cache(tmp_path / "code"))) == _run(_file(Cache(tmp_path / "good")))


def test_a_full_disk_leaves_no_part_behind(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(Path, "replace", full)
    _run(_file(cache))
    assert _entries(cache) == []


def test_a_rewriter_without_readable_sources_keeps_nothing(cache: Cache, monkeypatch: pytest.MonkeyPatch):
    def unreadable() -> str:
        raise OSError(2, "No such file or directory")

    monkeypatch.setattr(cache_module, "rewriter_version", unreadable)
    _run(_file(cache))
    assert _entries(cache) == []


def test_the_oldest_entries_go_first(tmp_path: Path):
    cache = Cache(tmp_path / "code", largest_nbytes=10_000)
    paths = []
    for number in range(12):
        _file(cache, SOURCE + b"# %d" % number)
        newest = next(p for p in _entries(cache) if p not in paths)
        paths.append(newest)
        os.utime(newest, ns=(number, number))
    left = [paths.index(path) for path in _entries(cache)]
    assert sum(path.stat().st_size for path in _entries(cache)) <= 10_000 + 2 * paths[-1].stat().st_size
    assert 0 < len(left) < 12
    assert sorted(left) == list(range(12 - len(left), 12))


@pytest.mark.parametrize("in_c", [True, False])
def test_the_table_gives_back_every_fact(in_c: bool, monkeypatch: pytest.MonkeyPatch):
    if not in_c:
        monkeypatch.setattr(table_module, "_bind", None)
    elif table_module._bind is None:
        pytest.skip("it was not built here")
    rewritten = rewrite(parsed(SOURCE, "m.py"), "m.py")
    table = SiteTable.of("m.py", rewritten.sites)
    again = SiteTable("m.py", type(table.columns)(*marshal.loads(marshal.dumps(tuple(table.columns)))))
    assert again.infos == rewritten.sites
    for site, info in zip(again.make_sites(), rewritten.sites, strict=True):
        assert (site.kind, site.function) == (info.kind, info.function)
        assert site.info == info
        assert site.info != rewritten.sites[(info.index + 1) % len(rewritten.sites)]
        assert hash(site.info) == hash(info)
        assert pickle.loads(pickle.dumps(site.info)) == info
        with pytest.raises(AttributeError, match="nothing_like_it"):
            site.info.nothing_like_it
        assert (site.info.owner, site.info.index, repr(site.info)) == (info.owner, info.index, repr(info))
    assert again.indexes_of("f") == [info.index for info in rewritten.sites if info.owner == "f"]
    assert again.indexes_of("nobody") == []


def test_binding_in_place_gives_what_binding_anew_gives():
    if rewrite_module._fill is None:
        pytest.skip("code is always bound anew here")
    rewritten = rewrite(parsed(SOURCE, "m.py"), "m.py")
    sites = SiteTable.of("m.py", rewritten.sites).make_sites()
    switches = [object() for _ in range(rewritten.loops)]
    anew = bound_anew(rewritten.code, sites, switches)
    filled = bind(rewritten.code, sites, switches)
    assert _shown(filled) == _shown(anew)
    assert "codedag:" not in repr(_shown(filled))


def _shown(code: types.CodeType) -> list[Any]:
    named = [type(c).__name__ if type(c).__name__ == "Spread" else id(c) for c in code.co_consts if not _is_plain(c)]
    return [named, *(_shown(c) for c in code.co_consts if isinstance(c, types.CodeType))]


def _is_plain(constant: object) -> bool:
    return isinstance(constant, types.CodeType | int | tuple | None.__class__) or (
        isinstance(constant, str) and not constant.startswith("\0")
    )


def test_placeholders_that_lead_nowhere_are_refused():
    if rewrite_module._fill is None:
        pytest.skip("code is always bound anew here")
    code = compile("def f(): return 'x'", "m.py", "exec")
    for text in ("\0codedag:site:7", "\0codedag:site:x", "\0codedag:what:0", "\0codedag:loop:-1"):
        with pytest.raises(ValueError):
            bind(code.replace(co_consts=(text,)), [], [])


def test_a_program_keeps_what_it_rewrites(codedag_home: Path, rewrites: list[str]):
    for _ in range(2):
        program = Program([Path("/somewhere")])
        program.load("/somewhere/m.py", SOURCE)
        assert all(site.mode == RECORD for site in program.files["/somewhere/m.py"].sites)
    assert len(rewrites) == 1
    assert len(list((codedag_home / "cache" / "code").iterdir())) == 1
