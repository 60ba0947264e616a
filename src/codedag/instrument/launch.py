"""Running a program as Python would: `__main__`, argv, sys.path, tracebacks and exit code are its own."""

from __future__ import annotations

import builtins
import importlib.machinery
import importlib.util
import os
import runpy
import sys
import types
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from codedag.ir.errors import BadScript

Load = Callable[[str, bytes], types.CodeType]
_OURS = str(Path(__file__).resolve().parent.parent)


@dataclass(frozen=True, slots=True)
class Target:
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
        else:
            self.read()

    def _check_module(self) -> None:
        top = self.name.partition(".")[0]
        if importlib.machinery.PathFinder.find_spec(top, [os.getcwd(), *sys.path]) is None:
            raise BadScript(
                f"there is no module {self.name!r}", hint="Check the name after -m and the working directory."
            )

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


@dataclass(frozen=True, slots=True)
class Ending:
    """How a program ended: its exit code, or the signal it died of."""

    code: int
    interrupted: bool = False

    def leave(self) -> None:
        """Ends this process the way the program ended."""
        if self.interrupted:
            import signal

            signal.signal(signal.SIGINT, signal.SIG_DFL)
            os.kill(os.getpid(), signal.SIGINT)
        sys.exit(self.code)


def run(target: Target, load: Load) -> Ending:
    """Runs the program to its end and says how it ended; its traceback has been printed as Python would."""
    try:
        _run_module(target) if target.module else _run_script(target, load)
    except SystemExit as leaving:
        return Ending(_exit_code(leaving))
    except KeyboardInterrupt as interrupt:
        _print_traceback(interrupt)
        return Ending(130, interrupted=True)
    except BaseException as error:  # noqa: BLE001 - the program's own failure, reported as Python would
        _print_traceback(error)
        return Ending(1)
    return Ending(0)


def _run_script(target: Target, load: Load) -> None:
    sys.argv = [target.name, *target.args]
    sys.path[0:1] = [str(target.name if Path(target.name).is_dir() else Path(target.path).resolve().parent)]
    main = types.ModuleType("__main__")
    main.__dict__.update(
        __file__=target.path,
        __builtins__=builtins,
        __loader__=importlib.machinery.SourceFileLoader("__main__", target.path),
        __cached__=None,
        __annotations__={},
    )
    global _previous_main
    _previous_main = sys.modules["__main__"]  # its globals must outlive the program
    sys.modules["__main__"] = main
    code = load(target.path, target.read())
    exec(code, main.__dict__)  # noqa: S102 - running the user's program is the job


_previous_main: types.ModuleType | None = None


def _run_module(target: Target) -> None:
    sys.argv = ["-m", *target.args]
    sys.path[0:1] = [os.getcwd()]
    runpy._run_module_as_main(target.name)  # type: ignore[attr-defined] # what `python -m` itself calls


def _exit_code(leaving: SystemExit) -> int:
    if leaving.code is None:
        return 0
    if isinstance(leaving.code, int):
        return leaving.code & 0xFF
    print(leaving.code, file=sys.stderr)  # noqa: T201 - what Python does with sys.exit("text")
    return 1


def _print_traceback(error: BaseException) -> None:
    trace = error.__traceback__
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(_OURS):
        trace = trace.tb_next
    error.__traceback__ = trace
    sys.last_type, sys.last_value, sys.last_traceback = type(error), error, trace
    sys.excepthook(type(error), error, trace)
