"""Running a program as Python would: `__main__`, argv, sys.path, tracebacks and exit code are its own."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import pkgutil
import sys
import types
from collections.abc import Callable
from pathlib import Path

import msgspec

from codedag.ir.errors import BadScript

try:
    from codedag.instrument._bind import at_the_bottom as _at_the_bottom
except ImportError:  # no C compiler where it was installed, or another Python than we know the frames of
    _at_the_bottom = exec
Load = Callable[[str, bytes], types.CodeType]
USAGE_CODE = 2  # what argparse, click and getopt programs exit with
_OURS = str(Path(__file__).resolve().parent.parent)


class Target(msgspec.Struct, frozen=True):
    """What to run: a script, or a module as `python -m` runs it, with the arguments that belong to it."""

    name: str
    args: tuple[str, ...] = ()
    module: bool = False

    def check(self) -> None:
        """Raises BadScript if there is nothing to run; says what was looked for."""
        if self.module:
            self._check_module()
        elif not Path(self.name).exists():
            raise BadScript(f"there is no script {self.name!r} in {Path.cwd()}", hint="Check the path of the script.")
        elif Path(self.name).is_dir() and not (Path(self.name) / "__main__.py").exists():
            raise BadScript(f"{self.name!r} is a directory without __main__.py", hint="Name the script itself.")
        elif self.name.endswith(".ipynb"):
            hint = "Export it (`jupyter nbconvert --to script NAME`), or use %%codedag and codedag.apply in its cells."
            raise BadScript(f"{self.name!r} is a notebook, and its cells are no script", hint=hint)
        elif not self.by_runpy:
            self.read()

    def _check_module(self) -> None:
        top = self.name.partition(".")[0]
        if importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is None:
            raise BadScript(
                f"there is no module {self.name!r}", hint="Check the name after -m and the working directory."
            )

    @property
    def by_runpy(self) -> bool:
        """Whether Python runs this through runpy: a module, a directory or an archive."""
        return self.module or Path(self.name).is_dir() or pkgutil.get_importer(os.path.abspath(self.name)) is not None

    @property
    def path(self) -> str:
        """The file to run, for a script (a directory runs its __main__.py)."""
        return os.path.abspath(Path(self.name) / "__main__.py" if Path(self.name).is_dir() else self.name)

    def read(self) -> bytes:
        """The source of the script."""
        try:
            return Path(self.path).read_bytes()
        except OSError as error:
            raise BadScript(f"cannot read {self.path}: {error.strerror}", hint="Check its permissions.") from error

    def root(self) -> Path:
        """The directory whose modules are the program's own."""
        return Path.cwd() if self.module else Path(self.path).resolve().parent


class Ending(msgspec.Struct, frozen=True):
    """How a program ended: its exit code, or the signal it died of."""

    code: int
    interrupted: bool = False
    raised: bool = False  # by an exception that nothing caught

    @classmethod
    def by_signal(cls, number: int) -> Ending:
        """The end of a program that dies of a signal; its code is the negative number, as module subprocess has it."""
        return cls(-number)

    @property
    def is_mistake(self) -> bool:
        """Whether the program ended by an exception or by the exit code of a wrong usage: nobody waits for figures."""
        return self.raised or self.code == USAGE_CODE

    def leave(self) -> None:
        """Ends this process the way the program ended; Python finishes threads, exit functions and buffers first."""
        if self.interrupted:
            sys.excepthook = lambda *raised: None  # its traceback is printed already
            raise KeyboardInterrupt
        sys.exit(self.code)


def run(target: Target, load: Load) -> Ending:
    """Runs the program to its end and says how it ended; its traceback has been printed as Python would."""
    try:
        _run_module(target) if target.by_runpy else _run_script(target, load)
    except SystemExit as leaving:
        return Ending(_exit_code(leaving))
    except _Unreadable as unreadable:
        return Ending(unreadable.code)
    except KeyboardInterrupt as interrupt:
        return _reported(interrupt, Ending(130, interrupted=True))
    except BaseException as error:  # noqa: BLE001 - the program's own failure, reported as Python would
        return _reported(error, Ending(1, raised=True))
    return Ending(0)


def _run_script(target: Target, load: Load) -> None:
    sys.argv = [target.name, *target.args]
    _first_on_path(str(Path(target.path).resolve().parent))
    main = _fresh_main(importlib.machinery.SourceFileLoader("__main__", target.path))
    main.__dict__.update(__file__=target.path, __cached__=None)
    code = _compiled(target, load)
    _at_the_bottom(code, main.__dict__)


def _fresh_main(loader: object) -> types.ModuleType:
    """A new `__main__` with the names that Python gives it, in Python's order."""
    global _previous_main
    main = types.ModuleType("__main__")
    main.__dict__.update(__loader__=loader, __annotations__={}, __builtins__=builtins)
    _previous_main = sys.modules["__main__"]  # its globals must outlive the program
    sys.modules["__main__"] = main
    return main


def _first_on_path(directory: str) -> None:
    if not sys.flags.safe_path:  # with -P, sys.path has no entry for the program
        sys.path[0:1] = [directory]


class _Unreadable(Exception):  # noqa: N818 - how a program ended that never began
    def __init__(self, code: int) -> None:
        self.code = code


def _compiled(target: Target, load: Load) -> types.CodeType:
    source = target.read()
    try:
        return load(target.path, source)
    except (SyntaxError, ValueError):
        if b"\0" not in source and _is_text(source):
            raise
    import subprocess

    # What Python says about such bytes depends on how it reads the file, and the program has not begun: ask Python.
    flags: list[str] = subprocess._args_from_interpreter_flags()  # type: ignore[attr-defined]
    raise _Unreadable(subprocess.run([sys.executable, *flags, *sys.argv], check=False).returncode)


def _is_text(source: bytes) -> bool:
    try:
        importlib.util.decode_source(source)
    except (SyntaxError, UnicodeDecodeError):
        return False
    return True


_previous_main: types.ModuleType | None = None


def _run_module(target: Target) -> None:
    """Runs what Python itself runs through runpy: a module, or a directory or archive with __main__.py."""
    import runpy

    _fresh_main(importlib.machinery.BuiltinImporter)
    sys.argv = ["-m" if target.module else target.name, *target.args]
    if target.module:
        _first_on_path(os.getcwd())
    else:
        sys.path[0 : 0 if sys.flags.safe_path else 1] = [os.path.abspath(target.name)]
    run_as_main = runpy._run_module_as_main  # type: ignore[attr-defined] # what `python -m` itself calls
    run_as_main(target.name if target.module else "__main__", target.module)


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF if -(2**63) <= leaving.code < 2**63 else 255
    print(leaving.code, file=sys.stderr or sys.__stderr__)
    return 1


def _reported(error: BaseException, ending: Ending) -> Ending:
    """How the program ended, after the traceback of its failure was printed as Python does, hook and all."""
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    try:
        sys.excepthook(type(error), error, trace)
    except SystemExit as leaving:
        return Ending(_exit_code(leaving))
    except BaseException as failed:  # noqa: BLE001 - the program's own hook failed: Python says so, then goes on
        _say_that_the_hook_failed(failed, error)
    return ending


def _say_that_the_hook_failed(failed: BaseException, error: BaseException) -> None:
    failed.__traceback__ = failed.__traceback__.tb_next if failed.__traceback__ else None
    failed.__context__ = None
    print("Error in sys.excepthook:", file=sys.stderr)  # noqa: T201 - Python's own words
    sys.__excepthook__(type(failed), failed, failed.__traceback__)
    print("\nOriginal exception was:", file=sys.stderr)  # noqa: T201
    sys.__excepthook__(type(error), error, error.__traceback__)
