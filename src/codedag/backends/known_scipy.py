"""What scipy's and scikit-image's functions do that take arrays and give arrays."""

from __future__ import annotations

from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Table

_NDIMAGE = (
    "affine_transform binary_closing binary_dilation binary_erosion binary_fill_holes binary_hit_or_miss "
    "binary_opening "
    "binary_propagation black_tophat center_of_mass convolve convolve1d correlate correlate1d distance_transform_bf "
    "distance_transform_cdt distance_transform_edt extrema find_objects fourier_ellipsoid fourier_gaussian "
    "fourier_shift "
    "fourier_uniform gaussian_filter gaussian_filter1d gaussian_gradient_magnitude gaussian_laplace "
    "generate_binary_structure grey_closing grey_dilation grey_erosion grey_opening histogram iterate_structure label "
    "laplace map_coordinates maximum maximum_filter maximum_filter1d maximum_position mean median median_filter "
    "minimum minimum_filter minimum_filter1d minimum_position morphological_gradient morphological_laplace "
    "percentile_filter prewitt rank_filter rotate shift sobel spline_filter spline_filter1d standard_deviation sum "
    "sum_labels uniform_filter uniform_filter1d value_indices variance watershed_ift white_tophat zoom"
)
#: Sums of products go through BLAS, filters are designed by solving systems.
_SIGNAL = (
    "butter cheby1 cheby2 convolve convolve2d correlate correlate2d decimate deconvolve detrend ellip filtfilt firwin "
    "freqz iirfilter lfilter_zi savgol_coeffs savgol_filter sosfiltfilt"
)
_SIGNAL_ALONE = (
    "argrelextrema argrelmax argrelmin fftconvolve find_peaks hilbert lfilter medfilt medfilt2d oaconvolve "
    "peak_prominences peak_widths periodogram resample resample_poly sosfilt spectrogram stft istft upfirdn welch "
    "wiener chirp gausspulse sawtooth square"
)
_FFT = (
    "dct dctn dst dstn fft fft2 fftfreq fftn fftshift hfft idct idctn idst ifft ifft2 ifftn ifftshift irfft irfft2 "
    "irfftn next_fast_len rfft rfft2 rfftfreq rfftn"
)
_SKIMAGE = {
    "color": "rgb2gray gray2rgb rgb2hsv hsv2rgb rgb2lab lab2rgb rgb2yuv yuv2rgb rgb2xyz xyz2rgb rgb2ycbcr rgb2hed "
    "hed2rgb "
    "rgba2rgb label2rgb",
    "exposure": "adjust_gamma adjust_log adjust_sigmoid cumulative_distribution equalize_adapthist equalize_hist "
    "histogram is_low_contrast match_histograms rescale_intensity",
    "filters": "difference_of_gaussians farid frangi gabor gaussian hessian hybrid laplace median meijering prewitt "
    "roberts sato scharr sobel sobel_h sobel_v threshold_isodata threshold_li threshold_local threshold_mean "
    "threshold_minimum threshold_multiotsu threshold_niblack threshold_otsu threshold_sauvola threshold_triangle "
    "threshold_yen unsharp_mask window apply_hysteresis_threshold butterworth",
    "measure": "block_reduce blur_effect find_contours label moments moments_central moments_hu moments_normalized "
    "perimeter profile_line shannon_entropy euler_number",
    "morphology": "area_closing area_opening ball black_tophat closing convex_hull_image cube diamond dilation disk "
    "ellipse erosion footprint_rectangle opening rectangle reconstruction remove_small_holes remove_small_objects "
    "skeletonize square star thin white_tophat binary_closing binary_dilation binary_erosion binary_opening",
    "restoration": "denoise_bilateral denoise_nl_means denoise_tv_chambolle estimate_sigma wiener richardson_lucy",
    "transform": "downscale_local_mean hough_line integral_image rescale resize resize_local_mean rotate swirl "
    "warp_polar "
    "pyramid_expand pyramid_reduce radon",
    "util": "crop invert montage",
    "feature": "canny corner_harris hog local_binary_pattern peak_local_max graycomatrix graycoprops",
    "segmentation": "clear_border find_boundaries mark_boundaries watershed felzenszwalb expand_labels "
    "relabel_sequential",
}


def learn_ndimage(table: Table, module: Any) -> None:
    """Adds scipy.ndimage: results are new arrays unless `output` is an array."""
    table.functions_of(module, _NDIMAGE, declines=_filled)


def _filled(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """The distance transforms can write into two arrays more."""
    given = keywords.get("distances") is not None or keywords.get("indices") is not None
    return "it is given arrays for distances or indices" if given or len(args) > 6 else ""


def learn_signal(table: Table, module: Any) -> None:
    """Adds scipy.signal."""
    table.functions_of(module, _SIGNAL, outs=(), fresh=False, by_threads=True)
    table.functions_of(module, _SIGNAL_ALONE, outs=(), fresh=False)


def learn_fft(table: Table, module: Any) -> None:
    """Adds scipy.fft; `workers` changes nothing but the time."""
    table.functions_of(module, _FFT, outs=(), declines=_overwrites)


def learn_wavfile(table: Table, module: Any) -> None:
    """Adds scipy.io.wavfile: sound is read at once, from the name of a file."""
    table.functions_of(module, "read", effect=Effect.READS, outs=(), files=(0, "filename"), declines=_sound_file)


def _sound_file(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    if len(args) > 1 or keywords.get("mmap"):
        return "it may map the file"
    name = args[0] if args else keywords.get("filename")
    return device(name) if type(name).__module__ in ("builtins", "pathlib") else "it is given an open file"


def _overwrites(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    return "it may overwrite its input" if keywords.get("overwrite_x") or len(args) > 4 else ""


def _image_file(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    name = args[0] if args else keywords.get("fname", keywords.get("uri"))
    if type(name).__module__ not in ("builtins", "pathlib") or "://" in str(name):
        return "it is not given the name of a file"
    return device(name)


#: Some of scikit-image gives its input back if it fits.
_FACTS: dict[str, Any] = {"outs": ("out", "output"), "fresh": False}
_READS: dict[str, Any] = {"effect": Effect.READS, "outs": (), "files": (0, "fname", "uri"), "declines": _image_file}
#: Parts that multiply matrices or solve systems.
_THREADED = frozenset({"color", "filters", "measure", "restoration", "feature"})
PACKAGES: dict[str, tuple[str, dict[str, Any]]] = {
    "skimage.io": ("imread", _READS | {"one_at_a_time": True}),  # it changes the filters of warnings
    "imageio.v3": ("imread", _READS),
    "skimage.morphology.misc": ("remove_small_holes remove_small_objects", _FACTS | {"one_at_a_time": True}),
    "skimage.morphology.binary": ("binary_closing binary_opening", _FACTS | {"one_at_a_time": True}),
    "skimage.filters.thresholding": (
        "threshold_isodata threshold_li threshold_mean threshold_minimum threshold_otsu threshold_triangle "
        "threshold_yen",
        _FACTS,
    ),
    "skimage._shared.filters": ("gaussian", _FACTS),
    **{f"skimage.{part}": (names, _FACTS | {"by_threads": part in _THREADED}) for part, names in _SKIMAGE.items()},
}
