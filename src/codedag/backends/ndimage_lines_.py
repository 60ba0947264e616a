"""Substitutions from scipy.ndimage: weighted sums along axes, in scipy's own order of sums, several at once."""

from __future__ import annotations

import random
from typing import Any

import numpy as np

from codedag.backends import ndimage_float_calls as samples
from codedag.backends.lines import MODES, Array, blurred, correlated, filterable
from codedag.backends.reasons import answer, is_number, left_out, numbers
from codedag.backends.registry import EXACT, Call, substitutes
from codedag.ir.verdict import Verdict

SCIPY = "scipy>=1.15,<1.18"  # its order of sums; another release may change it
LEAST = 2048
LONGEST = 255  # weights


@substitutes("scipy.ndimage.gaussian_filter", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def gaussian_filter(
    input: Any,  # noqa: A002 - the source's own name
    sigma: Any,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    *,
    radius: Any = None,
    axes: Any = None,
) -> Array:
    """The array blurred along all axes."""
    return blurred(input, _each(sigma, input.ndim), _each(order, input.ndim), mode, cval, truncate)


@substitutes("scipy.ndimage.gaussian_filter1d", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def gaussian_filter1d(
    input: Any,  # noqa: A002
    sigma: Any,
    axis: Any = -1,
    order: Any = 0,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    truncate: Any = 4.0,
    *,
    radius: Any = None,
) -> Array:
    """The array blurred along one axis."""
    sigmas = [0.0] * input.ndim
    sigmas[axis] = sigma
    return blurred(input, sigmas, [order] * input.ndim, mode, cval, truncate)


@gaussian_filter.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 2048 elements on, bytes for order 0; orders 0 to 3, plain sigmas."""
    reason = left_out(call, ("output", "radius", "axes")) or _border(call) or _orders(call)
    return answer(reason or filterable(call.input, _codes(call), LEAST) or _sigmas(call, call.input.ndim))


@gaussian_filter1d.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 2048 elements on, bytes for order 0; orders 0 to 3, a plain sigma."""
    reason = left_out(call, ("output", "radius")) or _border(call) or _orders(call)
    reason = reason or filterable(call.input, _codes(call), LEAST)
    reason = reason or _axis(call) or _sigmas(call, 1)
    single = is_number(call.sigma) and type(call.order) is int
    return answer(reason or ("" if single and call.sigma > 0.01 else "a sigma of 0, or several"))


def _each(value: Any, count: int) -> list[Any]:
    return list(value) if isinstance(value, (tuple, list)) else [value] * count


def _codes(call: Any) -> str:
    return "fdB" if call.order == 0 else "fd"


def _border(call: Any) -> str:
    if type(call.mode) is not str or call.mode not in MODES:
        return "a border that is not known"
    return "" if is_number(call.cval) and abs(call.cval) < 256 else "cval is not a small plain number"


def _orders(call: Any) -> str:
    plain = all(type(order) is int and 0 <= order <= 3 for order in _each(call.order, 1))
    return "" if plain and is_number(call.truncate) and 0.5 <= call.truncate <= 10 else "an odd order or truncate"


def _axis(call: Any) -> str:
    known = type(call.axis) is int and -call.input.ndim <= call.axis < call.input.ndim
    return "" if known and type(call.order) is int else "not an axis of the array"


def _sigmas(call: Any, count: int) -> str:
    sigmas, orders = _each(call.sigma, count), _each(call.order, count)
    if len(sigmas) != count or len(orders) != count or not all(map(is_number, sigmas)):
        return "not one plain sigma and order for each axis"
    return "" if all(sigma >= 0 and sigma * call.truncate < LONGEST // 2 for sigma in sigmas) else "an odd sigma"


@gaussian_filter.calls
def _(rng: random.Random) -> Call:
    return samples.gaussian(rng, ("input", "sigma", "order", "output", "mode", "cval", "truncate"))


@gaussian_filter1d.calls
def _(rng: random.Random) -> Call:
    return samples.gaussian(rng, ("input", "sigma", "axis", "order", "output", "mode", "cval", "truncate"))


@substitutes("scipy.ndimage.gaussian_laplace", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def gaussian_laplace(
    input: Any,  # noqa: A002
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Array:
    """The sum of the second derivatives of the blurred array."""
    return _summed(_derived(input, sigma, 2, mode, cval))


@substitutes("scipy.ndimage.gaussian_gradient_magnitude", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def gaussian_gradient_magnitude(
    input: Any,  # noqa: A002
    sigma: Any,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
    **kwargs: Any,
) -> Array:
    """The length of the gradient of the blurred array."""
    total = _summed([np.multiply(slope, slope, slope) for slope in _derived(input, sigma, 1, mode, cval)])
    return np.sqrt(total, total)


def _derived(values: Array, sigma: Any, order: int, mode: str, cval: float) -> list[Array]:
    """The derivatives of the blurred array along each axis."""
    axes, sigmas = range(values.ndim), _each(sigma, values.ndim)
    along = [[order if axis == other else 0 for other in axes] for axis in axes]
    return [blurred(values, sigmas, orders, mode, cval, 4.0) for orders in along]


def _summed(parts: list[Array]) -> Array:
    total = parts[0]
    for part in parts[1:]:
        total += part
    return total


@gaussian_laplace.guard
@gaussian_gradient_magnitude.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 2048 elements on, plain sigmas, no further options."""
    reason = left_out(call, ("output", "axes")) or _border(call) or filterable(call.input, "fd", LEAST)
    if reason or call.kwargs:
        return answer(reason or "further options")
    sigmas = _each(call.sigma, call.input.ndim)
    plain = len(sigmas) == call.input.ndim and all(is_number(sigma) and 0.1 <= sigma < 30 for sigma in sigmas)
    return answer("" if plain else "an odd sigma")


@gaussian_laplace.calls
@gaussian_gradient_magnitude.calls
def _(rng: random.Random) -> Call:
    return samples.gaussian(rng, ("input", "sigma", "output", "mode", "cval"))


@substitutes("scipy.ndimage.laplace", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def laplace(
    input: Any,  # noqa: A002
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    *,
    axes: Any = None,
) -> Array:
    """The sum of the second differences."""
    return _summed([correlated(input, (1.0, -2.0, 1.0), axis, mode, cval) for axis in range(input.ndim)])


@laplace.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 2048 elements on."""
    return answer(left_out(call, ("output", "axes")) or _border(call) or filterable(call.input, "fd", LEAST))


@laplace.calls
def _(rng: random.Random) -> Call:
    return samples.gaussian(rng, ("input", "output", "mode", "cval"))


@substitutes("scipy.ndimage.correlate1d", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def correlate1d(
    input: Any,  # noqa: A002
    weights: Any,
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
) -> Array:
    """The sums of the neighbours along one axis, each times its weight."""
    return correlated(input, tuple(np.asarray(weights, np.float64).tolist()), axis % input.ndim, mode, cval)


@substitutes("scipy.ndimage.convolve1d", into="codedag", gives=EXACT, needs=SCIPY, source_needs=SCIPY)
def convolve1d(
    input: Any,  # noqa: A002
    weights: Any,
    axis: Any = -1,
    output: Any = None,
    mode: Any = "reflect",
    cval: Any = 0.0,
    origin: Any = 0,
) -> Array:
    """The convolution along one axis: the correlation with the weights turned round."""
    turned = np.asarray(weights, np.float64)[::-1]
    return correlated(input, tuple(turned.tolist()), axis % input.ndim, mode, cval)


@correlate1d.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 2048 elements on, up to 255 plain weights, no origin."""
    return answer(_weighted(call))


@convolve1d.guard
def _(call: Any) -> Verdict:
    """Plain arrays of finite floats from 2048 elements on, an odd number of up to 255 plain weights, no origin."""
    return answer(_weighted(call) or ("" if len(call.weights) & 1 else "an even number of weights"))


def _weighted(call: Any) -> str:
    if not numbers(call.weights, LONGEST) or max(map(abs, call.weights)) > 1e6:
        return "not a few plain weights"
    if type(call.origin) is not int or call.origin:
        return "an origin is given"
    reason = left_out(call, ("output",)) or _border(call) or filterable(call.input, "fd", LEAST)
    known = not reason and type(call.axis) is int and -call.input.ndim <= call.axis < call.input.ndim
    return reason or ("" if known else "not an axis of the array")


@correlate1d.calls
@convolve1d.calls
def _(rng: random.Random) -> Call:
    return samples.weighted_sums(rng)
