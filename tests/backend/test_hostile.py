"""Every substitution under hostile calls: nothing that a program can see differs from what the original does."""

from __future__ import annotations

from importlib.util import find_spec

import numpy as np
import pytest

pytest.importorskip("cv2")

from hostile_calls import differs
from substitution_checks import of, reason

from codedag.backends.hazards import FOREIGN, HUGE, UNDERFLOW
from codedag.backends.registry import all_substitutions

SUBSTITUTIONS = {
    made.name: made for made in all_substitutions() if made.pu == "cpu" and find_spec(made.source.partition(".")[0])
}
ALL = sorted(SUBSTITUTIONS)
#: scipy itself can crash on odd calls of these.
CRASH = ("scipy.ndimage.binary_closing", "scipy.ndimage.binary_opening")
#: Calls that nobody makes find a new disagreement about one in some ten thousand: the whole run looks for more of them,
#: with the printed seed, and a short one sees that those which are known stay right.
KNOWN_SEED = 78
pytestmark = pytest.mark.filterwarnings("ignore")


def check(name, calls, seed):
    found = {number: differs(SUBSTITUTIONS[name], 1_000_003 * seed + number) for number in range(calls)}
    assert {number: said for number, said in found.items() if said} == {}


@pytest.fixture
def hostile_seed(request, seed):
    return seed if request.config.getoption("--full") else KNOWN_SEED


@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith(CRASH)])
def test_hostile_calls(name, hostile_seed):
    check(name, 40, hostile_seed)


@pytest.mark.long
@pytest.mark.parametrize("name", [name for name in ALL if not name.startswith(CRASH)])
def test_many_hostile_calls(name, hostile_seed):
    check(name, 600, hostile_seed + 1)


def picture(dtype="float32"):
    return np.random.default_rng(0).random((128, 96, 3)).astype(dtype)


def test_numbers_in_the_byte_order_of_another_machine_are_declined():
    pytest.importorskip("albucore")
    foreign = picture(">f4")
    assert reason("albucore.from_float", foreign, np.uint8) == FOREIGN
    assert reason("albucore.from_float", foreign.astype("f4"), np.uint8) == ""


def test_a_byte_order_that_is_written_out_stays_in_the_result():
    image = picture()[:, :, 0].copy()
    assert reason("scipy.ndimage.convolve1d", image.view(image.dtype.newbyteorder("<")), [3.0]) == FOREIGN
    assert reason("scipy.ndimage.convolve1d", image, [3.0]) == ""


def test_axes_that_only_equal_whole_numbers_are_scipys():
    image = picture()[:, :, 0].copy()
    assert reason("scipy.ndimage.rotate", image, 30.0, (1, np.array([0])), order=1) != ""
    assert reason("scipy.ndimage.rotate", image, 30.0, (1, 0), order=1) == ""


def test_an_option_that_is_a_complex_zero_is_pillows():
    image = pytest.importorskip("PIL.Image").fromarray(np.zeros((64, 64), np.uint8))
    assert reason("PIL.Image.Image.convert", image, "RGB", dither=0j) != ""
    assert reason("PIL.Image.Image.convert", image, "RGB", dither=None) == ""


@pytest.mark.parametrize("name", ["numpy.sum", "numpy.mean"])
def test_where_nothing_is_meant_nothing_is_summed(name):
    grey = np.ones((100, 100), np.uint8)
    assert reason(name, grey) == ""
    assert reason(name, grey, where=None) == "where is given"  # numpy takes None for false


@pytest.mark.parametrize("axis", [np.array([0, 1]), np.int64(1), [0, 1]])
def test_axes_of_another_kind_have_a_reason(axis):
    assert reason("numpy.sum", np.ones((100, 100, 3), np.uint8), axis=axis) == "axes other than rows and columns"


def sound():
    return np.random.default_rng(0).normal(0, 1, 6000).astype(np.float32)


#: An array of one text equals that text, and is true then; a text of a class may be shown otherwise.
@pytest.mark.parametrize(
    ("name", "args", "option", "known"),
    [
        ("numpy.percentile", (np.zeros(5000, np.uint8), 50), "method", "linear"),
        ("PIL.Image.Image.tobytes", "picture", "encoder_name", "raw"),
        ("PIL.Image.fromarray", (np.zeros((100, 100, 3), np.uint8),), "mode", "RGB"),
        ("librosa.stft", "sound", "window", "hann"),
        ("librosa.feature.melspectrogram", "sound", "pad_mode", "constant"),
        ("librosa.feature.mfcc", "sound", "norm", "ortho"),
        ("librosa.filters.mel", {"sr": 22050, "n_fft": 2048, "n_mels": 40}, "norm", "slaney"),
        ("scipy.signal.butter", (3, 0.2), "output", "ba"),
        ("scipy.signal.firwin", (31, 0.2), "window", "hamming"),
        ("scipy.signal.convolve2d", (np.ones((50, 50)), np.ones((3, 3))), "mode", "full"),
        ("skimage.filters.median", (np.zeros((100, 100), np.uint8),), "behavior", "ndimage"),
        ("skimage.exposure.rescale_intensity", (np.zeros((100, 100), np.uint8),), "in_range", "dtype"),
    ],
)
@pytest.mark.parametrize("odd", [np.array, lambda text: np.array([text, text]), type("Text", (str,), {})])
def test_what_only_equals_a_known_text_is_declined(name, args, option, known, odd):
    pytest.importorskip(name.partition(".")[0])
    options = dict(args) if isinstance(args, dict) else {}
    if args == "picture":
        args = (pytest.importorskip("PIL.Image").new("RGB", (200, 200)),)
    elif args == "sound":
        args, options = (), {"y": sound(), **({} if name.endswith("stft") else {"n_mels": 40})}
    elif isinstance(args, dict):
        args = ()
    assert reason(name, *args, **options, **{option: known}) == ""
    assert reason(name, *args, **options, **{option: odd(known)}) != ""


def test_the_layout_of_bytes_is_a_plain_text():
    image = pytest.importorskip("PIL.Image").new("RGB", (200, 200))
    assert reason("PIL.Image.Image.tobytes", image, "raw", "RGB") == ""
    assert reason("PIL.Image.Image.tobytes", image, "raw", np.array("RGB")) == "another layout"


def test_an_elliptic_filter_whose_ripples_are_equal_is_no_filter():
    """Scipy warns of it each time, which a remembered one does not."""
    assert reason("scipy.signal.ellip", 5, 1, 40, 0.2) == ""
    assert reason("scipy.signal.ellip", 5, 1, 1, 0.2) == "odd ripples"


@pytest.mark.parametrize(("pairs", "shared"), [({99: 1}, True), ({5: 5}, False), ({5: 6, 99: 1}, False)])
def test_a_series_in_which_nothing_is_replaced_keeps_its_memory(pairs, shared):
    pandas = pytest.importorskip("pandas")
    made = of("pandas.Series.replace")
    series = pandas.Series(np.arange(3000) % 50, name="x")
    assert made.accepts((series, pairs), {})
    for result in (made.original()(series, pairs), made.run(series, pairs)):
        assert np.shares_memory(result.to_numpy(), series.to_numpy()) == shared
        assert (result.name, result is series) == ("x", False)
        kept = result.copy()
        result.iloc[0] = 7
        assert series.iloc[0] == 0  # it is copied before it is written
        assert kept.iloc[0] == 0


def test_numbers_of_more_than_64_bits_are_declined():
    pytest.importorskip("librosa")
    sound = picture().ravel()
    assert reason("librosa.feature.melspectrogram", y=sound, n_mels=40, hop_length=10**20) == HUGE
    assert reason("librosa.feature.melspectrogram", y=sound, n_mels=40, hop_length=512) == ""


def test_where_numpy_tells_of_underflow_the_original_runs():
    grey = np.zeros((200, 200), np.uint8)
    with np.errstate(under="warn"):
        assert reason("numpy.mean", grey) == UNDERFLOW
    with np.errstate(all="ignore"):
        assert reason("numpy.mean", grey) == ""
    assert reason("numpy.mean", grey) == ""


def test_a_power_that_makes_double_precision_is_declined():
    pytest.importorskip("librosa")
    made = SUBSTITUTIONS["librosa.feature.melspectrogram -> scipy.fft"]
    sound = np.random.default_rng(0).normal(0, 1, 6000).astype(np.float32)
    assert made.accepts((), {"y": sound, "n_mels": 40, "power": 2.0})
    assert not made.accepts((), {"y": sound, "n_mels": 40, "power": np.float64(2.0)})


@pytest.mark.parametrize("name", ["numpy.sum", "numpy.mean"])
def test_an_axis_that_is_a_truth_is_declined(name):
    grey = np.zeros((200, 100, 3), np.uint8)
    assert reason(name, grey, axis=(0, 1)) == ""
    assert reason(name, grey, axis=(0, True)) != ""
    assert reason(name, grey, axis=(False, 1)) != ""


def test_options_that_numpy_asks_for_their_truth_are_declined():
    numbers = np.zeros(5000, np.uint8)
    assert "not a bool" in reason("numpy.unique", numbers, equal_nan=np.array([1, 2]))
    assert reason("numpy.unique", numbers, equal_nan=False) == ""


def test_factors_whose_product_overflows_are_declined():
    pytest.importorskip("albucore")
    grey, mean, factor = np.zeros((70, 64, 3), np.uint8), np.ones(3, np.float32), np.full(3, -3.4e38, np.float32)
    assert "usual size" in reason("albucore.normalize", grey, mean, factor)


def test_windows_larger_than_the_picture_are_declined():
    assert "within the image" in reason("scipy.signal.medfilt", np.zeros((3, 3000), np.uint8), 5)
    assert reason("scipy.signal.medfilt", np.zeros((100, 3000), np.uint8), 5) == ""


def test_frames_at_every_sample_are_declined():
    pytest.importorskip("librosa")
    assert "frames" in reason("librosa.feature.zero_crossing_rate", picture().ravel(), hop_length=1)


@pytest.mark.parametrize("option", [{"dither": "a"}, {"palette": 1.5}, {"colors": None}, {"dither": np.float32(1)}])
def test_odd_options_of_a_conversion_are_declined(option):
    image = pytest.importorskip("PIL.Image").new("RGB", (100, 100))
    assert reason("PIL.Image.Image.convert", image, "L", **option) == "an odd option"


@pytest.mark.parametrize("option", [{"resample": 2 + 0j}, {"resample": 2.0}, {"expand": np.zeros(2)}])
def test_odd_options_of_a_rotation_are_declined(option):
    image = pytest.importorskip("PIL.Image").new("RGB", (100, 100))
    assert reason("PIL.Image.Image.rotate", image, 10.0, **{"resample": 2, **option}) == "an odd option"


def test_moves_beyond_any_picture_are_declined():
    pytest.importorskip("albumentations")
    made = of("albumentations.augmentations.blur.functional.glass_blur")
    moves = np.ones((10, 1, 2), np.int64)
    assert made.accepts((np.zeros((20, 20), np.uint8), 0.7, 2, 1, moves, "exact"), {})
    assert not made.accepts((np.zeros((20, 20), np.uint8), 0.7, 2**62, 1, moves, "exact"), {})
