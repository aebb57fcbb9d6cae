"""Scaled dot-product attention: o = softmax(scale q k^T + mask) v.

q (b, h, s, d), k (b, hk, t, d), v (b, hk, t, dv) -> (b, h, s, dv). hk divides h: each key/value
head serves h / hk consecutive query heads (grouped queries). mask broadcasts to (b, h, s, t): bool
(True keeps) or the operands' float dtype (added). causal is aligned to the end: query i sees the
keys j <= i + t - s. scale is 1 / sqrt(d) when not given. A query with no key left is 0 (not NaN).

One float dtype (float64, float32, float16, bfloat16). Half types accumulate and take the softmax
in float32; the weights may be rounded to the dtype before the product with v.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.errors import ShapeError
from portable.op import Bound, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._attention_cases import cases as cases

NAME, VERSION, OPERANDS = "attention", 1, ("q", "k", "v", "mask?")
PARAMS: Mapping[str, Any] = {"causal": False, "scale": None}


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes, the mask, and resolves the scale."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    causal = rules.flag(NAME, "causal", given["causal"])
    q, k, v = (specs[name] for name in ("q", "k", "v"))
    rules.floats(NAME, specs, ("q", "k", "v"))
    for name in ("q", "k", "v"):
        rules.exactly(NAME, name, specs[name], 4, "(batch, heads, sequence, head_dim)")
    _check_shapes(q, k, v)
    scale = given["scale"]
    if scale is None:
        scale = 1 / math.sqrt(q.shape[3]) if q.shape[3] else 1.0
    else:
        scale = rules.real(NAME, "scale", scale)
    if "mask" in specs:
        _check_mask(specs["mask"], q, k)
    result = TensorSpec((*q.shape[:3], v.shape[3]), q.dtype)
    complete = {"causal": causal, "scale": scale}
    return rules.problem(NAME, VERSION, OPERANDS, specs, complete, (result,))


def _check_shapes(q: TensorSpec, k: TensorSpec, v: TensorSpec) -> None:
    if not q.shape[0] == k.shape[0] == v.shape[0]:
        raise ShapeError(
            f"attention: batch sizes differ: q {q.shape}, k {k.shape}, v {v.shape}; axis 0 must be "
            f"the same (broadcast k and v with numpy.broadcast_to or .expand)"
        )
    if q.shape[3] != k.shape[3]:
        raise ShapeError(
            f"attention: head_dim of q {q.shape} is {q.shape[3]} and of k {k.shape} {k.shape[3]}; "
            f"the last axes must be equal"
        )
    if k.shape[1:3] != v.shape[1:3]:
        raise ShapeError(
            f"attention: k {k.shape} and v {v.shape} must have the same heads and sequence length "
            f"(axes 1 and 2)"
        )
    heads, shared = q.shape[1], k.shape[1]
    if heads != shared and (shared == 0 or heads % shared):
        raise ShapeError(
            f"attention: q has {heads} heads and k, v have {shared}; the number of key/value heads "
            f"must divide the number of query heads. Are the axes (batch, heads, sequence, "
            f"head_dim)?"
        )


def _check_mask(mask: TensorSpec, q: TensorSpec, k: TensorSpec) -> None:
    rules.dtype_in(NAME, "mask", mask, ("bool", q.dtype))
    full = (*q.shape[:3], k.shape[2])
    if not rules.broadcastable(mask.shape, full):
        raise ShapeError(
            f"attention: mask has shape {mask.shape}; it must broadcast to (batch, heads, queries, "
            f"keys) = {full}"
        )


def pairs(problem: Problem) -> int:
    """Query-key pairs that causality leaves, per batch and head."""
    s, t = problem["q"].shape[2], problem["k"].shape[2]
    if not problem.param("causal"):
        return s * t
    # Query i sees min(t, i + t - s + 1) keys, none when that is negative.
    blind = max(s - t, 0)
    first = max(t - s, 0) + 1
    return sum_of(first, s - blind)


def sum_of(first: int, count: int) -> int:
    """first + (first + 1) + ..., `count` terms."""
    return count * first + count * (count - 1) // 2


def cost(problem: Problem) -> Cost:
    """2 (d + dv) matrix operations per pair that is not masked by causality, and its softmax."""
    q, k, v = problem["q"], problem["k"], problem["v"]
    b, h, s, d = q.shape
    t, dv = k.shape[2], v.shape[3]
    left = b * h * pairs(problem)
    unit = dtypes.accumulator(q.dtype)
    # Per pair: max, subtract (scale in the same multiply-add: 2), add, one exp; a float mask one
    # more. Per result element one scaling, per query one reciprocal. What a mask operand leaves
    # depends on its values, which a problem does not know: it is not subtracted.
    mask = problem.get("mask")
    per_pair = 4 + (mask is not None and mask.dtype != "bool")
    work = (
        Work("matrix", q.dtype, 2.0 * left * (d + dv)),
        Work("vector", unit, float(per_pair * left + b * h * s * dv)),
        Work("special", unit, float(left + b * h * s)),
    )
    # Causal queries before the first key see nothing and are not read. Every key is seen by the
    # last query.
    seen = s - max(s - t, 0) if problem.param("causal") else s
    reads = q.touched_bytes * seen // s if s else 0
    if left:
        reads += k.touched_bytes + v.touched_bytes + (mask.touched_bytes if mask else 0)
    return Cost(work, reads if left else 0, problem.results[0].nbytes)


def _weights(problem: Problem, given: Mapping[str, Array]) -> tuple[Array, Array, Array]:
    """In float64, (b, hk, group, s, t): scores, softmax weights, |q| |k|^T scale."""
    q, k = given["q"], given["k"]
    b, h, s, d = q.shape
    hk, t = k.shape[1], k.shape[2]
    grouped = q.reshape(b, hk, h // hk if hk else 0, s, d)
    keys = k.swapaxes(-1, -2)[:, :, None]
    scale = problem.param("scale")
    scores = np.matmul(grouped, keys) * scale
    size = np.matmul(np.abs(grouped), np.abs(keys)) * abs(scale)
    if "mask" in given:
        mask = np.broadcast_to(given["mask"], (b, h, s, t)).reshape(scores.shape)
        if mask.dtype == np.bool_:
            scores = np.where(mask, scores, -np.inf)
        else:
            scores, size = scores + mask, size + np.where(np.isfinite(mask), np.abs(mask), 0)
    if problem.param("causal"):
        keep = np.arange(t) <= np.arange(s)[:, None] + (t - s)
        scores = np.where(keep, scores, -np.inf)
    top = np.max(scores, axis=-1, keepdims=True, initial=-np.inf)
    e = np.exp(scores - np.where(np.isneginf(top), 0.0, top))
    total = np.sum(e, axis=-1, keepdims=True)
    return scores, np.where(total == 0, 0.0, e / np.where(total == 0, 1.0, total)), size


def _given(problem: Problem, arrays: Sequence[Array]) -> dict[str, Array]:
    named = dict(zip(problem.operands, arrays, strict=True))
    return {n: a if a.dtype == np.bool_ else bounds.wide(a) for n, a in named.items()}


def _times_v(weights: Array, v: Array) -> Array:
    """weights (b, hk, group, s, t) @ v (b, hk, t, dv) -> (b, h, s, dv)."""
    b, hk, group, s, _ = weights.shape
    # A masked key counts nothing, also when its value is NaN or infinite.
    values = v[:, :, None]
    product = np.matmul(weights, np.where(np.isfinite(values), values, 0.0))
    if not np.all(np.isfinite(v)):
        product = product + _special(weights, values)
    return np.asarray(product.reshape(b, hk * group, s, v.shape[-1]))


def _special(weights: Array, values: Array) -> Array:
    """NaN and infinities of v that carry weight: inf, -inf, NaN, or 0 where there are none."""
    used = (weights > 0) | np.isnan(weights)
    plus = np.matmul(used, np.isposinf(values))
    minus = np.matmul(used, np.isneginf(values))
    nan = np.matmul(used, np.isnan(values)) | (plus & minus)
    return np.where(nan, np.nan, np.where(plus, np.inf, np.where(minus, -np.inf, 0.0)))


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64; all scores at once."""
    given = _given(problem, arrays)
    if not (problem.results[0].size and problem["k"].shape[2]):
        return (np.zeros(problem.results[0].shape),)
    with np.errstate(all="ignore"):
        return (_times_v(_weights(problem, given)[1], given["v"]),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """Errors of the scores through the softmax, of the softmax, and of both products.

    A score is off by e = 2 sqrt(d) u scale |q||k|; a weight by e + sum(p e) + (8 + 2 sqrt(t) +
    3 |s - max|) u relative to itself; the result by the weights' errors times |v| and the second
    sum, at most by twice the largest |v|. Half types: weights rounded to the dtype.
    """
    (o,) = expected
    given = _given(problem, arrays)
    d, t = problem["k"].shape[3], problem["k"].shape[2]
    if not (o.size and t):
        return (bounds.bound(problem.dtype, o, 0.0),)
    u = bounds.u_acc(problem)
    with np.errstate(all="ignore"):
        scores, p, size = _weights(problem, given)
        used = p > 0
        off, _ = bounds.product(problem, d, size, np.zeros_like(size))
        off = off + 2 * u * np.where(used, np.abs(scores), 0.0)
        depth = np.where(used, np.max(scores, axis=-1, keepdims=True) - scores, 0.0)
        p = np.where(used, p, 0.0)
        common = np.sum(p * off, axis=-1, keepdims=True)
        relative = np.where(used, off, 0.0) + common + (8 + 2 * math.sqrt(t) + 3 * depth) * u
        absolute = np.abs(np.where(np.isfinite(given["v"]), given["v"], 0.0))
        averaged = _times_v(p, absolute)
        worst = _times_v(p * relative, absolute)
        typical = worst / 4
        second, _ = bounds.product(problem, t, averaged, o)
        worst, typical = worst + second, typical + second / 4
        largest = np.max(absolute, axis=2, keepdims=True)
        group = o.shape[1] // absolute.shape[1]
        cap = 2 * np.repeat(largest, group, axis=1)
        stages = [] if dtypes.accumulator(problem.dtype) == problem.dtype else [averaged]
        return (
            bounds.bound(
                problem.dtype, o, np.minimum(worst, cap), np.minimum(typical, cap), stages
            ),
        )


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def attention(
    q: Any,
    k: Any,
    v: Any,
    *,
    mask: Any | None = None,
    causal: bool = False,
    scale: float | None = None,
) -> Any:
    """o = softmax(scale q k^T + mask) v.

    q (b, h, s, d), k (b, hk, t, d), v (b, hk, t, dv) -> (b, h, s, dv); hk divides h (grouped
    queries). mask broadcasts to (b, h, s, t): bool (True keeps) or float (added). causal is aligned
    to the end: query i sees keys j <= i + t - s. scale: 1 / sqrt(d) by default. A query with no key
    is 0. One float dtype (float64, float32, float16, bfloat16).

    Raises:
        ShapeError: shapes do not fit.
        DTypeError: dtypes differ, are not floats, or the mask is neither bool nor that dtype.
        ParameterError: causal is not a bool, or scale not a finite number.
    """
    return call(OP, (q, k, v, mask), (causal, scale))
