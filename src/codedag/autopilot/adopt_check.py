"""Trial of code to adopt, in a process of its own: the new code runs beside the old on inputs that the run recorded.

Where there are none, arrays have the recorded type and shape and drawn contents, and files are those of the program's
folder.
"""

from __future__ import annotations

import ast
import builtins
import itertools
import random
import re
import subprocess
import sys
import tempfile
import types
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, Literal

import msgspec

from codedag.ir import Op
from codedag.profile.sample import Sample, Samples

TRIAL_SECONDS_MAX = 120.0
FILES_TRIED, FILES_LOOKED_AT = 3, 5000
CALLS_TRIED = 12
SUFFIXES = (".jpg", ".jpeg", ".png", ".bmp", ".tif", ".tiff", ".webp", ".npy", ".wav", ".flac", ".csv", ".json", ".txt")
#: Stands for a variable of the function around the steps, whose value nobody knows: first a fraction, then a count.
STAND_INS = (0.75, 64)


class Request(msgspec.Struct, frozen=True):
    """What is tried: a helper with steps (`table`, `file`, `value`), or a function that substitutes a library's."""

    kind: Literal["table", "file", "value", "substitute"]
    helper: str
    name: str  # of the helper, or of the function that substitutes
    steps: str = ""
    module: str = ""  # the patched file, from which the names that the steps use are taken
    signature: str = ""
    source: str = ""  # of a substitution: the library's function
    variant: str = ""
    run: str = ""  # its directory, which may have inputs of the operation
    op: Op | None = None  # the operation whose input the code takes


class Tried(msgspec.Struct, frozen=True):
    """Why the code cannot be adopted, empty if it gave the same wherever it was tried; and what it was tried on."""

    why: str
    recorded: int = 0  # inputs that the run had kept
    drawn: int = 0


def trial(request: Request, cwd: Path) -> Tried:
    """Runs the code beside the lines as they are written."""
    try:
        done = subprocess.run(
            [sys.executable, "-m", __name__], input=msgspec.json.encode(request), capture_output=True,
            timeout=TRIAL_SECONDS_MAX, cwd=cwd if cwd.is_dir() else None, check=False,
        )  # fmt: skip
    except (OSError, subprocess.TimeoutExpired) as error:
        return Tried(f"it could not be tried: {error}")
    if done.returncode != 0:
        last = done.stderr.decode(errors="replace").strip().splitlines()[-1:] or ["it ended without a word"]
        return Tried(f"it could not be tried: {last[0]}")
    return msgspec.json.decode(done.stdout.splitlines()[-1], type=Tried)


def _main() -> None:
    request = msgspec.json.decode(sys.stdin.buffer.read(), type=Request)
    tried = _substitute(request) if request.kind == "substitute" else _steps(request)
    sys.stdout.write(f"{msgspec.json.encode(tried).decode()}\n")


def _recorded(request: Request) -> list[Sample]:
    """What the run kept of the operation's calls."""
    if request.op is None:
        return []
    samples = Samples(Path(request.run))
    return [] if samples.expired() else samples.at_site(request.op)


def _substitute(request: Request) -> Tried:
    from codedag.backends.proof import near
    from codedag.backends.registry import find

    space = _module()
    exec(compile(request.helper, "adopted.py", "exec", dont_inherit=True), space)  # noqa: S102 - our own source
    (substitution,) = [one for one in find(request.source) if one.into == request.variant][:1]
    rng, tried, kept = random.Random(5), 0, 0
    for sample in _recorded(request):
        args, keywords = sample.call()
        if substitution.accepts(args, keywords):
            expected = substitution.original()(*args, **keywords)
            args, keywords = sample.call()
            if not near(expected, space[request.name](*args, **keywords), substitution.equivalence):
                return Tried("it gave another result than the library's function, on an input of the run")
            kept += 1
    for _ in range(CALLS_TRIED):
        number = rng.getrandbits(64)
        theirs, ours = (substitution.random_call(random.Random(number)) for _ in range(2))
        if substitution.accepts(theirs.args, theirs.kwargs):
            expected = substitution.original()(*theirs.args, **theirs.kwargs)
            if not near(expected, space[request.name](*ours.args, **ours.kwargs), substitution.equivalence):
                return Tried("it gave another result than the library's function")
            tried += 1
    return Tried("" if tried or kept else "no call was found on which it could be tried", kept, tried)


def _module() -> dict[str, Any]:
    """The names of a new module, which is there for whoever looks it up, as dataclasses do."""
    made = sys.modules["adopted"] = types.ModuleType("adopted")
    return vars(made)


def _inputs(request: Request) -> Iterator[tuple[bool, Any]]:
    """What the steps are tried on: what the run kept, then what is drawn; with whether the run kept it."""
    kept = 0
    for sample in _recorded(request):
        args, _ = sample.call()
        if args:
            kept += 1
            yield True, args[0]
    drawn = {"table": _pictures, "value": _arrays, "file": _files}[request.kind](request.signature)
    yield from ((False, value) for value in itertools.islice(drawn, 1 if kept else None))


def _steps(request: Request) -> Tried:
    from codedag.backends.same import same
    from codedag.ir import No

    is_kept = request.kind != "table"  # then a result stands for all later calls with the same input
    if is_kept and (names := _other_inputs(request)):
        return Tried(f"its lines use `{names[0]}`, which another call may have another value of")
    last = "no input was found on which it could be tried"
    for stand_in in STAND_INS:
        steps, helper = _functions(request, stand_in)
        counts = {True: 0, False: 0}
        for is_recorded, value in _inputs(request):
            try:
                expected = _seeded(steps, _copied(value))
                other = _seeded(steps, _copied(value), seed=8) if is_kept else expected
            except Exception as error:  # noqa: BLE001 - the program's code on an input of ours
                last = f"it could not be tried: {type(error).__name__}: {error}"
                continue
            if isinstance(same(_owned(expected), _owned(other)), No):
                return Tried("it draws random numbers, and a kept result would not")
            for _ in range(2):  # what is kept is asked for again
                equal = same(_owned(expected), _owned(_seeded(helper, _copied(value), steps)))
                if isinstance(equal, No):
                    return Tried(f"it gave another result than the lines as they are written ({equal.reason})")
            counts[is_recorded] += 1
            if counts[False] == FILES_TRIED:
                break
        if any(counts.values()):
            return Tried("", counts[True], counts[False])
    return Tried(last)


def _functions(request: Request, stand_in: float) -> tuple[Callable[[Any], Any], Callable[..., Any]]:
    """The steps and the helper, with what they use of the program's module; other names have a stand-in."""
    space = _module()
    wanted = _free(ast.parse(request.steps)) | _free(ast.parse(request.helper))
    for statement in _needed(ast.parse(request.module), wanted):
        code = ast.Module([statement], [])
        exec(compile(code, "adopted.py", "exec", dont_inherit=True), space)  # noqa: S102 - the user's own source
    exec(compile(request.helper, "adopted.py", "exec", dont_inherit=True), space)  # noqa: S102
    for name in wanted - set(space) - set(dir(builtins)):
        space[name] = _stand_in(stand_in)
    exec(compile(request.steps, "adopted.py", "exec", dont_inherit=True), space)  # noqa: S102
    return space["steps"], space[request.name]


def _other_inputs(request: Request) -> list[str]:
    """Names that the steps take from the function around them, beside their input; `self` is taken to stay as it is."""
    tree = ast.parse(request.steps)
    own = {node.id for node in ast.walk(tree) if isinstance(node, ast.Name) and not isinstance(node.ctx, ast.Load)}
    own |= {node.arg for node in ast.walk(tree) if isinstance(node, ast.arg)}
    module = {name for statement in ast.parse(request.module).body for name in _gives(statement)}
    return sorted(_free(tree) - own - module - set(dir(builtins)) - {"self"})


def _stand_in(number: float) -> Any:
    """A number whose every attribute is one too: `self.size` of a function that nobody calls here."""

    def attribute(self: object, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        return _stand_in(number)

    return type("StandIn", (type(number),), {"__getattr__": attribute})(number)


def _free(tree: ast.AST) -> set[str]:
    return {node.id for node in ast.walk(tree) if isinstance(node, ast.Name)}


def _needed(module: ast.Module, wanted: set[str]) -> list[ast.stmt]:
    """The module's own statements that give the wanted names, with what these need themselves, in their order."""
    chosen: set[int] = set()
    names = set(wanted)
    while True:
        new = {at for at, each in enumerate(module.body) if _gives(each) & names} - chosen
        if not new:
            return [module.body[at] for at in sorted(chosen)]
        chosen |= new
        names |= {name for at in new for name in _free(module.body[at])}


def _gives(statement: ast.stmt) -> set[str]:
    if isinstance(statement, ast.Import | ast.ImportFrom):
        return {(each.asname or each.name).partition(".")[0] for each in statement.names}
    if isinstance(statement, ast.FunctionDef | ast.ClassDef | ast.AsyncFunctionDef):
        return {statement.name}
    if isinstance(statement, ast.Assign | ast.AnnAssign):
        targets = statement.targets if isinstance(statement, ast.Assign) else [statement.target]
        return {node.id for target in targets for node in ast.walk(target) if isinstance(node, ast.Name)}
    return set()


def _seeded(function: Callable[..., Any], *args: Any, seed: int = 7) -> Any:
    """The result with random numbers that are the same for the same seed: steps may draw some."""
    import numpy as np

    random.seed(seed)
    np.random.seed(seed)
    return function(*args)


def _owned(value: Any) -> Any:
    """An array with the same layout that owns its memory: whose that is, a kept result need not repeat."""
    import numpy as np

    return np.array(value, order="K", copy=True) if type(value) is np.ndarray else value


def _copied(value: Any) -> Any:
    return value.copy() if hasattr(value, "copy") else value


# -- inputs


def _pictures(signature: str) -> Iterator[Any]:
    import numpy as np

    shape = _shape(signature)[1] or (5, 7, 3)
    rng = np.random.default_rng(1)
    smaller = tuple(min(n, 9) for n in shape[:2]) + shape[2:]
    for size in (shape, smaller, shape):
        yield rng.integers(0, 256, size, dtype=np.uint8)


def _arrays(signature: str) -> Iterator[Any]:
    import numpy as np

    name, shape = _shape(signature)
    rng = np.random.default_rng(2)
    kind = np.dtype(name or "float64")
    for _ in range(3):
        if kind.kind in "iub":
            info = np.iinfo(kind) if kind.kind != "b" else None
            yield rng.integers(0, 2 if info is None else min(info.max, 255), shape or (4, 4)).astype(kind)
        else:
            yield rng.random(shape or (4, 4)).astype(kind)


def _shape(signature: str) -> tuple[str, tuple[int, ...]]:
    found = re.match(r"([a-z]+\d*)\[([\d,]*)\]", signature)
    return (found[1], tuple(int(n) for n in found[2].split(",") if n)) if found else ("", ())


def _files(signature: str) -> Iterator[Any]:
    """Files below the working directory of the kinds that programs read, then one that is made for this."""
    found = 0
    for number, path in enumerate(Path().rglob("*")):
        if number > FILES_LOOKED_AT or found > 60:
            break
        if path.suffix.lower() in SUFFIXES and path.is_file():
            found += 1
            yield str(path)
    yield from _made_files()


def _made_files() -> Iterator[str]:
    import numpy as np

    folder = Path(tempfile.mkdtemp(prefix="codedag-"))
    array = np.random.default_rng(3).integers(0, 256, (64, 80, 3), dtype=np.uint8)
    np.save(folder / "array.npy", array)
    yield str(folder / "array.npy")
    try:
        from PIL import Image
    except ImportError:
        return
    Image.fromarray(array).save(folder / "picture.jpg")
    yield str(folder / "picture.jpg")


if __name__ == "__main__":
    _main()
