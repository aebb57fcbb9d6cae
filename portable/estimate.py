"""How long a candidate will take, from evidence: exact record, neighbours, kin, roofline.

Every piece of evidence is a *slowdown*: measured time over the roofline model's time of the
machine it was measured on, as a base-2 logarithm. Slowdowns are interpolated in shape space and
multiplied by this device's model, so that a record of a kindred machine still tells something.

Two layers: the surface of the kin (shipped priors, other machines, stale records) and, on top of
it, what this machine's own records differ from it. A few local records thus shift the level of a
candidate everywhere, and its shape near them.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any

from portable.op import Problem

EXACT, NEIGHBOUR, KIN = "exact record", "neighbours", "same kind of device"
EFFICIENCY, ROOFLINE = "learned efficiency", "roofline"

UNMEASURED_SLOWDOWN = 3.3
"""log2 of the slowdown assumed for a candidate nobody has measured: a tenth of the roof. Low on
purpose: an unknown implementation must be measured (tune, bench, calibrate) before it displaces a
known one."""

OTHER_DTYPE = 1.0
"""log2 of the extra slowdown assumed for a dtype that only other dtypes' records speak of."""

WORST_ERROR = 2.0
"""log2 of the error of a guess without evidence; no evidence is worse than none."""

NEAR = 0.02
"""Squared distance at which a point's weight stops growing: a tenth of a factor of two."""

PRIOR_WEIGHT = 1.0 / (NEAR + 1.5**2) ** 2
"""Weight of the common offset against local records: that of a record 1.5 factors of two away."""

TYPICAL_RESIDUAL = 0.5
"""log2 of what a local record usually differs by from what kin says of it; one whose own noise is
as large counts half, however near it is."""

ONE_SAMPLE = 0.5
"""log2 of the error of a single sample, on a machine that may have been busy."""

GAP_ERROR = 0.45
"""log2 of error that each factor of two of distance to the nearest point adds; from leaving one
record out (`python -m bench.leave_one_out`)."""


@dataclass(frozen=True, slots=True)
class Point:
    """One measurement, as evidence.

    Attributes:
        features: position in shape space, see `features`.
        traits: what must agree for full weight (layouts, activation, mask ...).
        slowdown: log2(measured time / model time on the machine of the measurement).
        distance: how far away the machine is: 0 here and now, more for stale records and kin.
        source: for people: "measured here 2026-01-31", "prior: AMD Zen 5, 2 cores".
        problem: the measured problem.
        time: measured time [s].
        spread: relative spread of the samples.
        samples: how many there are.
    """

    features: tuple[float, ...]
    traits: tuple[Any, ...]
    slowdown: float
    distance: float
    source: str
    problem: Problem
    time: float
    spread: float
    samples: int = 1

    @property
    def noise(self) -> float:
        """log2 of the measurement's own error, one sigma."""
        return max(math.log2(1 + self.spread) / math.sqrt(self.samples), ONE_SAMPLE / self.samples)

    @property
    def trust(self) -> float:
        """Weight against a measurement without noise, 0 to 1."""
        return TYPICAL_RESIDUAL**2 / (TYPICAL_RESIDUAL**2 + self.noise**2)


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

    @property
    def cautious(self) -> float:
        """Mean of the log-normal whose median is `time` [s]: what an uncertain candidate costs on
        average, so that a known one is not left for a guess that is hardly better."""
        return self.time * math.exp(0.5 * math.log1p(self.error) ** 2)


@functools.lru_cache(maxsize=4096)
def features(problem: Problem) -> tuple[float, ...]:
    """Position of a problem in shape space: log2 of the sizes that shape its speed.

    Matrix products: batch, m, n, k. Attention: batch x heads, queries, keys, head size.
    Convolutions: as the product they are, and their kind. All others: independent rows, and
    elements per row.
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
        sizes = _log2((rows, w.shape[0], math.prod(w.shape[1:]), x.shape[1]))
        return (*sizes, _conv_kind(problem))
    first = problem.tensors[0]
    inner = _inner(problem)
    return _log2((max(first.size, 1) // max(inner, 1), inner))


def _conv_kind(problem: Problem) -> float:
    """Where convolutions that kernels treat apart lie, in factors of two: as products of matrices,
    by windows, or channel by channel, whose time has little to do with that of the others."""
    w = problem.tensors[1]
    if dict(problem.params)["groups"] > 1:
        return 7.0 if w.shape[1] == 1 else 4.0
    return 0.0 if w.shape[2:] == (1, 1) else 2.0


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
    if problem.op == "conv2d":
        params = (("strided", max(dict(problem.params)["stride"]) > 1),)
    return (problem.operands, tuple(t.layout for t in problem.tensors), params)


def _axis_trait(problem: Problem, axis: Any) -> Any:
    last = problem.tensors[0].ndim - 1
    axes = axis if isinstance(axis, tuple) else (axis,)
    return "last" if last in axes else "other"


class Surface:
    """The slowdown of one candidate with one config over shape space.

    Args:
        points: its evidence, local and kin.
        offset: log2 by which this machine's records of all candidates of the op differ from what
            kin says of them; counts where this candidate has no records of its own.
    """

    def __init__(self, points: Sequence[Point], offset: float = 0.0) -> None:
        self.local = [p for p in points if p.distance == 0]
        self.kin = [p for p in points if p.distance > 0]
        self.offset = offset

    @functools.cached_property
    def residuals(self) -> list[float]:
        """log2 of local slowdown over what kin says, per local point."""
        if not self.kin:
            return []
        return [p.slowdown - _mean(self.kin, p.problem)[0] for p in self.local]

    def at(self, problem: Problem) -> tuple[float, float, Point]:
        """Slowdown [log2] at a problem, its error [log2, one sigma], and the nearest point.

        Raises:
            ValueError: there are no points.
        """
        if not self.kin:
            return _mean(self.local, problem)
        value, error, nearest = _mean(self.kin, problem)
        if not self.local:
            return value + self.offset, error, nearest
        own = self.residuals
        trusts = [p.trust for p in self.local]
        agreed = sum(t * r for t, r in zip(trusts, own, strict=True))
        level = (agreed + self.offset) / (sum(trusts) + 1)
        weights = [_limited(_weight(p, problem), p) for p in self.local]
        total = sum(weights) + PRIOR_WEIGHT
        shift = (
            sum(w * r for w, r in zip(weights, own, strict=True)) + PRIOR_WEIGHT * level
        ) / total
        variance = sum(w * (r - shift) ** 2 for w, r in zip(weights, own, strict=True)) / total
        near = max(zip(weights, self.local, strict=True), key=lambda pair: pair[0])[1]
        if _gap(near, problem) <= _gap(nearest, problem):
            nearest = near
        trusted = PRIOR_WEIGHT / total  # share of the kin's own error that is left
        return (
            value + shift,
            math.sqrt(variance + trusted * error**2 + (GAP_ERROR * _gap(nearest, problem)) ** 2),
            nearest,
        )

    def __bool__(self) -> bool:
        return bool(self.local or self.kin)


def _mean(points: Sequence[Point], problem: Problem) -> tuple[float, float, Point]:
    """Mean slowdown by inverse-distance weights, its error, and the nearest point."""
    if not points:
        raise ValueError("an interpolation needs at least one point")
    weighted = [(_weight(p, problem), p) for p in points]
    total = sum(w for w, _ in weighted)
    value = sum(w * p.slowdown for w, p in weighted) / total
    variance = sum(w * (p.slowdown - value) ** 2 for w, p in weighted) / total
    nearest = max(weighted, key=lambda pair: pair[0])[1]
    return value, math.sqrt(variance + (GAP_ERROR * _gap(nearest, problem)) ** 2), nearest


def _gap(point: Point, problem: Problem) -> float:
    return math.dist(point.features, features(problem)) + point.distance


def _weight(point: Point, problem: Problem) -> float:
    here = features(problem)
    squared = sum((x - y) ** 2 for x, y in zip(point.features, here, strict=True))
    squared += point.distance**2
    if point.traits != traits(problem):
        squared += _traits_apart(point.traits, traits(problem))
    return 1.0 / (NEAR + squared) ** 2


def _limited(weight: float, point: Point) -> float:
    """The weight of a local record against PRIOR_WEIGHT: at its very place, `trust` to the rest."""
    most = PRIOR_WEIGHT * (TYPICAL_RESIDUAL / point.noise) ** 2
    return 1.0 / (1.0 / weight + 1.0 / most)


def _traits_apart(one: tuple[Any, ...], other: tuple[Any, ...]) -> float:
    """Squared distance of unlike traits: a layout weighs like a factor of four in size."""
    return sum(4.0 if index == 1 else 1.0 for index in range(3) if one[index] != other[index])


def estimate(
    surface: Surface, problem: Problem, model_time: float, others: Surface | None = None
) -> Estimate:
    """Expected time [s] of a candidate, by the first rung that holds.

    Args:
        surface: evidence of this config and dtype.
        problem: what is to be computed.
        model_time: the roofline model's time of the problem here [s].
        others: evidence of other dtypes, for a candidate that has none of this one.
    """
    exact = [p for p in surface.local if p.problem == problem]
    if exact:
        best = min(exact, key=lambda p: p.time)
        error = max(best.spread, _factor(best.noise), 0.01)
        return Estimate(best.time, error, EXACT, best.source)
    if surface:
        value, error, nearest = surface.at(problem)
        basis = NEIGHBOUR if nearest.distance == 0 else KIN
        count = len(surface.local) + len(surface.kin)
        evidence = f"{count} measurements, nearest {nearest.problem} ({nearest.source})"
        return Estimate(model_time * 2.0**value, _factor(error), basis, evidence)
    if others:
        value, error, nearest = others.at(problem)
        evidence = f"no {problem.dtype} measured; like {nearest.problem} ({nearest.source})"
        time = model_time * 2.0 ** (value + OTHER_DTYPE)
        return Estimate(time, _factor(math.hypot(error, OTHER_DTYPE)), EFFICIENCY, evidence)
    return Estimate(
        model_time * 2.0**UNMEASURED_SLOWDOWN, _factor(WORST_ERROR), ROOFLINE,
        "never measured: assumed at a tenth of the roof",
    )  # fmt: skip


def _factor(error: float) -> float:
    """An error in log2 as a relative one."""
    return math.exp2(min(error, WORST_ERROR)) - 1.0
