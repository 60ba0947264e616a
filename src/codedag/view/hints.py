"""Hints: what somebody could do by hand about what is slow; a hint that this run has not measured says so."""

from __future__ import annotations

import msgspec

from codedag.ir import Heat, HotFunction
from codedag.view.heat import whole
from codedag.view.loader import is_collating

NOT_MEASURED = "not measured here"
OUTER_SHARE = 0.3  # of CPU time below a function of the same package, from which it is what to look at
OWN_SHARE = 0.2  # of CPU time in a function of the user's itself, from which its lines are worth a look
LOADER_SHARE = 0.4  # of CPU time in the main process's own fetching, from which workers are worth a try


class Hint(msgspec.Struct, frozen=True):
    """One thing to do: in a few words, as a sentence, and the figure of this run that it rests on."""

    words: str
    sentence: str
    evidence: str = ""


#: Functions of packages by the end of their name, and what one can do instead of calling them so often.
_BY_NAME = (
    (("DataFrame.iterrows",), "use itertuples or columns",
     "`iterrows` makes a Series of each row; `itertuples`, or an expression over whole columns, does not."),
    (("DataFrame.apply", "Series.apply", "FrameApply.apply"), "compute whole columns",
     "`apply` calls Python for each row; the same as an expression over whole columns runs in C."),
    (("read_csv", "TextFileReader.read"), "keep it as Parquet",
     "Reading text in every run costs more than reading a binary file such as Parquet or Feather."),
    (("json.loads", "JSONDecoder.decode", "JSONDecoder.raw_decode"), "decode by msgspec or orjson",
     "Compiled decoders read JSON several times as fast as the standard module."),
    (("Popen.wait", "Popen.communicate"), "look into the child process", "The program waits for another program."),
    (("ForkingPickler.dumps", "Pickler.dump"), "send less to the workers",
     "Objects are pickled for other processes; names of files or shared memory are smaller."),
)  # fmt: skip


def hint_for(heat: Heat, function: HotFunction) -> Hint | None:
    """What can be done about one hot function, if anything is known."""
    for ends, words, sentence in _BY_NAME:
        if function.name.endswith(ends):
            return Hint(words, sentence, NOT_MEASURED)
    for outer in heat.functions:  # what calls it, where that is most of the time
        if outer.package == function.package and outer.total_seconds >= OUTER_SHARE * (whole(heat) or 1.0):
            for ends, words, sentence in _BY_NAME:
                if outer.name.endswith(ends):
                    return Hint(words, sentence, NOT_MEASURED)
    if is_collating(heat, function):
        return Hint(
            "run with OMP_NUM_THREADS=1",
            "Collating only copies; that it takes so much usually means that torch's threads wait for each other on "
            "busy cores: OMP_NUM_THREADS=1, or num_workers, which collates beside the training.",
            NOT_MEASURED,
        )
    if function.package:
        return _loader(heat)
    return _own_line(heat, function) if function.self_seconds >= OWN_SHARE * (whole(heat) or 1.0) else None


def _own_line(heat: Heat, function: HotFunction) -> Hint | None:
    """The hottest line of a function of the user's, which is where to look."""
    if function.name == "<module>":
        return None
    others = [f.line for f in heat.functions if f.file == function.file and f.line > function.line]
    end = min(others, default=1 << 30)
    lines = [line for line in heat.lines if line.file == function.file and function.line <= line.line < end]
    if not lines:
        return None
    hottest = max(lines, key=lambda line: line.seconds)
    return Hint(
        f"look at line {hottest.line}", f"Most of it is in line {hottest.line}.", f"{hottest.share:.0%} of CPU time"
    )


def _loader(heat: Heat) -> Hint | None:
    """Workers for a DataLoader whose items are made in the main process."""
    share = max((f.total_seconds for f in heat.functions if "_SingleProcessDataLoaderIter" in f.name), default=0.0)
    share /= whole(heat) or 1.0
    if share < LOADER_SHARE:
        return None
    return Hint(
        "give the DataLoader workers",
        "The DataLoader makes its items in the main process; num_workers=2 or more makes them beside the training.",
        NOT_MEASURED,
    )
