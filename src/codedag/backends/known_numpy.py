"""What numpy's functions, ufuncs, array methods and generators do."""

from __future__ import annotations

from typing import Any

from codedag.backends.known_builtins import device
from codedag.backends.known_table import Effect, Table

_PURE = (
    "abs all allclose alltrue amax amin angle any append apply_along_axis argmax argmin argpartition argsort argwhere "
    "around array_equal array_equiv array_split average bartlett base_repr binary_repr bincount blackman block "
    "broadcast_shapes can_cast choose clip column_stack common_type compress concat concatenate convolve copy corrcoef "
    "correlate count_nonzero cov cross cumprod cumsum cumulative_prod cumulative_sum delete diag diagflat diff "
    "digitize dstack ediff1d extract eye fix flatnonzero flip fliplr flipud frombuffer fromiter full full_like "
    "geomspace gradient hamming hanning histogram histogram2d histogram_bin_edges histogramdd hstack i0 identity "
    "indices insert interp intersect1d isclose iscomplex iscomplexobj isin isneginf isposinf isreal isrealobj isscalar "
    "kaiser kron lexsort linspace logspace max mean median meshgrid min min_scalar_type mintypecode nan_to_num "
    "nanargmax nanargmin nancumprod nancumsum nanmax nanmean nanmedian nanmin nanpercentile nanprod nanquantile nanstd "
    "nansum nanvar ndim nonzero ones ones_like outer packbits pad partition percentile piecewise poly polyadd polyder "
    "polyint polymul polysub polyval prod promote_types ptp quantile ravel_multi_index repeat resize result_type roll "
    "roots rot90 round row_stack searchsorted select setdiff1d setxor1d shape sinc size sort sort_complex stack std "
    "sum "
    "take take_along_axis tile trace trapezoid trapz tri tril tril_indices tril_indices_from trim_zeros triu "
    "triu_indices triu_indices_from union1d unique unique_all unique_counts unique_inverse unique_values unpackbits "
    "unravel_index unwrap vander var vstack where zeros zeros_like isdtype issubdtype finfo iinfo array2string "
    "array_repr array_str fromstring iterable ix_ mask_indices nanvar polyfit real_if_close astype permute_dims_copy"
)
#: The result may be, or lie in, an argument.
_VIEWS = (
    "asanyarray asarray ascontiguousarray asarray_chkfinite asfortranarray atleast_1d atleast_2d atleast_3d "
    "broadcast_arrays broadcast_to diagonal expand_dims hsplit vsplit dsplit split array_split imag real "
    "matrix_transpose "
    "moveaxis permute_dims ravel reshape rollaxis squeeze swapaxes transpose diag unstack copyto_view array require "
    "flip fliplr flipud rot90 meshgrid frombuffer unique nan_to_num astype trim_zeros append polyder polyint ix_ "
    "real_if_close einsum"
)
_BLAS = "dot einsum inner matmul tensordot vdot vecdot matvec vecmat convolve correlate cov corrcoef kron polyfit cross"
_CALLS_BACK = "apply_along_axis piecewise fromiter"  # they call what they are given
_LINALG = (
    "cholesky cond det eig eigh eigvals eigvalsh inv lstsq matrix_norm matrix_power matrix_rank multi_dot norm pinv "
    "qr slogdet solve svd svdvals tensorinv tensorsolve trace vector_norm"
)
_FFT = (
    "fft fft2 fftfreq fftn fftshift hfft ifft ifft2 ifftn ifftshift ihfft irfft irfft2 irfftn rfft rfft2 rfftfreq rfftn"
)
# Methods of arrays with the position of `out`, -1 where there is none.
_METHODS = {
    "all": 1, "any": 1, "argmax": 1, "argmin": 1, "argpartition": -1, "argsort": -1, "choose": 1, "clip": 2,
    "compress": 2, "copy": -1, "cumprod": 2, "cumsum": 2, "flatten": -1, "max": 1, "mean": 2, "min": 1, "nonzero": -1,
    "prod": 2, "repeat": -1, "round": 1, "searchsorted": -1, "std": 2, "sum": 2, "take": 2, "tobytes": -1,
    "trace": 4, "var": 2, "item": -1, "tolist": -1, "__copy__": -1, "__deepcopy__": -1,
}  # fmt: skip
_VIEW_METHODS = "reshape transpose ravel view squeeze swapaxes diagonal conj conjugate __array__ newbyteorder"
_INTO = "fill itemset partition put sort setfield setflags __setitem__ __iadd__ __imul__"
_DRAWS = (
    "beta binomial bytes chisquare choice dirichlet exponential f gamma geometric gumbel hypergeometric integers "
    "laplace logistic lognormal logseries multinomial multivariate_hypergeometric multivariate_normal "
    "negative_binomial noncentral_chisquare noncentral_f normal pareto permutation permuted poisson power rand randint "
    "randn random random_integers random_sample rayleigh standard_cauchy standard_exponential standard_gamma "
    "standard_normal standard_t triangular uniform vonmises wald weibull zipf tomaxint"
)
_DRAWS_INTO = {"random": 2, "standard_exponential": 3, "standard_gamma": 3, "standard_normal": 2, "permuted": 2}


def learn(table: Table, numpy: Any) -> None:
    """Adds numpy."""
    _values(table, numpy)
    _functions(table, numpy)
    _ufuncs(table, numpy)
    _array(table, numpy.ndarray)
    table.methods[numpy.memmap] = table.methods[numpy.ndarray]  # an array that is read from its file when looked at


def _values(table: Table, numpy: Any) -> None:
    scalars = {kind for kind in numpy.sctypeDict.values() if kind not in (numpy.object_, numpy.void)}
    table.add_atoms(scalars)
    table.add_atoms({type(numpy.dtype(code)) for code in "?bBhHiIlLqQefdFDgGSUMm"})
    table.atoms.add(type(numpy._NoValue))
    for array in (numpy.ndarray, numpy.memmap):
        table.hold(array, lambda value: not value.dtype.hasobject)
    kept = numpy.ndarray  # np.uint8(array) gives the array itself if it is one already
    for kind in scalars:
        table.functions_of(
            numpy, kind.__name__, outs=(), fresh=lambda args, _: not args or not isinstance(args[0], kept)
        )
        table.methods_of(kind, "item astype round tolist tobytes", outs=())
        table.methods_of(kind, "clip mean sum min max any all", outs=(2, 1, "out"), most=1)


def _functions(table: Table, numpy: Any) -> None:
    table.functions_of(numpy, _PURE)
    table.functions_of(numpy, _VIEWS, fresh=False)
    table.functions_of(numpy, "array", outs=(), fresh=lambda args, keywords: keywords.get("copy", True) is True)
    table.functions_of(numpy, "arange", outs=())
    table.functions_of(numpy, "empty empty_like", outs=(), deterministic=False)
    table.functions_of(numpy, _BLAS, by_threads=True)
    table.functions_of(numpy, "einsum", by_threads=True, fresh=False)
    table.functions_of(numpy, _CALLS_BACK)
    table.functions_of(
        numpy, "copyto put place putmask put_along_axis fill_diagonal", outs=(0, "a", "dst", "arr"), fresh=False
    )
    table.functions_of(numpy, "dtype", outs=())
    table.functions_of(numpy, "load", effect=Effect.READS, outs=(), files=(0, "file"), declines=_load)
    table.functions_of(
        numpy, "fromfile loadtxt genfromtxt", effect=Effect.READS, outs=(), files=(0, "file", "fname"), declines=_load
    )


def _load(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """Files are read from a name, at once, and without running what a pickle says."""
    if len(args) > 1 or set(keywords) & {"mmap_mode", "allow_pickle", "converters"}:
        return "it may map the file or run code in it"
    name = args[0] if args else keywords.get("file", keywords.get("fname"))
    if str(name).endswith(".npz"):
        return "an archive is read later"
    return device(name) if type(name).__module__ in ("builtins", "pathlib") and type(name) is not list else "not a name"


def _ufuncs(table: Table, numpy: Any) -> None:
    for name in tuple(vars(numpy)):  # another thread may load more of it
        ufunc: Any = getattr(numpy, name, None) if not name.startswith("_") else None
        if type(ufunc) is numpy.ufunc:
            outs = (*range(ufunc.nin, ufunc.nin + ufunc.nout), "out")
            sums = name in _BLAS.split()
            table.functions_of(numpy, name, outs=outs, declines=_has_holes, by_threads=sums)
            _ufunc_methods(table, ufunc, name)
    table.hold(numpy.ufunc)


def _ufunc_methods(table: Table, ufunc: Any, name: str) -> None:
    # a ufunc's methods are bound to it: reduce(array, axis, dtype, out), reduceat(array, indices, axis, dtype, out)
    rows = {"reduce": 3, "accumulate": 3, "reduceat": 4, "outer": -1}
    for method, place in rows.items():
        outs = (place, "out") if place > 0 else ("out",)
        table.methods_of(type(ufunc), method, outs=outs, declines=_has_holes)
    table.methods_of(type(ufunc), "at", outs=(0,), fresh=False)


def _has_holes(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    """With `where` and no `out`, the places left out hold whatever was in memory."""
    return "`where` without `out` leaves memory as it was" if "where" in keywords and "out" not in keywords else ""


def _array(table: Table, kind: type) -> None:
    for name, place in _METHODS.items():
        outs = (place, "out") if place >= 0 else ()
        table.methods_of(kind, name, outs=outs, most=place if place >= 0 else 99)
    table.methods_of(
        kind, "astype", outs=(), fresh=lambda args, keywords: len(args) < 6 and keywords.get("copy", True) is True
    )
    table.methods_of(kind, "dot", outs=(1, "out"), most=1, by_threads=True)
    table.methods_of(kind, _VIEW_METHODS, outs=(), fresh=False)
    table.methods_of(kind, _INTO, outs=(), into_self=True, fresh=False)


def learn_linalg(table: Table, linalg: Any) -> None:
    """Adds numpy.linalg, whose sums are ordered by BLAS."""
    table.functions_of(linalg, _LINALG, by_threads=True)
    table.functions_of(linalg, "matrix_power", by_threads=True, fresh=False)


def learn_fft(table: Table, fft: Any) -> None:
    """Adds numpy.fft."""
    table.functions_of(fft, _FFT)


def learn_random(table: Table, random: Any) -> None:
    """Adds numpy's generators; the functions of numpy.random are methods of a hidden one."""
    draws: dict[str, Any] = {"effect": Effect.DRAWS, "stream": lambda owner, keywords: owner}
    for kind in (random.RandomState, random.Generator):
        table.methods_of(kind, _DRAWS, outs=(), **draws)
        table.methods_of(kind, "shuffle", outs=(0, "x"), shallow=True, **draws)
    for name, place in _DRAWS_INTO.items():
        table.methods_of(random.Generator, name, outs=(place, "out"), most=place, **draws)
    seeded = {"outs": (), "declines": _unseeded}
    table.functions_of(random, "default_rng RandomState SeedSequence PCG64 MT19937 Philox SFC64", **seeded)


def _unseeded(args: tuple[Any, ...], keywords: dict[str, Any]) -> str:
    seed = args[0] if args else keywords.get("seed", keywords.get("entropy"))
    return "" if seed is not None else "without a seed it asks the system"
