"""The recorder: what sites ask and tell, handed to the gatherer; and what was gathered, as a graph with costs."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from codedag.ir import CostTable, Graph
from codedag.trace import gather
from codedag.trace.gathered import Gathered, context_of, shown_path
from codedag.trace.names import Names
from codedag.trace.templates import Template

if TYPE_CHECKING:
    from codedag.trace.spool import Spool

__all__ = ["Recorder", "Template", "shown_path"]


class Recorder:
    """Gathers operations and edges and makes a graph of them; `gatherer` is the one in C where it was built."""

    def __init__(
        self,
        user_files: set[str],
        on_operation: Callable[[Template], None] | None = None,
        gatherer: Callable[..., Any] | None = None,
    ) -> None:
        self._user_files = user_files
        self.spool: Spool | None = None
        self.gatherer: Any = (gatherer or gather.chosen)(user_files, Names(), on_operation)

    def keep_samples(self, spool: Spool) -> None:
        """Hands what goes into the first execution of each operation to the spool."""
        self.spool = spool
        self.gatherer.taker = spool.take

    # -- asked and told by the sites

    @property
    def _c_api(self) -> Any:
        """Functions that C sites call instead of the methods below, unless a subclass has its own methods."""
        own = all(getattr(type(self), name) is getattr(Recorder, name) for name in _TOLD)
        return self.gatherer.api if own else None

    def is_user(self, of: type) -> bool:
        """Whether a class was defined in the user's own files."""
        for name in ("__init__", "__call__", "forward"):
            code = getattr(getattr(of, name, None), "__code__", None)
            if code is not None and code.co_filename in self._user_files:
                return True
        return False

    def path(self, parent: int, site: Any) -> int:
        """The number of the chain of sites `parent` + `site`."""
        return self.gatherer.path(parent, site)  # type: ignore[no-any-return]

    def note(self, value: Any, before: Any) -> Any:
        """What user code returned to the library call that is running: its producers so far."""
        return self.gatherer.note(value, before)

    def peak(self, nbytes: int) -> None:
        """In a memory pass: the most bytes that were allocated while what is told next ran."""
        self.gatherer.peak(nbytes)

    def carries(self, number: float) -> bool:
        """Whether a number came out of an operation on data."""
        return self.gatherer.carries(number)  # type: ignore[no-any-return]

    def region(self, *told: Any) -> None:
        """A call of user code ended."""
        self.gatherer.region(*told)

    def operation(self, *told: Any) -> bool:
        """Whether a library call, operator or subscript moved data that ended with a result or, by the last of `told`,
        with an exception.
        """
        return self.gatherer.operation(*told)  # type: ignore[no-any-return]

    def freeze_around(self, file: str, owner: str) -> None:
        """Ends the counting of every operation that encloses this function, which is no longer recorded.

        Their own time could no longer be told from the time of what runs inside them.
        """
        paths = self.gatherer.paths()
        frozen: set[int] = set()
        for parent, site in paths:
            if site.info.owner == owner and site.info.file == file:
                while parent >= 0 and parent not in frozen:
                    frozen.add(parent)
                    self.gatherer.freeze(parent)
                    parent = paths[parent][0]

    # -- the graph

    @property
    def templates(self) -> list[Template]:
        """The operations as they were gathered so far; their number is their place in the list."""
        return self.gatherer.templates()  # type: ignore[no-any-return]

    def context(self, template: Template) -> str:
        """The chain of user functions plus the operation, without library frames."""
        return context_of([(parent, site.info) for parent, site in self.gatherer.paths()], template)

    def gathered(self) -> Gathered:
        """What this process recorded so far."""
        return Gathered.of(self.gatherer)

    def costs(self) -> CostTable:
        """What each operation cost as written."""
        return self.gathered().costs()

    def graph(self) -> Graph:
        """The graph so far."""
        return self.gathered().graph()


#: What a site asks and tells.
_TOLD = ("path", "note", "region", "operation")
