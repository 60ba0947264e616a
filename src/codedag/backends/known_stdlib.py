"""What modules of the standard library do that a data pipeline uses."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Table, only_atoms_inside

_OS_PATH = "basename commonpath commonprefix dirname isabs join normpath split splitdrive splitext normcase"
_STATS = "exists getatime getctime getmtime getsize isdir isfile islink lexists realpath"
_PATH = (
    "joinpath with_name with_suffix with_stem as_posix relative_to is_relative_to match is_absolute __truediv__ as_uri"
)
_PATH_READS = "exists is_file is_dir is_symlink stat lstat read_bytes read_text"


def learn_os(table: Table, module: Any) -> None:
    """Adds what `os` reads of files, and what it says about the process."""
    reads: dict[str, Any] = {"effect": Effect.READS, "outs": (), "files": (0, "path"), "declines": _first}
    table.functions_of(module, "stat lstat listdir readlink access", **reads)
    table.functions_of(module, "fspath fsencode fsdecode", outs=())
    table.functions_of(
        module, "getcwd getpid getppid getenv cpu_count times urandom getlogin", effect=Effect.CLOCK, outs=()
    )


def learn_os_path(table: Table, module: Any) -> None:
    """Adds `os.path`."""
    table.functions_of(module, _OS_PATH, outs=())
    reads: dict[str, Any] = {"effect": Effect.READS, "outs": (), "files": (0, "path", "filename"), "declines": _first}
    table.functions_of(module, _STATS, **reads)
    table.functions_of(module, "abspath expanduser expandvars relpath", effect=Effect.CLOCK, outs=())


def _first(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return device(args[0] if args else "")


def learn_pathlib(table: Table, module: Any) -> None:
    """Adds paths."""
    for kind in (module.PosixPath, module.PurePosixPath):
        table.hold(kind)
        table.methods_of(kind, _PATH, outs=())
        table.methods_of(kind, _PATH_READS, outs=(), effect=Effect.READS, files=("self",), declines=_first)
        table.methods_of(kind, "open", outs=(), effect=Effect.READS, files=("self",), declines=_opens_to_write)
    table.functions_of(module, "Path PurePath PosixPath PurePosixPath", outs=())


def _opens_to_write(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    mode = args[1] if len(args) > 1 else keywords.get("mode", "r")
    reads = type(mode) is str and not set(mode) - set("rbt")
    return _first(args, keywords) if reads else f"it opens a file with mode {mode!r}"


def learn_time(table: Table, module: Any) -> None:
    """Adds clocks."""
    clocks = "time time_ns monotonic monotonic_ns perf_counter perf_counter_ns process_time process_time_ns thread_time"
    table.functions_of(module, f"{clocks} localtime gmtime ctime", effect=Effect.CLOCK, outs=())


def learn_glob(table: Table, module: Any) -> None:
    """Adds `glob`, whose folders no argument names: it is as changeable as the clock."""
    table.functions_of(module, "glob", effect=Effect.CLOCK, outs=())
    table.functions_of(module, "escape has_magic", outs=())


def learn_json(table: Table, module: Any) -> None:
    """Adds `json` between texts and values."""
    table.functions_of(module, "loads dumps", outs=())
    table.functions_of(module, "load", outs=(0, "fp"))


def learn_re(table: Table, module: Any) -> None:
    """Adds regular expressions."""
    names = "search match fullmatch split findall sub subn escape compile"
    table.functions_of(module, names, outs=())
    table.add_atoms((module.Pattern, module.Match, module.RegexFlag))
    table.methods_of(module.Pattern, names, outs=())
    table.methods_of(module.Match, "group groups groupdict start end span expand __getitem__", outs=())


def learn_operator(table: Table, module: Any) -> None:
    """Adds the operators as functions."""
    names = "add sub mul truediv floordiv mod pow matmul neg pos invert lt le gt ge eq ne and_ or_ xor not_ truth index"
    table.functions_of(module, names, outs=(), fresh=only_atoms_inside(table))
    table.functions_of(module, "getitem contains", outs=(), fresh=False)
    table.functions_of(module, "iadd isub imul itruediv iand ior ixor setitem delitem", outs=(0,), fresh=False)


def learn_copy(table: Table, module: Any) -> None:
    """Adds copying of plain values."""
    table.functions_of(
        module, "deepcopy", outs=(), declines=lambda args, keywords: "a memo is given" if len(args) > 1 else ""
    )
    table.functions_of(module, "copy", outs=(), fresh=only_atoms_inside(table))


def learn_hashlib(table: Table, module: Any) -> None:
    """Adds digests."""
    names = "md5 sha1 sha224 sha256 sha384 sha512 blake2b blake2s new"
    table.functions_of(module, names, outs=())
    for kind in {type(module.md5(b"", usedforsecurity=False)), type(module.blake2b())}:
        table.hold(kind)
        table.methods_of(kind, "digest hexdigest", outs=())
        table.methods_of(kind, "update", outs=(), into_self=True)


def learn_collections(table: Table, module: Any) -> None:
    """Adds containers that are made; what is done with them then is not known."""
    table.functions_of(module, "OrderedDict Counter deque", outs=(), fresh=only_atoms_inside(table))


def learn_struct(table: Table, module: Any) -> None:
    """Adds `struct`."""
    table.functions_of(module, "pack unpack unpack_from calcsize", outs=())


def learn_zlib(table: Table, module: Any) -> None:
    """Adds checksums and one-shot compression."""
    table.functions_of(module, "compress decompress crc32 adler32", outs=())


def learn_base64(table: Table, module: Any) -> None:
    """Adds encodings."""
    table.functions_of(module, "b64encode b64decode urlsafe_b64encode urlsafe_b64decode b32encode b32decode", outs=())


def learn_statistics(table: Table, module: Any) -> None:
    """Adds statistics of plain numbers."""
    table.functions_of(module, "mean fmean median median_low median_high mode pstdev pvariance stdev variance", outs=())


def learn_bisect(table: Table, module: Any) -> None:
    """Adds searches in sorted lists."""
    table.functions_of(module, "bisect bisect_left bisect_right", outs=())
    table.functions_of(module, "insort insort_left insort_right", outs=(0, "a"))


def learn_datetime(table: Table, module: Any) -> None:
    """Adds dates; local time and the clock are state of the process."""
    kinds = (module.date, module.datetime, module.time, module.timedelta)
    table.add_atoms(kinds)
    table.functions_of(module, "date datetime time timedelta", outs=())
    for kind in kinds:
        table.methods_of(
            kind, "isoformat strftime replace weekday isoweekday toordinal date time total_seconds", outs=()
        )
        table.methods_of(kind, "fromisoformat fromordinal strptime combine", outs=())
        table.methods_of(kind, "now today utcnow fromtimestamp timestamp astimezone", effect=Effect.CLOCK, outs=())


def learn_compressed(table: Table, module: Any) -> None:
    """Adds compression of bytes at once; gzip writes the time into what it makes."""
    table.functions_of(module, "decompress", outs=())


def learn_unicodedata(table: Table, module: Any) -> None:
    """Adds facts about characters."""
    table.functions_of(module, "normalize category combining name lookup numeric decimal digit", outs=())


#: Module -> who knows it.
LIBRARIES: dict[str, Callable[[Table, Any], None]] = {
    "os": learn_os,
    "posixpath": learn_os_path,
    "pathlib": learn_pathlib,
    "time": learn_time,
    "glob": learn_glob,
    "json": learn_json,
    "re": learn_re,
    "operator": learn_operator,
    "copy": learn_copy,
    "hashlib": learn_hashlib,
    "collections": learn_collections,
    "struct": learn_struct,
    "zlib": learn_zlib,
    "base64": learn_base64,
    "statistics": learn_statistics,
    "bisect": learn_bisect,
    "datetime": learn_datetime,
    "gzip": learn_compressed,
    "bz2": learn_compressed,
    "lzma": learn_compressed,
    "unicodedata": learn_unicodedata,
}
