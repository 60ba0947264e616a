"""Hints: what somebody could do by hand about a hot place; a hint whose effect this run has not measured says so."""

from __future__ import annotations

from collections.abc import Collection

import msgspec

NOT_MEASURED = "not measured here"


class Hint(msgspec.Struct, frozen=True):
    """One thing to do: in a few words, as a sentence, and the figure of this run that it rests on."""

    words: str
    sentence: str
    evidence: str = NOT_MEASURED


#: What is called, by the end of its name (of the call on the user's line, or of a function below it), and what one can
#: do instead of calling it so often.
_BY_NAME = (
    (("iterrows",), "use itertuples or columns",
     "`iterrows` makes a Series of each row; `itertuples`, or an expression over whole columns, does not."),
    (("DataFrame.apply", "Series.apply", "FrameApply.apply", "SeriesGroupBy.agg", "SeriesGroupBy.apply",
      "DataFrameGroupBy.apply"), "compute whole columns",
     "Python is called for each row or group; the same as an expression over whole columns runs in C."),
    (("read_csv", "TextFileReader.read"), "keep it as Parquet",
     "Reading text in every run costs more than reading a binary file such as Parquet or Feather."),
    (("json.loads", "json.dumps", "json.load", "json.dump", "JSONDecoder.decode", "JSONEncoder.encode"),
     "use orjson or msgspec", "Compiled encoders handle JSON several times as fast as the standard module."),
    (("re.findall", "re.sub", "re.match", "re.search", "re.split", ".findall", ".finditer"),
     "use str methods, or match once",
     "A pattern that only splits words is faster as `str.split`; results that do not change can be kept."),
    (("Popen.wait", "Popen.communicate", "subprocess.run"), "look into the child process",
     "The program waits for another program."),
    (("time.sleep",), "wait less", "The program sleeps."),
    (("Parallel.__call__", "Parallel"), "give each task more work",
     "joblib sends each task and its result to another process; `batch_size` or larger tasks send less often, "
     "`prefer='threads'` sends nothing if the work is in C."),
    (("Pool.map", "Pool.imap", "Pool.starmap", "Pool.imap_unordered", "ForkingPickler.dumps", "Pickler.dump"),
     "send less to the workers",
     "Objects are pickled for other processes; `chunksize`, names of files or shared memory are smaller."),
    (("ProcessPoolExecutor.map", "Future.result", "wait"), "look at what it waits for",
     "The main thread waits for workers; `codedag run` of what they do alone shows where their time goes."),
    (("imread", "imdecode", "Image.open", "ImageFile.load", "pil_loader", "Image.convert"), "keep smaller files",
     "Decoding takes time by the size of the picture: files that are resized once, or `Image.draft`, decode faster."),
    (("librosa.load", "librosa.core.load", "resample"), "store it at that rate",
     "Resampling in every run costs more than files that are written once at the rate that is used."),
    (("backward", "_engine_run_backward", "Module._wrapped_call_impl", "Module._call_impl", "Optimizer.step"),
     "look at the model",
     "It is the training step itself: a smaller model or input, torch.compile, bfloat16 or a GPU."),
    (("import_module", "_find_and_load", "__import__"), "import less",
     "Libraries are loaded in each run; an import inside the function that needs it is paid only when it is called."),
)  # fmt: skip
OWN_CODE = Hint(
    "use numpy or numba.njit", "It is Python code that computes: numpy on whole arrays, numba.njit or Cython run in C."
)


def hint_for(text: str, names: Collection[str] = ()) -> Hint | None:
    """What can be done about a call on a line of the user's, below which these functions take most of the time."""
    called = text.removesuffix("()")
    for ends, words, sentence in _BY_NAME:
        if called.endswith(ends) or any(name.endswith(ends) for name in names):
            return Hint(words, sentence)
    return None
