"""Medians, spreads and means: small, exact and without imports."""

from __future__ import annotations

import math
from collections.abc import Iterable, Sequence


def quantile(values: Sequence[float], fraction: float) -> float:
    """The value below which `fraction` of the values lie, linear between neighbours.

    Raises:
        ValueError: there are no values.
    """
    if not values:
        raise ValueError("a quantile of no values")
    ordered = sorted(values)
    position = fraction * (len(ordered) - 1)
    low = math.floor(position)
    high = min(low + 1, len(ordered) - 1)
    return ordered[low] + (ordered[high] - ordered[low]) * (position - low)


def median(values: Sequence[float]) -> float:
    """The middle value, or the mean of the two middle ones."""
    return quantile(values, 0.5)


def relative_spread(values: Sequence[float]) -> float:
    """Half the interquartile range over the median: robust against a few slow outliers.

    0 for fewer than two values and for a median of 0.
    """
    if len(values) < 2:
        return 0.0
    middle = median(values)
    return (quantile(values, 0.75) - quantile(values, 0.25)) / 2 / middle if middle > 0 else 0.0


def geometric_mean(values: Iterable[float], weights: Iterable[float] | None = None) -> float:
    """exp(sum(w log v) / sum(w)) of positive values.

    Raises:
        ValueError: no values, a value <= 0, or weights that do not sum to a positive number.
    """
    pairs = _weighted(values, weights)
    if any(v <= 0 for v, _ in pairs):
        raise ValueError("a geometric mean needs values > 0")
    return math.exp(sum(w * math.log(v) for v, w in pairs) / sum(w for _, w in pairs))


def harmonic_mean(values: Iterable[float], weights: Iterable[float] | None = None) -> float:
    """sum(w) / sum(w / v) of values >= 0; 0 when one of them is 0.

    Raises:
        ValueError: no values, a negative value, or weights without a positive sum.
    """
    pairs = _weighted(values, weights)
    if any(v < 0 for v, _ in pairs):
        raise ValueError("a harmonic mean needs values >= 0")
    if any(v == 0 for v, _ in pairs):
        return 0.0
    return sum(w for _, w in pairs) / sum(w / v for v, w in pairs)


def _weighted(
    values: Iterable[float], weights: Iterable[float] | None
) -> list[tuple[float, float]]:
    listed = list(values)
    shares = [1.0] * len(listed) if weights is None else list(weights)
    pairs = [(v, w) for v, w in zip(listed, shares, strict=True) if w != 0]
    if any(w < 0 for _, w in pairs) or not pairs:
        raise ValueError("a mean needs at least one value with a positive weight")
    return pairs
