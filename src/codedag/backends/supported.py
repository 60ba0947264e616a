"""Which functions this package can move or replace, by the way in which that is done."""

from __future__ import annotations

from collections.abc import Mapping

from codedag.backends.registry import all_substitutions

MOVE_ONLY = "MoveOnly"
STANDARD = "StandardOp"
FACTORY = "FactoryOp"
PIPELINE = "PipelineOp"
NOT = "NonMigratable"

# Substitutes that only bring elements to another place in memory.
_MOVES = frozenset({
    "numpy.ascontiguousarray", "numpy.pad", "skimage.color.gray2rgb", "PIL.Image.Image.transpose",
    "PIL.ImageOps.mirror", "PIL.Image.Image.tobytes", "PIL.Image.fromarray",
})  # fmt: skip
# Functions of torch that run where their tensors are: nothing is replaced, and nothing has to be.
_FOLLOWING = frozenset(
    {f"torch.{name}" for name in ("cat", "clamp", "einsum", "flip", "matmul", "permute", "stack", "where")}
    | {
        f"torch.nn.functional.{name}"
        for name in ("avg_pool2d", "conv1d", "conv2d", "grid_sample", "interpolate", "pad")
    }
)
FOLLOWS = "a function of torch, which runs where its tensors are"
# Substitutes that make an array from plain numbers.
_FACTORIES = frozenset(
    {f"librosa.filters.{name}" for name in ("mel", "get_window", "chroma")}
    | {f"scipy.signal.{name}" for name in ("get_window", "butter", "cheby1", "cheby2", "ellip", "firwin", "lfilter_zi")}
)
# Substitutes that run several steps of the library as one.
_PIPELINES = frozenset({
    "librosa.feature.melspectrogram", "librosa.feature.mfcc", "skimage.transform.resize", "skimage.transform.rescale",
})  # fmt: skip
# Objects that call others in a row: they are no functions to replace, and what their steps call is replaced by itself.
_CONTAINERS = frozenset({
    "albumentations.Compose", "torch.nn.Sequential", "torchvision.transforms.Compose",
    "torchvision.transforms.v2.Compose",
})  # fmt: skip
CONTAINS = "a container: it runs as written, and calls that its steps make are replaced one by one"
_FILES = "reads a file; where its bytes lie decides its speed, not the processor"
_WRITES = "writes a file, which is an effect outside the program"
_STREAM = "draws from a random stream that no other implementation reproduces bit for bit"
_WINDOW = "shows or reads a window or a camera"
_REFUSED: Mapping[str, str] = {
    "builtins.open": _FILES,
    "cv2.imread": _FILES,
    "cv2.imwrite": _WRITES,
    "cv2.imshow": _WINDOW,
    "cv2.VideoCapture": _WINDOW,
    "cv2.VideoWriter": _WRITES,
    "cv2.waitKey": _WINDOW,
    "PIL.Image.open": _FILES,
    "PIL.Image.Image.save": _WRITES,
    "json.load": _FILES,
    "json.dump": _WRITES,
    "librosa.load": _FILES,
    "numpy.fromfile": _FILES,
    "numpy.genfromtxt": _FILES,
    "numpy.load": _FILES,
    "numpy.loadtxt": _FILES,
    "numpy.memmap": _FILES,
    "numpy.save": _WRITES,
    "numpy.savetxt": _WRITES,
    "numpy.savez": _WRITES,
    "numpy.savez_compressed": _WRITES,
    "numpy.random.choice": _STREAM,
    "numpy.random.normal": _STREAM,
    "numpy.random.permutation": _STREAM,
    "numpy.random.rand": _STREAM,
    "numpy.random.randint": _STREAM,
    "numpy.random.randn": _STREAM,
    "numpy.random.shuffle": _STREAM,
    "numpy.random.uniform": _STREAM,
    "pandas.read_csv": _FILES,
    "pandas.read_parquet": _FILES,
    "pickle.dump": _WRITES,
    "pickle.load": _FILES,
    "skimage.io.imread": _FILES,
    "skimage.io.imsave": _WRITES,
    "torch.load": _FILES,
    "torch.save": _WRITES,
}


def list_supported_functions() -> dict[str, list[str]]:
    """The dotted names of known functions by strategy; reasons_against() says why the last ones stay as they are."""
    found: dict[str, list[str]] = {MOVE_ONLY: [], STANDARD: [], FACTORY: [], PIPELINE: [], NOT: sorted(_REFUSED)}
    for source in sorted({substitution.source for substitution in all_substitutions()} | _FOLLOWING | _CONTAINERS):
        found[strategy_of(source)].append(source)
    return found


def strategy_of(source: str) -> str:
    """The strategy by which a function with a substitute is replaced; NonMigratable for one that never is."""
    if source in _REFUSED:
        return NOT
    for strategy, names in (
        (MOVE_ONLY, _MOVES | _FOLLOWING),
        (FACTORY, _FACTORIES),
        (PIPELINE, _PIPELINES | _CONTAINERS),
    ):
        if source in names:
            return strategy
    return STANDARD


def reasons_against() -> dict[str, str]:
    """Why each function that is never replaced is not."""
    return dict(_REFUSED)


def why_as_written(source: str) -> str:
    """Why a function without a substitute runs as written."""
    known = {**dict.fromkeys(_FOLLOWING, FOLLOWS), **dict.fromkeys(_CONTAINERS, CONTAINS), **_REFUSED}
    return known.get(source, "no substitution of this function is registered")
