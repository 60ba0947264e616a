"""The command line, one file per command."""

from time import perf_counter

#: When we began: everything of ours is loaded after this.
BEGUN = perf_counter()
