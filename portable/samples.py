"""Timings and what they prove: medians with spread, comparison without assumptions, ties."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from portable.stats import median, quantile, relative_spread

TIE = 0.03
"""Times closer than this share are a tie: the order of preference decides."""


@dataclass(frozen=True, slots=True)
class Samples:
    """Timings of one candidate.

    Attributes:
        times: [s] per call, in the order taken; without the disturbed samples, where enough
            others are left.
        rounds: the round each of them is from, for pairing.
        inner: calls inside one sample.
        cache: "cold" or "warm".
        method: "wall" (host clock around call and synchronize) or the name of the device timer.
        first: [s] of the very first call: compilation, allocation, cold code.
        status: "ok", "exception" or "oom".
        reason: what was raised.
        disturbed: samples left out because the system took the processor away meanwhile.
    """

    times: tuple[float, ...] = ()
    rounds: tuple[int, ...] = ()
    inner: int = 1
    cache: str = "warm"
    method: str = "wall"
    first: float = math.nan
    status: str = "ok"
    reason: str = ""
    disturbed: int = 0

    @property
    def time(self) -> float:
        """Median [s]; infinite without samples."""
        return median(self.times) if self.times else math.inf

    @property
    def spread(self) -> float:
        """Half the interquartile range over the median."""
        return relative_spread(self.times)


@dataclass(frozen=True, slots=True)
class Comparison:
    """How much longer b takes than a.

    Attributes:
        ratio: median of time(b) / time(a) by round; the ratio of the medians where too few rounds
            are common to both.
        low, high: confidence interval of the ratio.
        pairs: rounds in common; 0 when they were too few.
        confidence: of the interval, as reached: at least what was asked, or less when there are
            too few pairs for it.
    """

    ratio: float
    low: float
    high: float
    pairs: int
    confidence: float


def compare(a: Samples, b: Samples, confidence: float = 0.95) -> Comparison:
    """The ratio time(b) / time(a) with a distribution-free confidence interval.

    The interval's ends are order statistics of the paired ratios (the sign test, inverted): no
    assumption about the noise, no random numbers, so the same samples give the same answer.
    A side without samples counts as infinitely slow.
    """
    if not a.times or not b.times:
        ratio = math.inf if a.times else (0.0 if b.times else 1.0)
        return Comparison(ratio, ratio, ratio, 0, 1.0)
    partner = dict(zip(b.rounds, b.times, strict=True))
    ratios = sorted(
        partner[r] / t if t > 0 else math.inf
        for r, t in zip(a.rounds, a.times, strict=True)
        if r in partner
    )
    rank, reached = _interval(len(ratios), confidence)
    if reached >= confidence:
        return Comparison(
            quantile(ratios, 0.5), ratios[rank], ratios[-1 - rank], len(ratios), reached
        )
    return _unpaired(a, b, confidence)


def _unpaired(a: Samples, b: Samples, confidence: float) -> Comparison:
    """Too few rounds in common: the ratio of the medians, each with an interval of its own."""
    each = 1 - (1 - confidence) / 2  # both must hold
    (low_a, high_a, reached_a), (low_b, high_b, reached_b) = (
        _median_interval(s.times, each) for s in (a, b)
    )
    ratio = b.time / a.time if a.time > 0 else math.inf
    low = low_b / high_a if high_a > 0 else math.inf
    high = high_b / low_a if low_a > 0 else math.inf
    return Comparison(ratio, low, high, 0, max(0.0, reached_a + reached_b - 1))


def _median_interval(times: Sequence[float], confidence: float) -> tuple[float, float, float]:
    ordered = sorted(times)
    rank, reached = _interval(len(ordered), confidence)
    return ordered[rank], ordered[-1 - rank], reached


def _interval(count: int, confidence: float) -> tuple[int, float]:
    """(rank k, its confidence): the median lies between the k-th smallest and k-th largest.

    P(median outside) = 2 P(Binomial(count, 1/2) <= k).
    """
    if count == 0:
        return 0, 0.0
    outside, rank, reached = 0.0, 0, 1.0 - 2.0 ** (1 - count)
    for k in range((count + 1) // 2):
        outside += 2 * math.comb(count, k) / 2.0**count
        if 1 - outside < confidence:
            break
        rank, reached = k, 1 - outside
    return rank, reached


def significantly_faster(
    a: Samples, b: Samples, confidence: float = 0.95, margin: float = 0.02
) -> bool:
    """Whether a beats b beyond the noise.

    True when the whole confidence interval of time(b) / time(a) lies above 1 and the median ratio
    is at least 1 + margin. Too few samples to reach the confidence are a tie, unless all of b's
    take more than twice as long as all of a's.
    """
    result = compare(a, b, confidence)
    if result.confidence < confidence:
        return result.low > 2.0
    return result.low > 1.0 and result.ratio >= 1.0 + margin


def decided(a: Samples, b: Samples, confidence: float = 0.99) -> bool:
    """Whether it is known if b takes longer than a by more than TIE.

    True when the whole confidence interval of time(b) / time(a) lies on one side of 1 + TIE. Asked
    again and again while samples come in, hence the high confidence.
    """
    found = compare(a, b, confidence)
    if found.confidence < confidence:
        return found.low > 2.0
    return found.low > 1.0 + TIE or found.high < 1.0 + TIE


def fastest(
    samples: Mapping[str, Samples], order: Sequence[str] = (), confidence: float = 0.95
) -> str | None:
    """The fastest candidate; among those it does not beat beyond the noise, the first in `order`.

    `order` lists names from the safest on; names that are missing come last, in mapping order.
    None when nothing was timed.
    """
    timed = {name: s for name, s in samples.items() if s.status == "ok" and s.times}
    if not timed:
        return None
    best = min(timed, key=lambda name: timed[name].time)
    ranks = {name: i for i, name in enumerate([*order, *(n for n in timed if n not in order)])}
    ties = [
        n for n in timed if n == best or not significantly_faster(timed[best], timed[n], confidence)
    ]
    return min(ties, key=lambda name: ranks[name])
