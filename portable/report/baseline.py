"""Regressions: what became slower than an older record file, beyond the noise of both."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

from portable.report.rows import Row, identity
from portable.stats import median

TOLERANCE = 0.05
"""Least relative slow-down that counts, however small the noise: what a rerun moves by itself."""

KINDS = ("broken", "slower", "faster", "fixed", "gone", "new", "same")


@dataclass(frozen=True, slots=True)
class Change:
    """One candidate on one problem and device, then and now.

    Attributes:
        kind: one of KINDS. "broken": was correct and is not any more. "gone": not measured now.
        row: the row now, or then when it is gone.
        before, after: medians [s]; None when there is no correct time.
        ratio: after / before; None without both.
        low, high: interval of the ratio by the medians' confidence intervals.
        reason: in words.
    """

    kind: str
    row: Row
    before: float | None
    after: float | None
    ratio: float | None = None
    low: float | None = None
    high: float | None = None
    reason: str = ""

    @property
    def regression(self) -> bool:
        """Whether it is a reason to fail a build."""
        return self.kind in ("broken", "slower")


def compare(then: Sequence[Row], now: Sequence[Row], tolerance: float = TOLERANCE) -> list[Change]:
    """Changes from `then` to `now`, regressions first.

    A slow-down counts when the 95 % confidence intervals of the two medians do not overlap and
    the ratio of the medians exceeds 1 + tolerance. The fastest config of each candidate counts;
    devices match by hardware, name and units, so the machine itself may be another one.
    """
    old, new = _by_key(then), _by_key(now)
    changes = []
    for key in dict.fromkeys([*old, *new]):
        before, after = old.get(key), new.get(key)
        if before is None and after is not None:
            changes.append(Change("new", after, None, _time(after)))
        elif after is None and before is not None:
            changes.append(Change("gone", before, _time(before), None, reason="not measured now"))
        elif before is not None and after is not None:
            changes.append(_change(before, after, tolerance))
    return sorted(changes, key=lambda c: (KINDS.index(c.kind), -(c.ratio or 0.0)))


def _by_key(rows: Sequence[Row]) -> dict[object, Row]:
    found: dict[object, Row] = {}
    for row in rows:
        if not row.headline:
            continue
        device = (row.place.hardware or row.place.name, row.place.units)
        found[identity(row.problem), device, row.candidate] = row
    return found


def _time(row: Row) -> float | None:
    return row.time if row.ok else None


def _change(before: Row, after: Row, tolerance: float) -> Change:
    if not before.ok and not after.ok:
        return Change("same", after, None, None, reason=f"{before.status}, as before")
    if not after.ok:
        reason = f"was ok, is {after.status}: {after.reason}"
        return Change("broken", after, before.time, None, reason=reason)
    if not before.ok:
        return Change("fixed", after, None, after.time, reason=f"was {before.status}")
    if before.record.cache != after.record.cache:
        reason = f"timed {before.record.cache} then and {after.record.cache} now: not compared"
        return Change("new", after, None, after.time, reason=reason)
    a, b = interval(before.record.samples), interval(after.record.samples)
    assert before.time and after.time
    ratio, low, high = after.time / before.time, b[0] / a[1], b[1] / a[0]
    kind = "same"
    if low > 1 and ratio > 1 + tolerance:
        kind = "slower"
    elif high < 1 and ratio < 1 / (1 + tolerance):
        kind = "faster"
    reason = f"{ratio:.2f} times the time before ({low:.2f} to {high:.2f})"
    return Change(kind, after, before.time, after.time, ratio, low, high, reason)


def interval(samples: Sequence[float]) -> tuple[float, float]:
    """Confidence interval of a median, at least 95 % where there are 6 samples or more.

    Order statistics k and n + 1 - k with P(Binomial(n, 1/2) < k) <= 2.5 %: nothing is assumed of
    the noise. With fewer samples: least and largest.
    """
    ordered = sorted(samples)
    n = len(ordered)
    k, tail = 0, 0.5**n
    while k < n // 2 and tail <= 0.025:
        k += 1
        tail += math.comb(n, k) * 0.5**n
    k = max(k, 1)
    low, high = ordered[k - 1], ordered[n - k]
    middle = median(ordered)
    return min(low, middle), max(high, middle)
