"""How long a candidate will take, from evidence: exact record, neighbours, kin, roofline.

Every piece of evidence is a *slowdown*: measured time over the roofline model's time of the
machine it was measured on, as a base-2 logarithm. Slowdowns are interpolated in shape space and
multiplied by this device's model, so that a record of a kindred machine still tells something.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from portable.op import Problem

EXACT, NEIGHBOUR, KIN, ROOFLINE = "exact record", "neighbours", "same kind of device", "roofline"

UNMEASURED_SLOWDOWN = 3.3
"""log2 of the slowdown assumed for a candidate nobody has measured: a tenth of the roof. Low on
purpose: an unknown implementation must be measured (tune, bench, calibrate) before it displaces a
known one."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement, as evidence.

    Attributes:
        features: position in shape space, see `features`.
        traits: what must agree for full weight (layouts, activation, mask ...).
        slowdown: log2(measured time / model time on the machine of the measurement).
        distance: how far away the machine is: 0 here, more on kin.
        source: for people: "3 records here", "prior: AMD Zen 5, 2 cores".
        problem: the measured problem.
        time: measured median [s].
        spread: relative spread of the samples.
    """

    features: tuple[float, ...]
    traits: tuple[Any, ...]
    slowdown: float
    distance: float
    source: str
    problem: Problem
    time: float
    spread: float


@dataclass(frozen=True, slots=True)
class Estimate:
    """Expected time of a candidate on a problem.

    Attributes:
        time: [s], conversions included.
        error: expected relative error, one sigma, as a factor minus one (0.2: +-20 %).
        basis: the rung of the ladder.
        evidence: for people.
    """

    time: float
    error: float
    basis: str
    evidence: str


@functools.lru_cache(maxsize=4096)
def features(problem: Problem) -> tuple[float, ...]:
    """Position of a problem in shape space: log2 of the sizes that shape its speed.

    Matrix products: batch, m, n, k. Attention: batch x heads, queries, keys, head size. All
    others: independent rows, and elements per row.
    """
    if problem.op in ("matmul", "linear", "quantized_matmul"):
        a, b = problem.tensors[0], problem.tensors[1]
        k = a.shape[-1]
        n = b.shape[-1] if b.ndim > 1 else 1
        m = a.shape[-2] if a.ndim > 1 else 1
        out = max(math.prod(r.size for r in problem.results), 1)
        batch = max(out // max(m * n, 1), 1)
        if b.ndim <= 2:
            m, batch = m * batch, 1  # leading axes of a fold into its rows
        return _log2((batch, m, n, k))
    if problem.op == "attention":
        q, k_spec = problem.tensors[0], problem.tensors[1]
        return _log2((q.shape[0] * q.shape[1], q.shape[2], k_spec.shape[2], q.shape[3]))
    if problem.op == "conv2d":
        x, w, y = problem.tensors[0], problem.tensors[1], problem.results[0]
        rows = y.shape[0] * y.shape[2] * y.shape[3]
        return _log2((rows, w.shape[0], math.prod(w.shape[1:]), x.shape[1]))
    first = problem.tensors[0]
    inner = _inner(problem)
    return _log2((max(first.size, 1) // max(inner, 1), inner))


def _inner(problem: Problem) -> int:
    first = problem.tensors[0]
    if not first.shape:
        return 1
    axis = dict(problem.params).get("axis", first.ndim - 1)
    axes = axis if isinstance(axis, tuple) else (axis,)
    if axes == (None,):
        return first.size
    return math.prod(first.shape[a] for a in axes) or 1


def _log2(sizes: Iterable[int]) -> tuple[float, ...]:
    return tuple(math.log2(max(size, 1)) for size in sizes)


@functools.lru_cache(maxsize=4096)
def traits(problem: Problem) -> tuple[Any, ...]:
    """What else shapes speed: which operands are there, layout classes, parameters but scales."""
    params = tuple(
        (k, _axis_trait(problem, v) if k == "axis" else v)
        for k, v in problem.params
        if k not in ("scale", "eps")
    )
    return (problem.operands, tuple(t.layout for t in problem.tensors), params)


def _axis_trait(problem: Problem, axis: Any) -> Any:
    last = problem.tensors[0].ndim - 1
    axes = axis if isinstance(axis, tuple) else (axis,)
    return "last" if last in axes else "other"


def interpolate(points: Sequence[Point], problem: Problem) -> tuple[float, float, Point]:
    """Slowdown [log2] at a problem by inverse-distance weights, its error, and the nearest point.

    The error is the points' own leave-one-out error, or the distance to the nearest one where
    that is larger.
    """
    weighted = [(_weight(p, problem), p) for p in points]
    total = sum(w for w, _ in weighted)
    value = sum(w * p.slowdown for w, p in weighted) / total
    variance = sum(w * (p.slowdown - value) ** 2 for w, p in weighted) / total
    nearest = max(weighted, key=lambda pair: pair[0])[1]
    gap = math.dist(nearest.features, features(problem)) + nearest.distance
    error = math.sqrt(variance + (0.08 * gap) ** 2)
    return value, error, nearest


def _weight(point: Point, problem: Problem) -> float:
    here = features(problem)
    squared = sum((x - y) ** 2 for x, y in zip(point.features, here, strict=True))
    squared += point.distance**2
    if point.traits != traits(problem):
        squared += _traits_apart(point.traits, traits(problem))
    return 1.0 / (0.02 + squared) ** 2


def _traits_apart(one: tuple[Any, ...], other: tuple[Any, ...]) -> float:
    """Squared distance of unlike traits: a layout weighs like a factor of four in size."""
    return sum(4.0 if index == 1 else 1.0 for index in range(3) if one[index] != other[index])


def estimate(points: Sequence[Point], problem: Problem, model_time: float) -> Estimate:
    """Expected time [s] of a candidate from its points, by the first rung that holds."""
    exact = [p for p in points if p.distance == 0 and p.problem == problem]
    if exact:
        best = min(exact, key=lambda p: p.time)
        return Estimate(best.time, max(best.spread, 0.01), EXACT, best.source)
    if not points:
        return Estimate(
            model_time * 2.0**UNMEASURED_SLOWDOWN, 3.0, ROOFLINE,
            "never measured: assumed at a tenth of the roof",
        )  # fmt: skip
    value, error, nearest = interpolate(points, problem)
    basis = NEIGHBOUR if nearest.distance == 0 else KIN
    evidence = f"{len(points)} measurements, nearest {nearest.problem} ({nearest.source})"
    return Estimate(model_time * 2.0**value, 2.0**error - 1.0, basis, evidence)
