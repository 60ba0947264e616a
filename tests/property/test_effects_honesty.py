"""The table of known effects against what the functions do: nothing written, drawn or shared that it does not say.

Every row is called with arguments from a pool until some fit.  What a row says is then looked at: results that are
called deterministic come out the same twice, arguments that are not called written stay as they are, generators that
are not named stay where they are, and results that are called fresh share no memory.  Rows that no arguments of the
pool fit are counted and printed.
"""

import copy
import importlib
import io
import pickle
import random
import types
import warnings

import numpy as np
import pytest
from effects_pool import maybe, owners_of, pool_of

from codedag.backends.known import Effect, Known, knowledge, known_call

cv2 = pytest.importorskip("cv2")
torch = pytest.importorskip("torch")
Image = pytest.importorskip("PIL.Image")

#: Rows that cannot be asked in a test process, or not by calling them alone.
_NOT_CALLED = {"builtins.open", "builtins.input", "builtins.print", "PIL.Image.Image.show", "PIL.Image.Image.save"}
_REAL_ONLY = {"cv2.sqrt", "cv2.exp", "cv2.log"}  # some builds of cv2 crash on others
_LIBRARIES = {
    "python": ("builtins", "math", "os", "posixpath", "pathlib", "json", "re", "operator", "copy", "hashlib", "glob",
               "collections", "struct", "zlib", "base64", "statistics", "bisect", "random",
               "datetime", "gzip", "bz2", "lzma", "unicodedata", "_random", "_io", "io",
               "_operator", "_hashlib", "time", "_blake2"),
    "numpy": ("numpy",),
    "cv2": ("cv2",),
    "PIL": ("PIL",),
    "torch": ("torch",),
    "scipy": ("scipy",),
    "skimage": ("skimage",),
    "librosa": ("librosa", "soundfile"),
    "pandas": ("pandas",),
}  # fmt: skip
#: At least so many rows of each library are reached by the pool; a pool that reaches nothing proves nothing.
_LEAST = {
    "python": 300, "numpy": 500, "cv2": 80, "PIL": 50, "torch": 450, "scipy": 100, "skimage": 60, "librosa": 25,
    "pandas": 50,
}  # fmt: skip


_MODULES = {
    "PIL": ("ImageEnhance", "ImageFilter", "ImageOps"),
    "torch": ("nn.functional", "utils.data"),
    "scipy": ("fft", "ndimage", "signal"),
    "skimage": (
        "color", "exposure", "filters", "measure", "morphology", "restoration", "transform", "util", "feature",
        "segmentation", "io",
    ),
    "librosa": ("core", "feature", "effects", "filters", "util"),
}  # fmt: skip


def _load(library):
    """Loads a library with its parts, of which some load theirs when they are asked for."""
    if library != "python":
        pytest.importorskip(library)
    for part in _MODULES.get(library, ()):
        module = importlib.import_module(f"{library}.{part}")
        for name in dir(module) if library in ("skimage", "librosa") else ():
            getattr(module, name)


@pytest.fixture(scope="module")
def files(tmp_path_factory):
    folder = tmp_path_factory.mktemp("effects")
    picture = np.random.default_rng(3).integers(0, 256, (24, 32, 3), dtype=np.uint8)
    cv2.imwrite(str(folder / "a.png"), picture)
    np.save(folder / "a.npy", picture)
    (folder / "a.csv").write_text("a,b\n1,2.5\n3,4.5\n")
    (folder / "a.json").write_text('{"a": [1, 2]}')
    if (soundfile := maybe("soundfile")) is not None:
        soundfile.write(folder / "a.wav", np.sin(np.arange(4000) / 9), 8000)
    return folder


# -- what is looked at


def _states():
    return (
        pickle.dumps(random.getstate()), pickle.dumps(np.random.get_state()), torch.get_rng_state().numpy().tobytes(),
    )  # fmt: skip


def _frozen(value, depth=5):
    """A value as something that can be compared: bits, not equality, so that NaN is itself and -0.0 is not 0.0."""
    if isinstance(value, np.ndarray | np.generic):
        bits = value.tobytes() if value.dtype.char not in "gG" else repr(value)  # long doubles have bits of no meaning
        return (type(value).__name__, value.dtype.str, value.shape, bits)
    if isinstance(value, torch.Tensor):
        value = value.detach().resolve_conj().resolve_neg()
        value = value.view(torch.int16) if value.dtype is torch.bfloat16 else value
        return ("tensor", str(value.dtype), tuple(value.shape), value.contiguous().numpy().tobytes())
    if isinstance(value, Image.Image):
        return ("image", value.mode, value.size, value.tobytes())
    if isinstance(value, dict):
        return ("dict", tuple((_frozen(k), _frozen(v)) for k, v in value.items()))
    if isinstance(value, list | tuple | set | frozenset) and depth:
        return (type(value).__name__, tuple(_frozen(item, depth - 1) for item in value))
    if type(value).__module__.startswith("pandas"):
        return (type(value).__name__, value.to_csv() if hasattr(value, "to_csv") else repr(value))
    if isinstance(value, float | complex):
        return (type(value).__name__, repr(value))
    if isinstance(value, io.IOBase):
        return (type(value).__name__, value.closed or (value.tell() if value.seekable() and _can_tell(value) else ""))
    if isinstance(value, np.random.Generator):
        return repr(value.bit_generator.state)
    if isinstance(value, np.random.RandomState):
        return pickle.dumps(value.get_state())
    if isinstance(value, random.Random):
        return pickle.dumps(value.getstate())
    if hasattr(value, "hexdigest"):
        return value.hexdigest()
    if isinstance(value, memoryview):
        return value.tobytes()
    shown = repr(value) if type(value).__repr__ is not object.__repr__ else ""
    return (type(value).__name__, shown if " 0x" not in shown else "")


def _can_tell(file):
    try:
        file.tell()
    except OSError:
        return False
    return True


def _arrays(value, depth=4):
    """The memory that a value holds, as arrays."""
    if isinstance(value, np.ndarray):
        return [value]
    if isinstance(value, torch.Tensor):
        return (
            [value.detach().resolve_conj().numpy()]
            if value.layout is torch.strided and value.dtype is not torch.bfloat16
            else []
        )
    if isinstance(value, dict) and depth:
        return [found for item in value.values() for found in _arrays(item, depth - 1)]
    if isinstance(value, list | tuple) and depth:
        return [found for item in value for found in _arrays(item, depth - 1)]
    return []


def _shares(one, other):
    return any(np.may_share_memory(a, b) and np.shares_memory(a, b) for a in _arrays(one) for b in _arrays(other))


def _copied(value):
    return (
        value
        if isinstance(value, io.IOBase | np.ufunc | type | types.BuiltinFunctionType | cv2.CLAHE)
        else copy.deepcopy(value)
    )


class _Trial:
    """One call of a row with arguments that fit."""

    def __init__(self, call, args, keywords, known, owner):
        self.call, self.args, self.keywords, self.known, self.owner = call, args, keywords, known, owner

    def problems(self):
        before, states = self._inputs(), _states()
        generator = self.known.generator(self.call) if self.known.generator else None
        drawn = _frozen(generator) if generator is not None and not isinstance(generator, torch.Generator) else None
        first = self.call(*self.args, **self.keywords)
        yield from self._inputs_kept(before)
        yield from self._generators_kept(states, generator, drawn)
        if self.known.fresh and not self.known.writes and _shares(first, (self.owner, self.args, self.keywords)):
            yield "the result is called fresh and shares memory with an argument"
        if self.known.writes or self.known.effect in (Effect.DRAWS, Effect.CLOCK):
            return
        kept = _frozen(first)
        second = self.call(*self.args, **self.keywords)
        if self.known.deterministic and kept != _frozen(second):
            yield "a second call gives something else"
        if self.known.fresh and first is not second and _shares(first, second):
            yield "two results share memory"

    def _inputs(self):
        owner = self.owner if not isinstance(self.owner, type(random) | type) else None
        return {
            "self": _frozen(owner),
            **{n: _frozen(v) for n, v in enumerate(self.args)},
            **{k: _frozen(v) for k, v in self.keywords.items()},
        }

    def _inputs_kept(self, before):
        after = self._inputs()
        draws_from_self = self.known.generator is not None and self.known.generator(self.call) is self.owner
        for place, value in before.items():
            if value != after[place] and place not in self.known.writes and not (place == "self" and draws_from_self):
                yield f"argument {place!r} is changed"

    def _generators_kept(self, states, generator, drawn):
        named = {id(random._inst): 0, id(np.random.mtrand._rand): 1, id(torch.default_generator): 2}.get(id(generator))
        for number, (one, other) in enumerate(zip(states, _states(), strict=True)):
            if one != other and number != named:
                yield f"global generator {number} is advanced and not named"
            if one == other and number == named and not self._draws_nothing():
                yield "the generator that is named is not advanced"
        if drawn is not None and named is None and drawn == _frozen(generator) and not self._draws_nothing():
            yield "the generator that is named is not advanced"

    def _draws_nothing(self):
        """Whether there may be nothing to draw: a single choice, an empty array."""
        name = getattr(self.call, "__name__", "")
        return any(type(a) is int and a <= 1 for a in self.args) or name in _MAY_DRAW_NOTHING


#: Draws that take nothing from the stream for some of the pool: of zero, one, or nothing at all.
_MAY_DRAW_NOTHING = {
    "shuffle",
    "permutation",
    "permuted",
    "binomial",
    "poisson",
    "multinomial",
    "bytes",
    "choices",
    "sample",
    "randbytes",
    "negative_binomial",
    "hypergeometric",
    "bernoulli",
    "bernoulli_",
    "zipf",
    "randperm",
    "noncentral_chisquare",
    "choice",
    "standard_gamma",
    "gamma",
    "pareto",
    "triangular",
    "gauss",
    "rand",
    "randint",
    "random_",
    "randint_like",
    "normal",
    "multivariate_hypergeometric",
    "wald",
    "random_integers",
    "vonmises",
}


def _rows(library):
    table = knowledge()
    tops = _LIBRARIES[library]
    for function, row in list(table.functions.values()):
        if row.name.partition(".")[0] in tops and row.name not in _NOT_CALLED:
            yield row, function, None
    for kind, methods in list(table.methods.items()):
        for name, (_, row) in methods.items():
            stands_for_all = not issubclass(kind, np.generic) or kind in (np.float32, np.int64, np.float64)
            if row.name.partition(".")[0] in tops and row.name not in _NOT_CALLED and stands_for_all:
                yield row, name, kind


def _trials(row, what, kind, pool, folder, most=3):
    found = 0
    owners = [None] if kind is None else owners_of(kind, folder)
    for owner in owners:
        for args, keywords in pool:
            if found >= most:
                return
            if row.name in _REAL_ONLY and any(isinstance(a, np.ndarray) and a.dtype.kind != "f" for a in args):
                continue
            held = _copied(owner)
            call = what if kind is None else _method(held, what)
            args, keywords = tuple(map(_copied, args)), {k: _copied(v) for k, v in keywords.items()}
            known = known_call(call, args, keywords)
            if not isinstance(known, Known):
                continue
            if _fits(row, what, kind, owner, args, keywords):
                found += 1
                yield _Trial(call, args, keywords, known, held)


def _method(owner, name):
    try:
        return getattr(owner, name)
    except (AttributeError, RuntimeError):  # parts of complex tensors
        return None


def _fits(row, what, kind, owner, args, keywords):
    """Whether a call with copies of these arguments succeeds."""
    state = random.getstate(), np.random.get_state(), torch.get_rng_state()
    try:
        held = _copied(owner)
        call = what if kind is None else _method(held, what)
        call(*map(_copied, args), **{k: _copied(v) for k, v in keywords.items()})
    except Exception:  # noqa: BLE001 - whatever it raises, these arguments do not fit
        return False
    finally:
        random.setstate(state[0])
        np.random.set_state(state[1])
        torch.set_rng_state(state[2])
    return True


@pytest.mark.parametrize(
    "library",
    [
        pytest.param(n, marks=[pytest.mark.long] if n in ("skimage", "librosa", "scipy", "torch") else [])
        for n in _LIBRARIES
    ],
)
def test_rows_do_what_they_say(library, seed, files, capsys):
    _load(library)
    pool = pool_of(library, random.Random(f"{seed}:{library}"), files)
    covered, uncovered, wrong = 0, [], []
    with warnings.catch_warnings(), np.errstate(all="ignore"):
        warnings.simplefilter("ignore")
        for row, what, kind in _rows(library):
            reached = False
            for trial in _trials(row, what, kind, pool, files):
                reached = True
                wrong += [f"{row.name}{trial.args!r:.200}: {problem}" for problem in trial.problems()]
            covered += reached
            uncovered += [] if reached else [row.name]
    with capsys.disabled():
        print(f"\n{library}: {covered} rows looked at, {len(uncovered)} not: {' '.join(uncovered)}")
    assert not wrong, "\n".join(wrong)
    assert covered >= _LEAST[library]


@pytest.mark.parametrize("library", list(_LIBRARIES))
def test_asking_never_fails(library, files):
    _load(library)
    odd = [(), (1,), ("a",), (None,), ([],), ({},), (object(),), (b"", b""), (np.zeros(2), "a", None, 3, 4, 5, 6, 7)]
    for _, what, kind in _rows(library):
        owner = None if kind is None else next(iter(owners_of(kind, files)), None)
        call = what if kind is None else _method(owner, what)
        for args in odd:
            known_call(call, args, {})
            known_call(call, (), {"mode": object(), "out": 3, "copy": [], "dtype": None, "path": 1})
        if isinstance(owner, io.IOBase):
            owner.close()


def test_albumentations_draws_from_its_own_generators():
    albumentations = pytest.importorskip("albumentations")
    image = np.random.default_rng(1).integers(0, 256, (32, 32, 3), dtype=np.uint8)
    pipeline = albumentations.Compose(
        [
            albumentations.RandomCrop(24, 24), albumentations.HorizontalFlip(p=0.5), albumentations.GaussNoise(p=1),
            albumentations.OneOf([albumentations.RandomBrightnessContrast(), albumentations.HueSaturationValue()]),
            albumentations.Affine(p=1), albumentations.CoarseDropout(p=1),
        ]
    )  # fmt: skip
    known = known_call(pipeline, (), {"image": image})
    assert known.effect is Effect.DRAWS
    assert known.writes == ("self",)
    assert known.generator(pipeline) is pipeline
    before, kept = _states(), image.copy()
    for _ in range(50):
        pipeline(image=image)
    assert _states() == before
    assert (image == kept).all()


def _as_it_is(image, **_):
    return image


def test_a_transform_of_the_user_is_not_known():
    albumentations = pytest.importorskip("albumentations")

    class Mine(albumentations.HorizontalFlip):
        def apply(self, img, **params):
            return img

    for inside in (Mine(p=1), albumentations.Lambda(image=_as_it_is)):
        assert not isinstance(known_call(albumentations.Compose([inside]), (), {"image": np.zeros((4, 4, 3))}), Known)


def _large(seed):
    """Arguments that are large enough for a library to use its threads."""
    numbers = np.random.default_rng(seed)
    colour = numbers.integers(0, 256, (301, 403, 3), dtype=np.uint8)
    real, kernel = numbers.random((301, 403)).astype(np.float32), np.ones((5, 5), np.uint8)
    tensor, matrix = torch.from_numpy(real), np.float32([[0.9, 0.1, 1], [0.05, 0.8, 2]])
    of_cv2 = [
        (colour,), (colour, 6), (colour, (400, 300)), (colour, colour[::-1].copy()), (colour, (5, 5), 1.5),
        (colour, kernel),
        (colour, 1), (colour, 5), (colour, cv2.CV_32F, 1, 0), (colour, -1, kernel / 25), (colour, matrix, (800, 700)),
        (colour, 0.5, colour, 0.5, 0), (real,), (real, real), (colour[..., 0].copy(),),
        (colour, np.arange(256, dtype=np.uint8)),
        (colour[..., 0].copy(), 255, 0, 0, 3, 2), (colour, 5, 20, 20), (colour, 100, 255, 0), (colour, 2, kernel),
        (colour[..., 0].copy(), 50, 100), (colour, 1, 1, 2, 2, 4),
    ]  # fmt: skip
    of_torch = [
        (tensor,), (tensor, tensor.flip(0)), (tensor, 1.5), (tensor, 0), (tensor > 0.5, tensor, -tensor),
        ([tensor, tensor],),
        (tensor, tensor, 0.5), (tensor, (0, 1)), (tensor, 0, 1), (torch.from_numpy(colour),), (tensor, tensor, tensor),
        (torch.from_numpy(colour), torch.from_numpy(colour[::-1].copy())), (tensor, 3, 0),
    ]  # fmt: skip
    return {"cv2": of_cv2, "torch": of_torch}


def _with_threads(number, call, args):
    before = cv2.getNumThreads(), torch.get_num_threads()
    cv2.setNumThreads(number)
    torch.set_num_threads(number)
    try:
        return _frozen(call(*map(_copied, args)))
    finally:
        cv2.setNumThreads(before[0])
        torch.set_num_threads(before[1])


@pytest.mark.long
@pytest.mark.parametrize("library", ["cv2", "torch"])
def test_the_number_of_threads_changes_no_bit(library, seed):
    """Where a row does not say that it may."""
    reached, wrong, large = 0, [], _large(seed)[library]
    for row, what, kind in _rows(library):
        looked_at = 0
        for args in large if kind is None and row.effect is Effect.PURE and row.name not in _REAL_ONLY else ():
            known = known_call(what, args, {})
            fits = isinstance(known, Known) and not known.by_threads and known.deterministic and not known.writes
            if looked_at < 2 and fits and _fits(row, what, kind, None, args, {}):
                looked_at += 1
                one, other = (_with_threads(number, what, args) for number in (1, 3))
                wrong += [f"{row.name} with {[type(a).__name__ for a in args]}"] if one != other else []
        reached += looked_at > 0
    assert not wrong, "\n".join(wrong)
    assert reached >= 60
