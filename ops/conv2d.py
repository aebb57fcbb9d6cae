"""Two-dimensional convolution (cross-correlation), NCHW and OIHW, with groups.

y[n, o, i, j] = bias[o] + sum over c, a, b of
    x[n, g C/G + c, i stride + a dilation - padding, j ...] w[o, c, a, b],   g = o div (O / G)

x (N, C, H, W), w (O, C/groups, kh, kw), bias (O,) -> (N, O, H', W') with
H' = (H + 2 padding - dilation (kh - 1) - 1) div stride + 1. stride, padding, dilation: an integer
or a pair (rows, columns). One float dtype (float64, float32, float16, bfloat16); half types
accumulate in float32.

Implementations may use Winograd's F(2x2, 3x3) with its transforms in the accumulator's type: the
error bound covers it. NaN and infinities then spread within a tile: where their place matters, the
direct form is needed (the cases with NaN and infinities are such that Winograd does not apply).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.errors import ParameterError, ShapeError
from portable.op import Bound, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops import _winograd as winograd
from portable.ops._conv2d_cases import cases as cases

NAME, VERSION, OPERANDS = "conv2d", 1, ("x", "w", "bias?")
PARAMS: Mapping[str, Any] = {"stride": 1, "padding": 0, "dilation": 1, "groups": 1}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes and parameters; pairs for stride, padding and dilation."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    complete: dict[str, Any] = {
        name: _pair(name, given[name], least)
        for name, least in (("stride", 1), ("padding", 0), ("dilation", 1))
    }
    groups = complete["groups"] = _positive("groups", given["groups"], 1)
    rules.floats(NAME, specs)
    x, w = specs["x"], specs["w"]
    rules.exactly(NAME, "x", x, 4, "(batch, channels, height, width)")
    rules.exactly(NAME, "w", w, 4, "(out channels, in channels / groups, kernel h, kernel w)")
    _check_channels(x, w, groups)
    if "bias" in specs:
        rules.shape_is(NAME, "bias", specs["bias"], w.shape[:1], "(O,): the filters of w")
    size = tuple(_extent(i, x, w, complete) for i in (0, 1))
    result = TensorSpec((x.shape[0], w.shape[0], *size), x.dtype)
    return rules.problem(NAME, VERSION, OPERANDS, specs, complete, (result,))


def _positive(name: str, value: Any, least: int) -> int:
    number = rules.integer(NAME, name, value)
    if number < least:
        raise ParameterError(f"conv2d: {name} is {number}; it must be at least {least}")
    return number


def _pair(name: str, value: Any, least: int) -> tuple[int, int]:
    if isinstance(value, tuple | list):
        if len(value) != 2:
            raise ParameterError(
                f"conv2d: {name} is {value!r}; it must be an integer or a pair (rows, columns)"
            )
        return _positive(name, value[0], least), _positive(name, value[1], least)
    number = _positive(name, value, least)
    return number, number


def _check_channels(x: TensorSpec, w: TensorSpec, groups: int) -> None:
    channels, filters = x.shape[1], w.shape[0]
    if channels % groups or filters % groups:
        raise ShapeError(
            f"conv2d: groups is {groups}; it must divide the {channels} channels of x {x.shape} "
            f"and the {filters} filters of w {w.shape}"
        )
    if w.shape[1] != channels // groups:
        raise ShapeError(
            f"conv2d: w {w.shape} takes {w.shape[1]} channels (axis 1) but x {x.shape} has "
            f"{channels} in {groups} groups: {channels // groups} each. Layouts are NCHW and OIHW"
        )
    if 0 in w.shape[2:]:
        raise ShapeError(f"conv2d: w {w.shape} has an empty kernel; both extents must be positive")


def _extent(i: int, x: TensorSpec, w: TensorSpec, params: Mapping[str, Any]) -> int:
    padded = x.shape[2 + i] + 2 * params["padding"][i]
    reach = params["dilation"][i] * (w.shape[2 + i] - 1) + 1
    if reach > padded:
        raise ShapeError(
            f"conv2d: the kernel covers {reach} {'rows' if i == 0 else 'columns'} but x {x.shape} "
            f"with padding {params['padding']} has {padded}. Use more padding or less dilation"
        )
    return int((padded - reach) // params["stride"][i] + 1)


def _inside(problem: Problem, i: int) -> int:
    """(output, kernel) positions along an axis that fall on x and not on padding."""
    x, w, y = problem["x"].shape[2 + i], problem["w"].shape[2 + i], problem.results[0].shape[2 + i]
    stride, padding, dilation = (problem.param(n)[i] for n in ("stride", "padding", "dilation"))
    total = 0
    for tap in range(w):
        # Outputs o with 0 <= o stride + tap dilation - padding < x.
        offset = tap * dilation - padding
        first = max(-(offset // stride), 0)
        last = min((x - 1 - offset) // stride, y - 1)
        total += max(last - first + 1, 0)
    return total


def direct_cost(problem: Problem) -> Cost:
    """2 operations per output element, input channel and kernel position that falls on x."""
    y, w = problem.results[0], problem["w"]
    products = y.shape[0] * w.shape[0] * w.shape[1] * _inside(problem, 0) * _inside(problem, 1)
    return _cost(problem, 2.0 * products, 0)


def winograd_cost(problem: Problem) -> Cost:
    """F(2x2, 3x3): 16 products and sums per tile, filter and channel, and the transforms."""
    n, o, height, width = problem.results[0].shape
    channels, per_group = problem["x"].shape[1], problem["w"].shape[1]
    tiles = n * -(-height // 2) * -(-width // 2)
    transforms = (
        tiles * channels * winograd.INPUT_OPERATIONS
        + o * per_group * winograd.FILTER_OPERATIONS
        + tiles * o * winograd.OUTPUT_OPERATIONS
    )
    return _cost(problem, 32.0 * tiles * o * per_group, transforms)


def _cost(problem: Problem, products: float, transforms: int) -> Cost:
    y = problem.results[0]
    vector = transforms + (y.size if "bias" in problem.operands else 0)
    work = [Work("matrix", problem.dtype, products)]
    if vector:
        work.append(Work("vector", dtypes.accumulator(problem.dtype), float(vector)))
    reads = sum(t.touched_bytes for t in problem.tensors) if y.size else 0
    return Cost(tuple(work), reads, y.nbytes)


def cost(problem: Problem) -> Cost:
    """The least of the declared algorithms: direct, and Winograd's F(2x2, 3x3) where it fits.

    A bound must hold for either: it takes the smaller number of products and, when that is
    Winograd's, leaves out its transforms, which run beside the products on another unit. (Larger
    tiles, F(4x4, 3x3), need fewer still; none is declared, since their float32 error is not within
    the bound.)
    """
    direct = direct_cost(problem)
    if not winograd.fits(problem):
        return direct
    products = winograd_cost(problem).work[0].flops
    return _cost(problem, min(direct.work[0].flops, products), 0)


def _convolve(problem: Problem, x: Array, w: Array) -> Array:
    """Direct convolution in float64: one product of matrices per kernel position and group."""
    n, o, height, width = problem.results[0].shape
    (sh, sw), (dh, dw) = problem.param("stride"), problem.param("dilation")
    (ph, pw), groups = problem.param("padding"), problem.param("groups")
    padded = np.pad(x, ((0, 0), (0, 0), (ph, ph), (pw, pw)))
    inputs = padded.reshape(n, groups, w.shape[1], *padded.shape[2:])
    filters = w.reshape(groups, o // groups, *w.shape[1:])
    y = np.zeros((n, groups, o // groups, height, width))
    for a in range(w.shape[2]):
        for b in range(w.shape[3]):
            window = inputs[
                :, :, :,
                a * dh : a * dh + sh * (height - 1) + 1 : sh,
                b * dw : b * dw + sw * (width - 1) + 1 : sw,
            ]  # fmt: skip
            y += np.einsum("ngchw,goc->ngohw", window, filters[..., a, b], optimize=True)
    return y.reshape(n, o, height, width)


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """Direct convolution in float64."""
    x, w, *bias = map(bounds.wide, arrays)
    with np.errstate(all="ignore"):
        y = _convolve(problem, x, w)
        return (y + bias[0][:, None, None] if bias else y,)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """2 sqrt(K) u_acc (|x| * |w|), K = C/G kh kw; where Winograd fits, its |x| * |w| if larger."""
    (y,) = expected
    x, w, *bias = map(bounds.wide, arrays)
    with np.errstate(all="ignore"):
        magnitude = _convolve(problem, np.abs(x), np.abs(w))
        if winograd.fits(problem):
            tiles = winograd.convolve(problem, x, w, magnitude=True)
            magnitude = np.maximum(magnitude, tiles)
        if bias:
            magnitude = magnitude + np.abs(bias[0])[:, None, None]
        if bounds.whole(bounds.u_acc(problem), (x, w, *bias), magnitude, y, problem.dtype):
            return (bounds.EXACT,)
        k = w.shape[1] * w.shape[2] * w.shape[3] + 1
        worst, typical = bounds.product(problem, k, magnitude, y)
    return (bounds.bound(problem.dtype, y, worst, typical),)


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def conv2d(
    x: Any,
    w: Any,
    bias: Any | None = None,
    *,
    stride: int | tuple[int, int] = 1,
    padding: int | tuple[int, int] = 0,
    dilation: int | tuple[int, int] = 1,
    groups: int = 1,
) -> Any:
    """Convolution (cross-correlation) of x (N, C, H, W) with w (O, C/groups, kh, kw) + bias (O,).

    stride, padding, dilation: an integer or a pair (rows, columns); zero padding on both sides ->
    (N, O, H', W'), H' = (H + 2 padding - dilation (kh - 1) - 1) div stride + 1. One float dtype
    (float64, float32, float16, bfloat16; half types accumulate in float32).

    Raises:
        ShapeError: shapes do not fit, or the kernel is larger than the padded input.
        DTypeError: dtypes differ or are not floats.
        ParameterError: stride, padding, dilation or groups of a wrong type or value.
    """
    params = (stride, padding, dilation, groups)
    return call(OP, (x, w, bias), tuple(map(rules.frozen, params)))
