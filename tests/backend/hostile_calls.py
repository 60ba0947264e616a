"""Random calls made hostile: odd numbers, odd layouts, odd types, odd ways to say arguments.

A hostile call is made from the seed alone, so that the original and the substitute each get equal ones of their own.
"""

from __future__ import annotations

import inspect
import random
import sys
import warnings

import numpy as np

from codedag.backends.proof import near
from codedag.backends.registry import Call, attempt
from codedag.backends.same import same
from codedag.instrument.guard import Declined


class Sub(np.ndarray):
    """A plain subclass."""


class Whole(int):
    """An int of another type."""


class Share(float):
    """A float of another type."""


def _bits(dtype):
    return {2: np.uint16, 4: np.uint32, 8: np.uint64}[dtype.itemsize]


def _odd_floats(rng, dtype):
    """Numbers of one kind that code gets wrong."""
    info = np.finfo(dtype)
    unsigned = _bits(np.dtype(dtype))
    quiet = np.array([np.nan], dtype).view(unsigned)[0]
    payload = np.array([quiet | unsigned(rng.getrandbits(9)) for _ in range(4)], unsigned).view(dtype)
    top = unsigned(1) << unsigned(8 * np.dtype(dtype).itemsize - 1)
    negative = (payload.view(unsigned) | top).view(dtype)
    tiny = float(info.smallest_subnormal)
    return rng.choice(
        [
            np.array([0.0, -0.0], dtype),
            np.array([0.0, -0.0, 1.0, -1.0], dtype),
            np.array([np.nan], dtype),
            payload,
            np.concatenate([payload, negative]),
            np.array([np.inf], dtype),
            np.array([np.inf, -np.inf], dtype),
            np.array([np.inf, -np.inf, np.nan, -0.0], dtype),
            np.array([tiny, -tiny, 3 * tiny, float(info.tiny)], dtype),
            np.array([info.max, info.min, info.max / 2], dtype),
            np.array([255.0, 256.0, 254.5, 0.5, -0.5], dtype),
            np.array([1 - info.eps, 1 + info.eps, 1, 0.1], dtype),
        ]
    )


def _odd_ints(rng, dtype):
    info = np.iinfo(dtype)
    low, high = int(info.min), int(info.max)
    return np.array(rng.choice([[low, high], [high, high - 1], [0, 1], [0], [low, low + 1, 0], [1, 2, 3, high]]), dtype)


def odd_values(rng, a):
    """The array with some or all of its elements replaced by odd ones."""
    a = np.array(a)
    if not a.size or a.dtype.kind not in "fiu" or a.dtype.itemsize > 8:
        return a
    a = a.astype(a.dtype.newbyteorder("="))
    odd = _odd_floats(rng, a.dtype) if a.dtype.kind == "f" else _odd_ints(rng, a.dtype)
    flat = a.reshape(-1)
    count = rng.choice([1, 2, min(5, flat.size), max(1, flat.size // 3), flat.size])
    numbers = np.random.default_rng(rng.getrandbits(32))
    places = numbers.integers(0, flat.size, count) if count < flat.size else np.arange(flat.size)
    # by bits: a copy through the arithmetic units may make signalling NaNs quiet
    flat[places] = odd[numbers.integers(0, len(odd), len(places))]
    return flat.reshape(a.shape)


def _misaligned(a):
    raw = np.zeros(a.nbytes + 1, np.uint8)
    view = raw[1:].view(a.dtype).reshape(a.shape)
    view[...] = a
    return view


def _spaced(a, axis):
    return np.repeat(a, 2, axis)[tuple(slice(None, None, 2) if i == axis else slice(None) for i in range(a.ndim))]


def _backwards(a, axes):
    turn = tuple(slice(None, None, -1) if i in axes else slice(None) for i in range(a.ndim))
    return np.ascontiguousarray(a[turn])[turn]


def _locked(a):
    a = a.copy()
    a.flags.writeable = False
    return a


def _guarded_cast(a, kind):
    with np.errstate(all="ignore"), warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return a.astype(kind)


def _big(a):
    return np.full(a.shape, 2**63 + 5, np.uint64) + _guarded_cast(a, np.uint64) % np.uint64(1000)


KINDS = ("float16", "float32", "float64", "longdouble", "complex64", "bool", "int8", "uint8", "int16", "uint16",
         "int32", "uint32", "int64", "uint64", "object", ">f4", ">f8", ">i4", ">u2", "S3", "U2",
         "M8[s]", "m8[s]")  # fmt: skip

LAYOUTS = {
    "empty": lambda rng, a: a[:0],
    "empty last": lambda rng, a: a[..., :0],
    "0-d": lambda rng, a: np.array(a.reshape(-1)[0]) if a.size else a,
    "scalar": lambda rng, a: a.reshape(-1)[0] if a.size else a,
    "one": lambda rng, a: a[tuple(slice(0, 1) for _ in range(a.ndim))],
    "two": lambda rng, a: a[tuple(slice(0, 2) for _ in range(a.ndim))],
    "row": lambda rng, a: a[:1],
    "column": lambda rng, a: a[:, :1],
    "flat": lambda rng, a: a.reshape(-1),
    "deeper": lambda rng, a: a[None],
    "deeper at the end": lambda rng, a: a[..., None],
    "spaced": lambda rng, a: _spaced(a, rng.randrange(a.ndim)),
    "backwards": lambda rng, a: _backwards(a, [rng.randrange(a.ndim)]),
    "backwards in all": lambda rng, a: _backwards(a, range(a.ndim)),
    "fortran": lambda rng, a: np.asfortranarray(a),
    "turned": lambda rng, a: a.T,
    "turned back": lambda rng, a: np.ascontiguousarray(a.T).T,
    "locked": lambda rng, a: _locked(a),
    "swapped": lambda rng, a: a.astype(a.dtype.newbyteorder()),
    "broadcast": lambda rng, a: np.broadcast_to(a[:1], a.shape),
    "broadcast last": lambda rng, a: np.broadcast_to(a[..., :1], a.shape),
    "misaligned": lambda rng, a: _misaligned(a),
    "matrix": lambda rng, a: np.asmatrix(a),
    "masked": lambda rng, a: np.ma.masked_array(a, mask=np.indices(a.shape).sum(0) % 3 == 0),
    "unmasked": lambda rng, a: np.ma.masked_array(a),
    "subclass": lambda rng, a: a.view(Sub),
    "list": lambda rng, a: a.tolist(),
    "tuple": lambda rng, a: tuple(a.tolist()),
    "memory": lambda rng, a: memoryview(np.ascontiguousarray(a)),
    "windows": lambda rng, a: np.lib.stride_tricks.sliding_window_view(a.reshape(-1), min(3, a.size)),
    "equal": lambda rng, a: np.full_like(a, a.reshape(-1)[0]) if a.size else a,
    "sorted": lambda rng, a: np.sort(a, None).reshape(a.shape),
    "big": lambda rng, a: _big(a),
    "cut": lambda rng, a: a[1:],
    "cut last": lambda rng, a: a[..., 1:],
}


def odd_array(rng, a):
    """The array with one or two odd things about it."""
    for _ in range(rng.choice([1, 1, 2, 3])):
        if not isinstance(a, np.ndarray):
            break
        way = rng.random()
        if way < 0.45:
            a = odd_values(rng, a)
        elif way < 0.6 and a.dtype.kind not in "SU":  # numpy itself crashes where texts become dates
            kind = rng.choice(KINDS)
            a = attempt(_guarded_cast, a, kind).value if attempt(_guarded_cast, a, kind).error is None else a
        else:
            made = attempt(LAYOUTS[rng.choice(sorted(LAYOUTS))], rng, a)
            a = a if made.error is not None else made.value
    return a


def odd_tensor(rng, value):
    """The tensor with something odd about it."""
    torch = sys.modules["torch"]
    plain = attempt(lambda: value.detach().numpy()).value
    if plain is None:  # it is odd already
        return value
    if rng.random() < 0.6:
        a = odd_array(rng, plain)
        made = attempt(torch.from_numpy, a.copy()) if isinstance(a, np.ndarray) else None
        return made.value if made is not None and made.error is None else value
    ways = [
        lambda: value[::2], lambda: value.flip(0), lambda: value.t(), lambda: value.clone().requires_grad_(),
        lambda: torch.nn.Parameter(value), lambda: value.expand(2, *value.shape), lambda: value.to(torch.bfloat16),
        lambda: torch._neg_view(value), lambda: value.to_sparse(), lambda: value.to("meta"), lambda: value.half(),
        lambda: value.conj(), lambda: torch.complex(value, value).imag, lambda: value.numpy(), lambda: value.tolist(),
        lambda: torch.complex(value, value).conj().imag,
    ]  # fmt: skip
    made = attempt(rng.choice(ways))
    return value if made.error is not None else made.value


def odd_picture(rng, picture):
    """The picture in another mode or size, or one that is not loaded yet."""
    import io

    from PIL import Image

    def stored():
        file = io.BytesIO()
        picture.save(file, "PNG")
        return Image.open(io.BytesIO(file.getvalue()))

    def with_facts():
        made = picture.copy()
        made.info["transparency"] = 0
        made.info["icc"] = b"x"
        return made

    def closed():
        made = picture.copy()
        made.close()
        return made

    modes = ("1", "L", "P", "RGB", "RGBA", "LA", "PA", "CMYK", "YCbCr", "LAB", "HSV", "I", "F", "I;16", "RGBa", "RGBX")
    ways = [lambda: picture.convert(rng.choice(modes))] * 3 + [
        lambda: picture.resize((1, 1)), lambda: picture.crop((0, 0, 0, 5)), lambda: picture.crop((0, 0, 1, 7)),
        lambda: picture.crop((-3, -3, 9, 9)), lambda: picture.quantize(7), stored, with_facts, closed,
        lambda: np.asarray(picture), lambda: Image.fromarray(np.asarray(picture)), lambda: picture.resize((2, 300)),
        lambda: Image.new(picture.mode, (3, 2)),
        lambda: Image.frombuffer("L", (4, 4), bytes(range(16)), "raw", "L", 0, 1),
    ]  # fmt: skip
    made = attempt(rng.choice(ways))
    return picture if made.error is not None else made.value


def odd_series(rng, series):
    """The column with other values, another dtype or another index."""
    import pandas as pd

    def indexed(index):
        made = series.copy()
        made.index = index
        return made

    def flagged():
        made = series.copy()
        made.attrs["unit"] = "m"
        made.flags.allows_duplicate_labels = True
        return made

    size = len(series)
    kinds = ("category", "string", "Int64", "Float64", "float32", "float16", "int8", "uint64", "object", "bool", "str")
    ways = [
        lambda: pd.Series(odd_values(rng, series.to_numpy()), series.index, name=series.name),
        lambda: pd.Series(odd_values(rng, series.to_numpy().astype(float)), series.index),
        lambda: series.astype(rng.choice(kinds)), lambda: series.iloc[:0], lambda: series.iloc[:1],
        lambda: series.iloc[::-1], lambda: series.iloc[::2], lambda: series.where(np.arange(size) % 3 > 0),
        lambda: series.astype(object).where(np.arange(size) % 3 > 0, None), lambda: indexed([0] * size),
        lambda: indexed(pd.MultiIndex.from_arrays([range(size), range(size)])), flagged,
        lambda: series.to_frame(), lambda: series.rename(("a", 1)), lambda: pd.Series(pd.array(series.tolist())),
        lambda: series.to_numpy(), lambda: series.tolist(), lambda: pd.Index(series),
        lambda: pd.Series(pd.to_datetime(np.arange(size))), lambda: pd.Series([True, 1, "a", None, 0.0] * size),
    ]  # fmt: skip
    made = attempt(rng.choice(ways))
    return series if made.error is not None else made.value


def odd_scalar(rng, value):
    """Something of another type, or a number that is odd in its place."""
    near = [Whole(value), Share(value), np.float32(value), np.int64(value), np.array(value), -value, value + 0.5, 0,
            float(value), [value], (value,), np.array([value]), bool(value), complex(value), str(value),
            np.float64(value), np.uint8(0), np.bool_(value)] if type(value) in (int, float) else []  # fmt: skip
    plain = [None, "a", "", -1, 0, 1, 2, 1.5, -0.0, float("nan"), float("inf"), 10**20, True, False, b"x", object,
             np.nan, np.array(1), np.array([1, 2]), [], (), {}, (1, 2), [1, 2, 3], "reflect", "uint8", np.uint8,
             np.dtype("f4"), 2**63, -(2**31), 1e308]  # fmt: skip
    return rng.choice(near if near and rng.random() < 0.6 else plain)


def _numbers(rng, value):
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        made = attempt(odd_scalar, rng, value)
    return value if made.error is not None else made.value


def odd(rng, value):
    """Something odd in the place of a value."""
    if isinstance(value, np.ndarray):
        return odd_array(rng, value) if rng.random() < 0.97 else _numbers(rng, value)
    kind = type(value).__module__.partition(".")[0]
    if kind == "torch" and type(value).__name__ == "Tensor":
        return odd_tensor(rng, value)
    if kind == "PIL" and hasattr(value, "getbands"):
        return odd_picture(rng, value)
    if kind == "pandas" and type(value).__name__ == "Series":
        return odd_series(rng, value)
    if isinstance(value, (tuple, list)) and value and rng.random() < 0.6:
        items = list(value)
        at = rng.randrange(len(items))
        items[at] = odd(rng, items[at])
        return rng.choice([tuple, list, type(value), type(value)])(items)
    if isinstance(value, dict) and value and rng.random() < 0.6:
        return {**value, rng.choice(list(value)): _numbers(rng, next(iter(value.values())))}
    return _numbers(rng, value)


def _names(made):
    return [p for p in inspect.signature(made.run).parameters.values() if p.kind in (p.POSITIONAL_OR_KEYWORD,)]


def _is_data(value):
    return isinstance(value, np.ndarray) or type(value).__module__.startswith(("torch", "PIL", "pandas"))


_USUAL = {"divide": "warn", "over": "warn", "invalid": "warn", "under": "ignore"}
#: What a program may have told numpy to do with odd results: mostly nothing.
ERRORS = (
    *[_USUAL] * 5,
    *[{**dict.fromkeys(_USUAL, "raise"), "under": "ignore"}] * 2,
    {"all": "ignore"},
    {"all": "raise"},
)
OUTS = ("out", "output", "dst")


def _targets(rng, made, args):
    """Something to write a result to: an argument, a part of one, or an array as the result would be."""
    arrays = [value for value in args if isinstance(value, np.ndarray)]
    if not arrays:
        return None
    a = np.asarray(rng.choice(arrays))  # a matrix has two axes, whatever is done to it
    wider = np.zeros((a.shape[0] + 1, *a.shape[1:]), a.dtype) if a.ndim else a
    if rng.random() < 0.3 and a.ndim:
        wider[1:] = a
        return wider[:-1]
    return rng.choice([a, a[::-1] if a.ndim else a, a.copy(), np.zeros(a.shape, np.float64), np.zeros(a.shape, a.dtype),
                       np.zeros(a.shape, np.float32), np.zeros((3, 3)), a.astype(">f4") if a.dtype.kind in "fiu" else a,
                       np.asfortranarray(a), "uint8", np.float32])  # fmt: skip


def hostile(made, number):
    """One hostile call of a substitution's source; the same number gives the same call in fresh objects."""
    rng = random.Random(number)
    call = made.random_call(rng)
    args, kwargs = list(call.args), dict(call.kwargs)
    places = [("args", i) for i in range(len(args))] + [("kwargs", name) for name in kwargs]
    data = [one for one in places if _is_data((args if one[0] == "args" else kwargs)[one[1]])]
    for _ in range(rng.choice([1, 1, 1, 2])):
        pool = data if data and rng.random() < 0.75 else places
        if not pool:
            break
        kind, where = rng.choice(pool)
        held = args if kind == "args" else kwargs
        held[where] = odd(rng, held[where])
    names = [parameter.name for parameter in _names(made)]
    everything = [p.name for p in inspect.signature(made.run).parameters.values() if p.kind is not p.VAR_KEYWORD]
    if rng.random() < 0.25 and len(args) > 1:  # by name what was said by place
        while len(args) > rng.randrange(1, len(args) + 1) and len(args) <= len(names):
            kwargs[names[len(args) - 1]] = args.pop()
    outs = [name for name in everything if name in OUTS]
    if outs and rng.random() < 0.2 and outs[0] not in kwargs:
        kwargs[outs[0]] = _targets(rng, made, [*args, *kwargs.values()])
    chance = rng.random()
    if chance < 0.03:
        kwargs["no_such_argument"] = 1
    elif chance < 0.05:
        args = [*args, *[None] * rng.choice([1, 3, 9])]
    elif chance < 0.07 and args:
        args.pop()
    elif chance < 0.15 and everything:
        kwargs[rng.choice(everything)] = _numbers(rng, rng.choice([1, 2.5, 0, "a"]))
    return Call(tuple(args), kwargs)


def _told(function, call, errors):
    """The outcome of a call, and what was warned of meanwhile."""
    with warnings.catch_warnings(record=True) as heard, np.errstate(**errors):
        warnings.simplefilter("always")
        outcome = attempt(function, *call.args, **call.kwargs)
    return outcome, sorted((one.category.__name__, str(one.message)) for one in heard)


def _memory(value):
    if type(value).__name__ in ("Tensor", "Parameter"):
        return attempt(lambda: value.detach().numpy()).value  # none of one that is sparse or elsewhere
    return value if isinstance(value, np.ndarray) else None


def _shares(call, result):
    """Which arguments a result is, or shares memory with."""
    parts = [*call.args, *call.kwargs.values()]
    held = _memory(result)
    return [
        (part is result and not isinstance(part, (int, str, float, type(None))),
         held is not None and _memory(part) is not None and bool(np.may_share_memory(_memory(part), held)))
        for part in parts
    ]  # fmt: skip


def _same_or_equal(left, right):
    if left is right:
        return True
    if getattr(left, "dtype", None) == np.longdouble:
        return np.array_equal(left, right, equal_nan=True)  # its bytes have gaps
    verdict = attempt(same, left, right)
    return verdict.error is not None or bool(verdict.value)  # a picture that was closed has nothing to compare


def differs(made, number):
    """What a program could tell of the substitution in a hostile call; empty if nothing. None if it was declined."""
    errors = random.Random(f"errors {number}").choice(ERRORS)
    theirs, ours = (hostile(made, number) for _ in range(2))
    before = [_state(value) for value in (*ours.args, *ours.kwargs.values())]
    with warnings.catch_warnings(record=True) as heard, np.errstate(**errors):
        warnings.simplefilter("always")
        verdict = attempt(made.accepts, ours.args, ours.kwargs)
    changed = before != [_state(value) for value in (*ours.args, *ours.kwargs.values())]
    guarded = [one for one in heard if one.category is not DeprecationWarning]
    if guarded:
        return f"the guard warns: {guarded[0].message}"
    if verdict.error is not None:
        return None  # which counts as a decline
    if not verdict.value:
        return "the guard changed an argument" if changed else None
    expected, said = _told(made.original(), theirs, errors)
    got, heard_too = _told(made.run, ours, errors)
    if isinstance(got.error, Declined):
        return None
    if expected.error is not None or got.error is not None:
        if repr(got.error) == repr(expected.error):
            return ""  # the original runs then, and the program sees what it raises
        return f"original {expected.error!r}, substitute {got.error!r}"
    answer = near(expected.value, got.value, made.equivalence)
    if not answer:
        return answer.reason
    if said != heard_too:
        return f"original warns {said}, substitute {heard_too}"
    for place, (left, right) in enumerate(
        zip([*theirs.args, *theirs.kwargs.values()], [*ours.args, *ours.kwargs.values()], strict=True)
    ):
        if _is_plain(left) and not _same_or_equal(left, right):
            return f"argument {place} was left in another state"
    if _shares(theirs, expected.value) != _shares(ours, got.value):
        return "the result shares memory with other arguments"
    return ""


def _state(value):
    """What a guard must not change, as bytes."""
    return value.tobytes() if type(value) is np.ndarray and not value.dtype.hasobject else None


def _is_plain(value):
    return isinstance(value, np.ndarray) or type(value).__module__.startswith(("PIL", "pandas"))
