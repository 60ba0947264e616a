"""Inside a program that is compared: digests of its batches, losses and weights go to a file as they appear.

Only the process that was started is watched, and only libraries that the program loads itself: they are changed right
after their import.  Such a run is not timed, since hashing costs as much as loading.
"""

from __future__ import annotations

import atexit
import functools
import importlib.abc
import importlib.machinery
import os
import sys
import threading
import types
import weakref
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import IO, Any, TextIO

from codedag.experiment.digest import digest, take_in
from codedag.experiment.nearness import Keeping
from codedag.instrument.guard import Failed, attempt

# Optimisers whose weights are looked at when the program ends; they are kept alive until then.
MOST_OPTIMISERS = 16

# Flags of types: made at run time, and may not be changed.
_MADE_IN_PYTHON = 1 << 9 | 1 << 8


class Beside:
    """Keeps the numbers of values in a file of their own, for runs that may round differently."""

    def __init__(self, file: IO[bytes], allow: Sequence[str]) -> None:
        self._file, self._allow = file, tuple(allow)

    def __call__(self, value: Any) -> str:
        """Where they are; what cannot be read is like nothing else."""
        keeping = Keeping(self._file, self._allow)
        done = attempt(take_in, value, keeping)
        self._file.flush()
        return "unreadable" if isinstance(done, Failed) else keeping.aside().text()


class Watch:
    """Writes one line per thing seen: what it is, its digest, and its value where that is short."""

    def __init__(self, file: TextIO, names: Sequence[str] = (), beside: Beside | None = None) -> None:
        self._names, self._beside = tuple(names), beside
        self._file, self._process, self._lock = file, os.getpid(), threading.Lock()
        self._given: weakref.WeakSet[Any] = weakref.WeakSet()
        self._depth = threading.local()
        self._optimisers: dict[int, Any] = {}

    def saw(self, kind: str, value: Any, name: str = "") -> None:
        """Keeps the digest of a value; one that cannot be read is kept as that."""
        if os.getpid() != self._process:
            return
        found = attempt(digest, value)
        text = f"unreadable: {found.reason}" if isinstance(found, Failed) else found
        shown = name or (repr(value) if isinstance(value, int | float | str) else type(value).__name__)
        line = "\t".join(part.replace("\t", " ").replace("\n", " ")[:200] for part in (kind, text, shown))
        with self._lock:
            kept = "" if self._beside is None else f"\t{self._beside(value)}"
            self._file.write(f"{line}{kept}\n")

    def ended(self) -> None:
        """Keeps the weights that the optimisers have reached, and what was asked for by name; the program has ended."""
        if os.getpid() == self._process:
            for optimiser in self._optimisers.values():
                weights = attempt(_weights, optimiser)
                self.saw("weights", weights)
            for name in self._names:
                value = attempt(_named, name)
                self.saw("missing" if isinstance(value, Failed) else "named", value, name)
            self._file.flush()

    # -- what is changed in libraries, each right after its import

    def data_loader(self, module: Any) -> None:
        """Batches as DataLoaders hand them to the program, whichever class of iterator hands them out."""
        loader = module.DataLoader
        original = loader.__iter__

        @functools.wraps(original)
        def __iter__(this: Any) -> Any:  # noqa: N807 - it takes the place of one
            self._depth.value = getattr(self._depth, "value", 0) + 1
            try:
                iterator = original(this)
            finally:
                self._depth.value -= 1
            return iterator if self._depth.value else self._handed(iterator)

        loader.__iter__ = __iter__

    def _handed(self, iterator: Any) -> Any:
        """The iterator, whose batches are seen; one of a class that cannot be changed is wrapped."""
        owner = next(each for each in type(iterator).__mro__ if "__next__" in vars(each))
        if owner.__flags__ & _MADE_IN_PYTHON != 1 << 9:  # such as a generator
            return self._generator(iterator)
        try:
            self._given.add(iterator)
        except TypeError:  # it cannot be hashed, or held weakly
            return self._generator(iterator)
        if not hasattr(vars(owner)["__next__"], "codedag_watch"):
            owner.__next__ = self._next(vars(owner)["__next__"])  # type: ignore[attr-defined]
        return iterator

    def _next(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        @functools.wraps(original)
        def __next__(this: Any) -> Any:  # noqa: N807
            batch = original(this)
            if this in self._given:
                self.saw("batch", batch)
            return batch

        __next__.codedag_watch = True  # type: ignore[attr-defined]
        return __next__

    def _generator(self, iterator: Any) -> Any:
        for batch in iterator:
            self.saw("batch", batch)
            yield batch

    def tensor(self, module: Any) -> None:
        """Losses, which are what `backward` is called on, and values that the program reads with `item`."""
        backward, item = module.Tensor.backward, module.Tensor.item

        @functools.wraps(backward)
        def watched_backward(this: Any, *args: Any, **keywords: Any) -> Any:
            self.saw("loss", this)
            return backward(this, *args, **keywords)

        @functools.wraps(item)
        def watched_item(this: Any) -> Any:
            value = item(this)
            if not _is_torch(sys._getframe(1)):
                self.saw("value", value)
            return value

        module.Tensor.backward, module.Tensor.item = watched_backward, watched_item

    def optimiser(self, module: Any) -> None:
        """Optimisers that take steps: their weights are compared at the end."""
        module.register_optimizer_step_post_hook(self._stepped)

    def _stepped(self, optimiser: Any, *ignored: Any) -> None:
        if id(optimiser) not in self._optimisers:
            if len(self._optimisers) == MOST_OPTIMISERS:
                self._optimisers.pop(next(iter(self._optimisers)))
            self._optimisers[id(optimiser)] = optimiser

    # -- TensorFlow and Keras, in the same way

    def dataset(self, module: Any) -> None:
        """Batches as tf.data hands them to a loop, or to `get_next`."""
        owner = module.OwnedIterator
        for name in ("__next__", "get_next"):
            setattr(owner, name, self._handing(getattr(owner, name)))

    def _handing(self, original: Callable[[Any], Any]) -> Callable[[Any], Any]:
        """The method, whose result is seen if it is not on its way through another that is seen."""

        @functools.wraps(original)
        def handing(this: Any) -> Any:
            self._depth.value = getattr(self._depth, "value", 0) + 1
            try:
                batch = original(this)
            finally:
                self._depth.value -= 1
            # while a function is compiled there are no values yet
            if not self._depth.value and sys.modules["tensorflow"].executing_eagerly():
                self.saw("batch", batch)
            return batch

        return handing

    def tape(self, module: Any) -> None:
        """Losses, which are what a tape is asked for the gradient of; inside a compiled function they have no value."""
        original = module.GradientTape.gradient

        @functools.wraps(original)
        def gradient(this: Any, target: Any, *args: Any, **keywords: Any) -> Any:
            if hasattr(target, "numpy"):
                self.saw("loss", target)
            return original(this, target, *args, **keywords)

        module.GradientTape.gradient = gradient

    def callbacks(self, module: Any) -> None:
        """What `Model.fit` reports after each epoch: losses and accuracies."""
        original = module.CallbackList.on_epoch_end

        @functools.wraps(original)
        def on_epoch_end(this: Any, epoch: int, logs: Any = None) -> Any:
            self.saw("epoch", {str(name): float(value) for name, value in (logs or {}).items()})
            return original(this, epoch, logs)

        module.CallbackList.on_epoch_end = on_epoch_end

    def metrics(self, module: Any) -> None:
        """What the program gives to an ExperimentMonitor or a MetricsLogger."""
        for name in ("log_loss", "log_accuracy"):
            setattr(module.MetricsLogger, name, self._logging(name, getattr(module.MetricsLogger, name)))

    def _logging(self, name: str, original: Callable[..., None]) -> Callable[..., None]:
        @functools.wraps(original)
        def logged(this: Any, epoch: int, batch: int, value: Any) -> None:
            original(this, epoch, batch, value)
            self.saw(name, [epoch, batch, (this.losses if name == "log_loss" else this.accuracies)[-1][2]])

        return logged


def _is_torch(frame: types.FrameType | None) -> bool:
    """Whether torch itself called, for its own ends; frames of ours may stand between."""
    while frame is not None and str(frame.f_globals.get("__name__")).startswith("codedag."):
        frame = frame.f_back
    return frame is not None and str(frame.f_globals.get("__name__")).partition(".")[0] == "torch"


def _weights(optimiser: Any) -> list[Any]:
    return [each for group in optimiser.param_groups for each in group["params"]]


def _named(path: str) -> Any:
    """A global variable of the program, or an attribute of one (`model.coef_`)."""
    first, *rest = path.split(".")
    value = vars(sys.modules["__main__"])[first]
    for name in rest:
        value = getattr(value, name)
    return value


class _Finder(importlib.abc.MetaPathFinder):
    """Finds what the other finders find, and does something once certain modules have been loaded."""

    def __init__(self, then: dict[str, Callable[[Any], None]]) -> None:
        self._then = then

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: types.ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        """The spec of a module that is waited for, or None to let the other finders answer."""
        then = self._then.pop(name, None)
        if then is None:
            return None
        for finder in sys.meta_path:
            spec = None if finder is self else finder.find_spec(name, path, target)
            if spec is not None and spec.loader is not None:
                _do_after(spec.loader, then)
                return spec
        return None


def _do_after(loader: Any, then: Callable[[Any], None]) -> None:
    load = loader.exec_module

    def exec_module(module: types.ModuleType) -> None:
        load(module)
        then(module)

    loader.exec_module = exec_module


def watch(path: str, names: Sequence[str] = (), allow: Sequence[str] = ()) -> None:
    """Watches this process from now on; what is seen goes to this file, line by line.

    Global variables of these names are looked at when the program ends. Where other classes than exact are allowed,
    numbers go to a file beside it.
    """
    file = Path(path).open("w", buffering=1, errors="backslashreplace")  # noqa: SIM115 - open until the process ends
    beside = Beside(Path(f"{path}.numbers").open("wb"), allow) if allow else None  # noqa: SIM115
    watching = Watch(file, names, beside)
    atexit.register(watching.ended)
    then: dict[str, Callable[[Any], None]] = {
        "torch.utils.data.dataloader": watching.data_loader,
        "torch._tensor": watching.tensor,
        "torch.optim.optimizer": watching.optimiser,
        "tensorflow.python.data.ops.iterator_ops": watching.dataset,
        "tensorflow.python.eager.backprop": watching.tape,
        "keras.src.callbacks.callback_list": watching.callbacks,
        "codedag.experiment.metrics": watching.metrics,
    }
    for name in [name for name in then if name in sys.modules]:
        then.pop(name)(sys.modules[name])
    sys.meta_path.insert(0, _Finder(then))
