"""The checker: runs the operations of a checked twin (`checked_code.py`) that are known to have no effect.

It follows Python code, the user's and installed packages', down to functions of the effects table, and notes what was
read on the way.  Before a draw, an unknown call, or a write into anything that the item did not make, it raises
`Refused`: until then nothing has happened that anybody could notice.
"""

from __future__ import annotations

import builtins
import dis
import functools
import operator
import sys
from collections.abc import Callable
from types import CodeType, FunctionType, MethodType, ModuleType
from typing import Any, NoReturn

from codedag.backends.known import Effect, Known, knowledge, known_call, known_operator
from codedag.backends.known_operators import static
from codedag.instrument.places import OURS
from codedag.ir.verdict import No
from codedag.migrate.guard import Failed, attempt
from codedag.migrate.memo.builtin_calls import SPECIAL
from codedag.migrate.memo.checked_code import GIVEN, STABLE, VARYING, Twins
from codedag.migrate.memo.file_state import FileState, file_state
from codedag.migrate.memo.members import Members, Parent
from codedag.migrate.memo.pictures import opens
from codedag.migrate.memo.reads import ABSENT, ARRAY_NBYTES_MAX, ELEMENTS_MAX, Reads, is_array

DEPTH_MAX = 40
_BUILTINS, _IMPORT = vars(builtins), builtins.__import__
_BUILTIN_KINDS = frozenset({"builtin_function_or_method", "type"})
_NUMBERS = frozenset({int, float, bool, str, type(None)})
_FLAT = frozenset({int, float, bool, str, bytes, type(None), complex, type(Ellipsis), type, slice, range, FunctionType})
_SEQUENCES = frozenset({list, tuple})
_WALKS = frozenset({enumerate, zip, range, reversed})
_HOLDING, _ADDING = frozenset({list, tuple, dict}), frozenset({"append", "extend"})


class Refused(BaseException):
    """Ends a checked twin; its reason is in the checker.  No handler of the program's may take it for its own."""


class Checker:
    """Runs the twins of one thread at a time; what the item made, what it read, and why it was refused."""

    def __init__(self, plain: Callable[[CodeType], CodeType] = lambda code: code) -> None:
        self.reads, self._plain = Reads(plain), plain
        self.reason = ""
        self._index: Any = ABSENT
        self.is_general = False  # whether nothing but the index decides what the items of the dataset read and run
        self.files: list[tuple[Any, FileState]] = []
        self._own: dict[int, Any] = {}
        self.covered: dict[int, Any] = {}  # not made by the item; what it holds was noted
        self._depth = 0
        self._names: dict[int, tuple[CodeType, tuple[str, ...]]] = {}
        self.leaves: set[Any] = set()  # functions and classes of libraries that were used
        self.slice = slice
        self.member = Members(self).member
        self._twins = Twins(self)

    def run(self, make: Callable[[], Any], reads: Reads, index: Any = ABSENT) -> Any:
        """What `make` does, followed; Refused if it may have an effect.  `index`: of an item of a dataset."""
        self.reads, self._index, self.is_general = reads, index, index is not ABSENT
        reads.begin()
        self.reason, self.files, self._own, self.covered, self._depth = "", [], {}, {}, 0
        found = make()
        if self.reason:
            raise Refused
        return found

    def end(self) -> None:
        """Lets go of what the item made and read."""
        self.reads, self.files, self._own, self.covered = Reads(self._plain), [], {}, {}

    def is_own(self, value: Any) -> bool:
        """Whether the item made this value, so that nobody else holds it."""
        return id(value) in self._own

    def refuse(self, why: str) -> NoReturn:
        """Ends the item, with the line that the reason comes from."""
        if not self.reason:
            frame: Any = sys._getframe(1)
            while frame is not None and frame.f_code.co_filename.startswith(OURS):
                frame = frame.f_back
            where = f" at {frame.f_code.co_filename}:{frame.f_lineno}" if frame is not None and self._depth else ""
            self.reason = why + where
        raise Refused

    # -- calls

    def call(self, function: Any, /, *args: Any, **keywords: Any) -> Any:
        """A call: a known function runs, a Python function is followed."""
        if self.reason:
            raise Refused
        special = SPECIAL.get(id(function)) if type(function).__name__ in _BUILTIN_KINDS else None
        if special is not None and not keywords and (found := special(self, *args)) is not ABSENT:
            return found
        if type(function) is functools.partial:
            self.reads.inside(function.keywords)
            self.reads.again(_fixed, (function,), _fixed(function))
            return self.call(function.func, *function.args, *args, **{**function.keywords, **keywords})
        known = known_call(function, args, keywords)
        if type(known) is Known:
            return self._leaf(known, function, args, keywords)
        if opens(function, args, keywords) and self.is_own(args[0]):
            return self._leaf(Known(Effect.PURE), function, args, keywords)
        return self._followed(function, args, keywords, known)

    def method(self, holder: Any, name: str, /, *args: Any, **keywords: Any) -> Any:
        """A call of an attribute."""
        if type(holder) in _HOLDING and name not in _ADDING:
            self.is_general = False
        if name == "get" and type(holder) is dict and not self.is_own(holder) and 0 < len(args) < 3 and not keywords:
            return self.item(holder, args[0]) if self.contains(args[0], holder) else (*args[1:], None)[0]
        return self.call(self.member(holder, name), *args, **keywords)

    def _leaf(self, known: Known, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if known.effect is Effect.DRAWS:
            self.refuse(f"it draws random numbers: {_named(function)}")
        if known.effect is Effect.CLOCK or not known.deterministic:
            self.refuse(f"{_named(function)} does not give the same each time")
        owner = getattr(function, "__self__", None)
        owner = None if isinstance(owner, ModuleType | type) else owner
        for place in known.writes:
            target = owner if place == "self" else args[place] if isinstance(place, int) else keywords[place]
            if not self.is_own(target):
                self.refuse(f"{_named(function)} writes into what the item did not make")
        involved = [value for value in (owner, *args, *keywords.values()) if type(value) not in _FLAT]
        for value in involved:
            self._depend(value)
        if known.effect is Effect.READS:
            self._read_files(known.paths(function, args, keywords))
        self.leaves.add(function if owner is None else type(owner))
        result = self.ran(function, args, keywords)
        if type(result) is str and any(map(_has_digits, involved)):
            self.refuse("what it writes of an array depends on print options")
        self.is_general = self.is_general and _gives_one_kind(function, owner) and self._is_data(result)
        if known.fresh or all(map(self._is_made, involved)):
            self.make(result)
        else:
            self.cover(result)
        return result

    def ran(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        """What a function gives that has no effect; an exception refuses the item."""
        found = attempt(function, *args, **keywords)
        return self.refuse(f"{_named(function)}: {found.reason}") if type(found) is Failed else found

    def _read_files(self, paths: list[Any]) -> None:
        if not paths:
            self.refuse("it reads a file that no argument names")
        for path in paths:
            try:
                state = file_state(path)
            except (OSError, TypeError, ValueError):
                self.refuse("it reads a file that is not there")
            if state is None:
                self.refuse("it reads a file that can change without being noticed")
            self.files.append((path, state))

    def _followed(self, function: Any, args: tuple[Any, ...], keywords: dict[str, Any], why: Any) -> Any:
        kind = type(function)
        if kind is MethodType:
            return self.call(function.__func__, function.__self__, *args, **keywords)
        if kind is FunctionType:
            return self._follow(function, args, keywords)
        if isinstance(function, type):
            self.refuse(f"it makes an object of class {function.__qualname__}")
        called = self.reads.attribute(function, "__call__")
        if called is not None and _is_module_call(called):
            called = self._forward_of(function)
        if type(called) is FunctionType:
            return self.call(called, function, *args, **keywords)
        return self.refuse(why.reason if isinstance(why, No) else f"{_named(function)} is not known")

    def _follow(self, function: FunctionType, args: tuple[Any, ...], keywords: dict[str, Any]) -> Any:
        if self._depth >= DEPTH_MAX:
            self.refuse("it calls itself too deeply")
        self.reads.function(function)
        plain = self._plain(function.__code__)
        for name in self._global_names(plain):
            if self.reads.name(function.__globals__, name) is ABSENT:
                self.reads.name(_BUILTINS, name)
        if plain is not function.__code__:
            original = function
            function = FunctionType(
                plain, original.__globals__, original.__name__, original.__defaults__, original.__closure__
            )
            function.__kwdefaults__ = original.__kwdefaults__
        twin = self._twins.of(function, is_method=len(args) > 0 and not self._is_data(args[0]))
        if isinstance(twin, No):
            self.refuse(twin.reason)
        self._depth += 1
        found = attempt(twin, *args, **keywords)
        if self.reason:
            raise Refused
        if type(found) is Failed:
            self.refuse(found.reason)
        self._depth -= 1
        return found

    def _global_names(self, code: CodeType) -> tuple[str, ...]:
        found = self._names.get(id(code))
        if found is None:
            own = {i.argval for i in dis.get_instructions(code) if i.opname in ("LOAD_GLOBAL", "LOAD_NAME")}
            inner = [self._global_names(each) for each in code.co_consts if isinstance(each, CodeType)]
            found = self._names[id(code)] = (code, tuple(sorted(own.union(*inner))))
        return found[1]

    def _forward_of(self, module: Any) -> Any:
        """`forward` of a module of torch.nn that has no hooks: all that calling it does then."""
        hooks = [value for name, value in vars(module).items() if name.endswith("_hooks")]
        common = sys.modules["torch.nn.modules.module"].__dict__
        hooks += [value for name, value in common.items() if name.startswith("_global_") and name.endswith("_hooks")]
        if any(hooks) or "forward" in vars(module):
            self.refuse(f"{type(module).__qualname__} has hooks")
        for each in hooks:
            self.reads.inside(each)
        return self.reads.attribute(module, "forward")

    def imported(self, module: str, name: str = "") -> Any:
        """What an `import` statement binds: a module that is loaded already, or a name in it."""
        if self.reads.name(_BUILTINS, "__import__") is not _IMPORT:
            self.refuse("imports run code of the program's own")
        found = self.reads.name(sys.modules, module)
        if not isinstance(found, ModuleType) or getattr(getattr(found, "__spec__", None), "_initializing", False):
            self.refuse(f"it imports {module}, which is not loaded")
        return self.member(found, name) if name else found

    # -- what is the item's own

    def _is_made(self, value: Any) -> bool:
        if type(value) is tuple:
            return all(map(self._is_made, value))
        return type(value) in _FLAT or id(value) in self._own or knowledge().is_atom(value)

    def _is_data(self, value: Any) -> bool:
        """Whether a value may be another one for other items; what code holds is read from the same places by all."""
        if type(value) in (tuple, list):
            return all(map(self._is_data, value))
        if type(value) in _NUMBERS or type(value) is bytes or id(value) in self._own or id(value) in self.covered:
            return True
        table = knowledge()
        is_known = type(value) in _WALKS or table.family_of(type(value)) is not None or table.is_atom(value)
        return is_known or is_array(value) or _is_immutable(value)

    def make(self, value: Any) -> None:
        """Notes a value that the item made."""
        if type(value) in _FLAT:
            return
        self._own[id(value)] = value
        if type(value) in _SEQUENCES:
            for each in value:
                self.make(each)

    def cover(self, value: Any) -> None:
        """Notes a value of somebody else's that depends only on what was noted already."""
        if type(value) not in _FLAT and id(value) not in self._own:
            self.covered[id(value)] = value
            if type(value) in _SEQUENCES:
                for each in value:
                    self.cover(each)

    def _depend(self, value: Any, depth: int = 4) -> None:
        """Notes what a value holds that the item did not make and a function is about to look into."""
        kind = type(value)
        if kind in _FLAT or id(value) in self._own or id(value) in self.covered:
            return
        if kind is tuple and depth:
            for each in value:
                self._depend(each, depth - 1)
        elif kind in (list, dict) and depth:
            if len(value) > ELEMENTS_MAX:
                self.refuse(f"it looks through a {kind.__name__} of {len(value)} elements")
            self.reads.inside(value)
            for each in value.values() if kind is dict else value:
                self._depend(each, depth - 1)
            self.covered[id(value)] = value
        elif is_array(value):
            if value.nbytes > ARRAY_NBYTES_MAX:
                self.refuse(f"it reads an array of {value.nbytes} bytes as a whole")
            self.reads.again(_itself, (value,), value)
            self.covered[id(value)] = value
        elif not knowledge().is_atom(value) and not _is_immutable(value):
            self.refuse(f"it looks into a {kind.__qualname__} that it did not make")

    # -- subscripts, operators, loops, tests

    def varying(self, value: Any) -> Any:
        """A value that decides how the item goes on and may be another one for other items."""
        self.is_general = False
        return value

    def item(self, holder: Any, key: Any, kind_of_key: int = VARYING) -> Any:
        """A subscript."""
        if self.reason:
            raise Refused
        kind = type(holder)
        if kind is str or kind is bytes or kind is range:
            return self.ran(operator.getitem, (holder, key), {})
        known = known_operator("getitem", (holder, key))
        if type(known) is not Known:
            found = self.reads.attribute(holder, "__getitem__")
            if type(found) is FunctionType and kind not in knowledge().held:
                return self.call(found, holder, key)
            self.refuse(known.reason if isinstance(known, No) else f"{kind.__qualname__} has no known subscript")
        self._depend(key)
        value = self.ran(operator.getitem, (holder, key), {})
        if kind in _HOLDING and (self.is_own(holder) or id(holder) in self.covered or kind is tuple):
            self.is_general = self.is_general and kind_of_key == STABLE
        if self.is_own(holder):
            if kind not in (list, tuple, dict):
                self.make(value)
        elif kind is tuple or id(holder) in self.covered:
            if kind not in (list, tuple, dict):
                self.cover(value)
        elif is_array(value) and value.nbytes > ARRAY_NBYTES_MAX:
            self.refuse(f"it reads {value.nbytes} bytes of an array")
        else:
            if kind_of_key == GIVEN and self._depth == 1 and key is self._index:
                self.reads.indexed(holder, key, value)
            else:
                self.is_general = self.is_general and kind_of_key == STABLE
                self.reads.again(operator.getitem, (holder, key), value)
            if is_array(value):
                self.cover(value)
        return value

    def set_item(self, value: Any, holder: Any, key: Any) -> None:
        """An assignment to a subscript of what the item made."""
        known = known_operator("setitem", (holder, key, value))
        if type(known) is not Known or not self.is_own(holder):
            self.refuse("it assigns to a subscript of what it did not make")
        for each in (value, key):
            self._depend(each)
        self.ran(operator.setitem, (holder, key, value), {})

    def aug_item(self, holder: Any, key: Any, name: str, value: Any) -> None:
        """An augmented assignment to a subscript of what the item made."""
        self.set_item(self.operate(name, self.item(holder, key), value), holder, key)

    def operate(self, name: str, *operands: Any) -> Any:
        """An operator."""
        if self.reason:
            raise Refused
        function = getattr(operator, name, None) or getattr(operator, f"{name}_")
        if _NUMBERS.issuperset(map(type, operands)):
            return self.ran(function, operands, {})
        known = known_operator(function.__name__, operands)
        if type(known) is not Known:
            self.refuse(known.reason if isinstance(known, No) else f"operator {name} runs code of its own")
        return self._leaf(known, function, operands, {})

    def contains(self, value: Any, holder: Any) -> Any:
        """Whether a container has a value."""
        self.is_general = False
        if type(holder) in (list, dict) and not self.is_own(holder) and type(value) in (int, str):
            if type(known_operator("contains", (holder, value))) is not Known:
                self.refuse("it looks through values that may run code of their own")
            found = value in holder
            self.reads.again(operator.contains, (holder, value), found)
            return found
        return self.operate("contains", holder, value)

    def iterated(self, value: Any, pairs: bool) -> Any:
        """What a loop goes over."""
        if self.reason:
            raise Refused
        kind = type(value)
        known = known_operator("iter", (value,))
        if type(known) is not Known or not known.deterministic or kind in (set, frozenset):
            self.refuse(known.reason if isinstance(known, No) else f"a loop over {kind.__qualname__}")
        if known.effect is Effect.WRITES and not (self.is_own(value) or id(value) in self.covered):
            self.refuse("it moves an iterator on")
        if kind in (list, dict) and not self.is_own(value):
            if len(value) > ELEMENTS_MAX:
                self.refuse(f"it loops over {len(value)} elements")
            self.reads.inside(value)
        elif kind is not tuple:
            self._depend(value)
        every = list(value)
        if is_array(value) and self.is_own(value):
            self.make(every)
        elif is_array(value):
            self.cover(every)
        return [self.unpacked(each) for each in every] if pairs else every

    def unpacked(self, value: Any) -> Any:
        """What is unpacked into names or arguments."""
        if type(value) is tuple:
            return value
        if isinstance(value, tuple) and knowledge().is_atom(value):  # the shape of a tensor
            return tuple(value)
        if type(value) is list or is_array(value):
            return tuple(self.iterated(value, False))
        return self.refuse(f"it unpacks a {type(value).__qualname__}")

    def mapping(self, value: Any) -> Any:
        """What is unpacked into named arguments."""
        if type(value) is not dict:
            self.refuse(f"it unpacks a {type(value).__qualname__}")
        if not self.is_own(value):
            self.reads.inside(value)
        return value

    def test(self, value: Any, as_is: bool = False) -> Any:
        """Whether a value counts as true; or the value itself, which will be asked."""
        kind = type(value)
        if kind not in _NUMBERS and kind is not FunctionType and kind is not MethodType:
            if kind in (list, dict) and not self.is_own(value):
                self.reads.again(len, (value,), len(value))
            elif kind not in _SEQUENCES:
                if not knowledge().plain(value, shallow=True):
                    if static(kind, "__bool__") is not None or static(kind, "__len__") is not None:
                        self.refuse(f"whether a {kind.__qualname__} is true is up to its class")
                else:
                    self._depend(value)
        return value if as_is else bool(value)

    def formatted(self, value: Any) -> Any:
        """What is written into a text."""
        if type(value) in _NUMBERS or (_is_immutable(value) and not _has_digits(value)):
            return value
        return self.refuse(f"it writes a {type(value).__qualname__} into a text")

    def parent(self, function: Any, kind: type, holder: Any) -> Parent:
        """What `super()` gives."""
        return Parent(kind, holder) if function is super else self.refuse("its super is not the builtin one")

    def context(self, value: Any) -> Any:
        """What a `with` statement enters: a file or picture that the item opened."""
        entered = getattr(value, "__enter__", None)
        known = known_call(entered, (), {}) if entered is not None else None
        picture = knowledge().family_of(type(value)) is not None
        if not self.is_own(value) or not (type(known) is Known or picture):
            self.refuse(f"it enters a {type(value).__qualname__}")
        return value

    def made(self, value: Any) -> Any:
        """A list or dictionary that the item made just now; what it holds may be somebody else's."""
        self._own[id(value)] = value
        return value


def _gives_one_kind(function: Any, owner: Any) -> bool:
    """Whether a function gives values of the same type for arguments of the same types."""
    module = getattr(function, "__module__", None) or type(owner).__module__
    return str(module).partition(".")[0] in ("builtins", "numpy", "torch", "torchvision", "PIL", "_operator")


def _itself(value: Any) -> Any:
    return value


def _fixed(function: Any) -> Any:
    """What a partial calls, and with what."""
    return function.func, function.args, function.keywords


def _has_digits(value: Any) -> bool:
    """Whether what is written of a value is up to settings of its library: how many digits, and where lines break."""
    numpy = sys.modules.get("numpy")
    return is_array(value) or (numpy is not None and isinstance(value, numpy.inexact))


def _is_immutable(value: Any) -> bool:
    numpy, path = sys.modules.get("numpy"), sys.modules.get("pathlib")
    if numpy is not None and isinstance(value, numpy.generic | numpy.dtype):
        return not isinstance(value, numpy.object_ | numpy.void)
    return path is not None and type(value) in (path.PosixPath, path.PurePosixPath)


def _is_module_call(called: Any) -> bool:
    """Whether this is what calls a module of torch.nn."""
    module = sys.modules.get("torch.nn.modules.module")
    return module is not None and called is vars(module.Module).get("__call__")


def _named(function: Any) -> str:
    name = getattr(function, "__qualname__", None) or type(function).__qualname__
    module = getattr(function, "__module__", None) or getattr(
        type(getattr(function, "__self__", None)), "__module__", ""
    )
    return f"{module}.{name}" if module and module != "builtins" else str(name)
