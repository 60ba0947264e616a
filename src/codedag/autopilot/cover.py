"""Code that may run ahead of its turn: every site of it asks first.

The item whose turn it is may do anything that is known and can be taken back.  An item ahead of its turn may do only
what nobody can notice: pure operations, reading files, writing into what it alone holds.  A draw from a generator waits
for the turn.  Everything else gives the item up before it happens.
"""

from __future__ import annotations

import dataclasses
import functools
import sys
import types
from collections.abc import Callable, Collection, Iterable
from pathlib import Path
from typing import Any

from codedag.autopilot.pipelines import Pipelines, keeps_parameters, shows_parameters
from codedag.backends.known import USER, Effect, Known, known_call, known_operator
from codedag.backends.known_table import bases, is_class
from codedag.instrument.ahead import Ahead, used_unasked
from codedag.instrument.codes import codes_by_place, place_of
from codedag.instrument.program import InstrumentedFile, Program, owner_of
from codedag.instrument.sites import CALL, INPLACE, ITERATE, RECORD, RETURN, SETITEM
from codedag.ir.verdict import No
from codedag.migrate import _order
from codedag.migrate._order import ALWAYS, INSTEAD, ONCE, THEN, Check
from codedag.migrate.holders import COUNTS_HOLDERS
from codedag.migrate.remember import Recall
from codedag.migrate.standin import Method, StandIn
from codedag.migrate.stands import behind

Function = tuple[str, str]  # file and qualified name
_NAMED = 2  # references to what one local name alone holds: the name, and the operator
_BASE = 3  # references to the memory of a view that nobody else has: the view, a name here, and a call
_INSIDE = 4  # items of a tuple or list whose types a check compares
_CONTAINERS = (list, tuple, dict, set, frozenset)
_OURS = str(Path(__file__).resolve().parent)
_COMPILED = (types.WrapperDescriptorType, types.MethodDescriptorType, types.BuiltinFunctionType)
_SIMPLE = frozenset({int, float, bool, str, bytes, type(None), range, slice, complex})


class Cover:
    """The functions whose sites ask, and how they are answered."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.ready: set[Function] = set()
        self._unfit: dict[Function, str] = {}  # functions that cannot run ahead, and why
        self._listed: set[Function] = set()  # with loops that run ahead
        self.wanted: set[Function] = set()
        self._pipelines = Pipelines()
        self._ahead: dict[str, dict[str, Ahead]] = {}
        self._files = 0
        self._asking: dict[int, tuple[types.CodeType, bool]] = {}  # codes, and whether all of their sites ask
        _order.methods_of(Method)

    # -- preparing functions

    def prepare(self, functions: Collection[Function]) -> str:
        """Makes these functions, and all that may run without a call, ask at their sites; "" or why that cannot be.

        So with those that are wanted; if one of these cannot, that is said where it is called.
        """
        why = self._implicit()
        for path, owner in () if why else sorted({*functions, *self.wanted}):
            cannot = self._cannot(path, owner)
            if cannot:
                self._unfit[path, owner] = cannot
                why = why or (cannot if (path, owner) in functions else "")
            elif (path, owner) not in self.ready:
                self._install(path, owner, self.answer)
        self.wanted.clear()
        return why

    def _cannot(self, path: str, owner: str) -> str:
        ahead = self._of(path).get(owner)
        if ahead is None:
            return f"{owner} was not rewritten"
        return f"{owner}: {ahead.cannot}" if ahead.cannot else ""

    def _of(self, path: str) -> dict[str, Ahead]:
        if path not in self._ahead:
            self._ahead[path] = self.program.files[path].aheads()
        return self._ahead[path]

    def _implicit(self) -> str:
        """Prepares what may run without a call, in every file loaded so far."""
        if len(self.program.files) == self._files:
            return ""
        files = list(self.program.files.items())
        unasked = set[str]().union(*(used_unasked(file.source, path) for path, file in files))
        for path, _ in files:
            for owner, ahead in self._of(path).items():
                implicit = ahead.implicit or owner.rpartition(".")[2] in unasked
                if not implicit or (path, owner) in self.ready:
                    continue
                if ahead.cannot and ahead.gate < 0 and self.program.files[path].sites_of(owner):
                    return f"{owner}: {ahead.cannot}"
                if not ahead.cannot and ahead.gate >= 0 and not ahead.twice and self._is_observed(path, owner):
                    self._close(path, owner, ahead.gate)
                else:
                    self._install(path, owner, self.answer if not ahead.cannot else self._refuse)
        self._files = len(self.program.files)
        return ""

    def _is_observed(self, path: str, owner: str) -> bool:
        return any(site.mode == RECORD for site in self.program.files[path].sites_of(owner))

    def _close(self, path: str, owner: str, gate: int) -> None:
        """Makes only the first site of a function ask: nothing of it runs ahead, and it is observed all the same."""
        site = self.program.files[path].sites[gate]
        self.program.plan(path, owner, {gate: Check(site.kind, site, site.function, site.variant, self._wait)})

    def _install(self, path: str, owner: str, answer: Callable[..., int]) -> None:
        file = self.program.files[path]
        self.program.settle(path, owner)
        inner = {s: s.variant.inner if type(s.variant) is Check else s.variant for s in file.sites_of(owner)}
        checks = {s.info.index: Check(s.kind, s, s.function, of, answer) for s, of in inner.items()}
        if checks:
            self.program.plan(path, owner, checks)
            self.program.install(path, [owner])
        self.ready.add((path, owner))

    def leave(self) -> None:
        """Gives the functions that ask their code back, with what else stands at their sites; loops keep theirs.

        Nothing may run ahead now, nor begin to before what it needs is prepared again.
        """
        bare: dict[str, dict[str, list[int]]] = {}
        for path, owner in self.ready - self._listed:
            sites = self.program.files[path].sites_of(owner)
            asking = [s.info.index for s in sites if type(s.variant) is Check and s.variant.inner is None]
            bare.setdefault(path, {})[owner] = asking
        self.ready &= self._listed
        self._files = 0
        for path, functions in bare.items():
            self.program.drop(path, functions)
        self._forget()

    def _forget(self) -> None:
        """Has what stays ask again about everything: what it was told is of functions that asked themselves."""
        self._asking.clear()
        for file in list(self.program.files.values()):
            for site in file.sites:
                if type(site.variant) is Check:
                    site.variant.forget()

    def list_sites(
        self, file: InstrumentedFile, owner: str, indexes: Iterable[int], others: dict[int, Any] | None = None,
        *, install: bool = True,
    ) -> None:  # fmt: skip
        """Makes these sites of a loop ask, and write down what they give; others get the variants that they have.

        Without `install` the function has the code with all sites, and gets its own right after.
        """
        self._listed.add((file.path, owner))
        checks = dict(others or {})
        for site in (file.sites[index] for index in indexes):
            known = type(site.variant) is Check
            check = site.variant if known else Check(site.kind, site, site.function, site.variant, self.answer)
            check.listed = 1
            checks[site.info.index] = check
        self.program.plan(file.path, owner, checks)
        if install:
            self.program.install(file.path, [owner])

    def covers(self, path: str, owner: str) -> bool:
        """Whether the sites of a function ask, so that its code has to stay."""
        return (path, owner) in self.ready or (path, owner) in self._listed

    # -- answering (in the thread that works on the item)

    def _refuse(self, check: Check, item: Any, *_: Any) -> int:
        info = check.site.info
        item.give_up(f"{info.owner} runs, which cannot run ahead ({self._of(info.file)[info.owner].cannot})")
        return ONCE

    def _wait(self, check: Check, item: Any, *_: Any) -> int:
        """Gives an item up that comes to a function which is not prepared yet, and has it prepared."""
        info = check.site.info
        self.wanted.add((info.file, info.owner))
        item.give_up(f"{info.owner} is not prepared yet", wants=True)
        return ONCE

    def answer(self, check: Check, item: Any, args: tuple[Any, ...], names: Any, holders: int) -> int:
        """Lets an operation through, waits for the item's turn first, or gives the item up."""
        if _is_about_garbage(sys._getframe(1)):
            return ONCE
        item.look()
        if check.kind == RETURN:
            return ALWAYS
        if any(_is_recalled(value, args[0] if check.kind == CALL else check.site.function) for value in args):
            return ONCE
        if check.kind == CALL:
            return self._call(check, item, args, names or (), holders)
        operands = tuple(_real(value) for value in args)
        if check.kind == SETITEM:
            operands = (operands[1], operands[2], operands[0])
        name = "iter" if check.kind == ITERATE else check.site.function.__name__
        if all(type(value) in _SIMPLE for value in operands):
            return ALWAYS
        return self._known(check, item, known_operator(name, operands), operands, holders, name)

    def _call(self, check: Check, item: Any, args: tuple[Any, ...], names: tuple[str, ...], holders: int) -> int:
        function = _function(args[0])
        rest = tuple(_real(value) for value in args[1:])
        most = len(rest) - len(names)
        known = known_call(function, rest[:most], dict(zip(names, rest[most:], strict=True)))
        if known is USER:
            return self._user(item, function)
        draws = isinstance(known, Known) and known.effect is Effect.DRAWS
        if draws and keeps_parameters(function) and shows_parameters(self.program):
            item.give_up("the program may look at the parameters that a transform keeps of its last call", check)
        if draws and check.inner is None and self._pipelines.takes(function, names, args[1:]):
            check.instead = self._pipelines.run
            return INSTEAD
        return self._known(check, item, known, (function, *rest), holders, _shown(function))

    def _known(self, check: Check, item: Any, known: Any, values: tuple[Any, ...], holders: int, name: str) -> int:
        if known is USER:
            return self._user_operator(item, name, values)
        if not isinstance(known, Known):
            item.give_up(known.reason if isinstance(known, No) else name, check)
        if known.effect is Effect.CLOCK and item.is_in_loop:
            item.give_up(f"{name} tells something else at another time", check)
        if known.effect is Effect.CLOCK:  # asked about each time: only some items run before their batch is asked for
            item.wait_until_asked_for()
            return ONCE
        if known.one_at_a_time:
            item.give_up(f"{name} changes settings of the whole process while it runs", check)
        if known.effect is Effect.DRAWS:
            generator = known.generator(values[0]) if known.generator is not None else None
            # what only its own draws write is written in their order: a pipeline of transforms that keeps parameters
            if known.writes and generator is not values[0] and not self._is_own(check, known, values, holders):
                item.give_up(f"{name} writes into something that others may hold", check)
            item.draw(generator, name, check)
            if type(values[0]) in (types.MethodType, types.BuiltinMethodType) and not known.writes:
                check.again = (values[0], generator, name)
            return THEN
        if known.effect is Effect.WRITES or known.writes:
            if not self._is_own(check, known, values, holders - item.noted(check, _target(check, values))):
                item.give_up(f"{name} writes into something that others may hold", check)
            return ONCE
        if known.effect is Effect.READS:
            item.read(check, known, values)
            return ONCE
        if known.by_threads and _is_capped(values[0]):
            item.give_up(f"{name} may depend on the number of threads of cv2, which has one meanwhile", check)
        return ALWAYS if known.effect is not Effect.CLOCK and all(map(_is_shallow, values)) else ONCE

    def _is_own(self, check: Check, known: Known, values: tuple[Any, ...], holders: int) -> bool:
        """Whether what is written is held by one local name alone, down to its memory."""
        if not COUNTS_HOLDERS:
            return False
        info = check.site.info
        ahead = self._of(info.file).get(info.owner)  # none for the code of a module itself
        own = ahead.own.get(info.index, 0) if ahead is not None else 0
        more = ahead.parts.get(info.index, 0) if ahead is not None else 0
        if check.kind == SETITEM and more and _is_view(values[2], values[0]):
            own += more  # the part that was changed, which goes once it is written
        if holders > (max(own, _NAMED) if check.listed and check.kind == INPLACE else own):
            return False
        if check.kind == CALL and known.writes != ("self",):
            return False
        return _holds_its_memory(_target(check, values), more)

    # -- code of the program

    def _user(self, item: Any, function: Any) -> int:
        if is_class(function) and any("__del__" in vars(kind) for kind in bases(function)):
            item.give_up(f"a {function.__qualname__} does something when it goes")
        codes = _codes(function)
        if codes is None:
            item.give_up(f"what a {type(function).__qualname__} calls is not known")
        for code in codes or ():
            found = (code.co_filename, owner_of(code.co_qualname))
            if found not in self.ready or not self._asks(code):
                if found in self._unfit:
                    item.give_up(self._unfit[found])
                if found in self.ready:
                    item.give_up(f"{found[1]} has other code than its source")
                if found[0] in self.program.files:
                    self.wanted.add(found)
                    item.give_up(f"{found[1]} is not prepared yet", wants=True)
                item.give_up(f"{found[1]} is not code of the program")
        return ALWAYS

    def _asks(self, code: types.CodeType) -> bool:
        """Whether every operation of this very code asks; there may be others of the same function."""
        known = self._asking.get(id(code))
        if known is None or known[0] is not code:
            file = self.program.files[code.co_filename]
            known = self._asking[id(code)] = (code, asks(code, file.full))
        return known[1]

    def _user_operator(self, item: Any, name: str, values: tuple[Any, ...]) -> int:
        """Operators of the program's own classes: their methods are prepared like everything that runs unasked."""
        plain = name.strip("_")
        methods = {f"__{plain}__", f"__r{plain}__", f"__{plain[1:]}__", f"__r{plain[1:]}__"}
        for kind in {c for value in values for c in type(value).__mro__}:
            for function in (vars(kind).get(method) for method in methods):
                if isinstance(function, types.FunctionType):
                    self._user(item, function)
        return ALWAYS


def asks(code: types.CodeType, full: types.CodeType) -> bool:
    """Whether checks stand at all the sites that some code has where everything is observed."""
    whole = codes_by_place(full).get(place_of(code))
    if whole is None:
        return False
    held = {id(site) for site in _sites(code)}
    return all(id(site) in held and type(site.variant) is Check for site in _sites(whole))


def _sites(code: types.CodeType) -> list[Any]:
    """The sites in some code; what a spread call stands for is its site."""
    found = (getattr(each, "site", each) for each in code.co_consts if not isinstance(each, types.CodeType))
    return [each for each in found if hasattr(each, "variant")]


def _is_about_garbage(frame: Any) -> bool:
    """Whether this is done because an object of the program goes: that is no part of the item, and happens once."""
    while frame is not None and not frame.f_code.co_filename.startswith(_OURS):
        if frame.f_code.co_name == "__del__":
            return True
        frame = frame.f_back
    return False


def _target(check: Check, values: tuple[Any, ...]) -> Any:
    return getattr(values[0], "__self__", None) if check.kind == CALL else values[0]


def _is_capped(function: Any) -> bool:
    """Whether its library has fewer threads in a batch; all others have the settings of the program in any thread."""
    cv2 = sys.modules.get("cv2")
    return cv2 is not None and behind(getattr(cv2, getattr(function, "__name__", ""), None)) is function


def _is_shallow(value: Any) -> bool:
    """Whether the types of the value, and of what is in it, say all: a check compares no more than these."""
    if type(value) in (tuple, list):
        return len(value) <= _INSIDE and not any(type(item) in _CONTAINERS for item in value)
    return type(value) not in _CONTAINERS


def _codes(function: Any) -> list[types.CodeType] | None:
    """The code that runs when something of the program's own is called; None if that cannot be told."""
    if type(function) is functools.partial:
        return _codes(function.func)
    if isinstance(function, types.MethodType):
        function = function.__func__
    if isinstance(function, types.FunctionType):
        return [function.__code__]
    if isinstance(function, type):
        return _making(function)
    call = next((vars(c)["__call__"] for c in type(function).__mro__ if "__call__" in vars(c)), None)
    return [call.__code__] if isinstance(call, types.FunctionType) else None


def _making(kind: type) -> list[types.CodeType] | None:
    """The code that runs when something of a class is made."""
    made = [vars(c).get(name) for name in ("__new__", "__init__", "__post_init__") for c in kind.__mro__]
    made += [vars(c).get("__call__") for c in bases(type(kind))]
    own = [f.__func__ if isinstance(f, staticmethod) else f for f in made if f is not None]
    if not all(isinstance(f, (types.FunctionType, *_COMPILED)) for f in own):
        return None
    generated = dataclasses.is_dataclass(kind)
    codes = [f.__code__ for f in own if isinstance(f, types.FunctionType)]
    return [code for code in codes if not (generated and code.co_filename == "<string>")]


def _holds_its_memory(target: Any, more: int = 0) -> bool:
    """Whether writing into something that nobody else holds is seen by nobody else; `more` hold the whole of a part."""
    numpy, torch = sys.modules.get("numpy"), sys.modules.get("torch")
    if torch is not None and isinstance(target, torch.Tensor):
        return type(target) is torch.Tensor and _has_own_storage(torch, target)
    if numpy is None or not isinstance(target, numpy.ndarray):
        return True
    if type(target) is not numpy.ndarray:  # a file that is mapped into memory is everybody's
        return False
    base = target.base
    return base is None or (
        type(base) is type(target) and base.base is None and _order.references(base) <= _BASE + more
    )


def _is_view(part: Any, whole: Any) -> bool:
    numpy = sys.modules.get("numpy")
    return numpy is not None and type(part) is numpy.ndarray and part.base is whole


def _has_own_storage(torch: Any, tensor: Any) -> bool:
    """Whether no other tensor or array shares the memory of a tensor that nobody else holds."""
    count = getattr(torch._C, "_storage_Use_Count", None)
    if count is None or tensor._base is not None or tensor.device.type != "cpu" or tensor.requires_grad:
        return False
    alone = torch.empty(1)
    storage, other = tensor.untyped_storage(), alone.untyped_storage()
    # memory that torch did not allocate itself (an array's) cannot be resized
    return bool(storage.resizable() and count(storage._cdata) <= count(other._cdata))


def _is_recalled(value: Any, function: Any) -> bool:
    """Whether a value stands for something kept, on its way to the call that it always went to."""
    standin = value.standin if type(value) is Method else value
    return type(standin) is StandIn and type(standin.deferred) is Recall and standin.deferred.goes_to(function)


def _real(value: Any) -> Any:
    """The value, or for one that is not there yet a value like it."""
    if type(value) is not StandIn:
        return value
    return value.deferred.settle() if type(value.deferred) is Recall else value.deferred.sample


def _function(value: Any) -> Any:
    """What is called; a patch of ours does what the function behind it does."""
    return getattr(_real(value.standin), value.name) if type(value) is Method else behind(value)


def _shown(function: Any) -> str:
    return str(getattr(function, "__qualname__", type(function).__name__))
