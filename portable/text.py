"""Numbers and tables as plain text."""

from __future__ import annotations

import math
from collections.abc import Sequence


def time_text(seconds: float) -> str:
    """A time with three digits and a fitting unit: "12.3 µs"."""
    if not math.isfinite(seconds):
        return "-"
    for unit, scale in (("s", 1.0), ("ms", 1e-3), ("µs", 1e-6)):
        if seconds >= scale:
            return f"{seconds / scale:.3g} {unit}" if seconds < 1000 else f"{seconds:.0f} s"
    return f"{seconds / 1e-9:.3g} ns"


def rate_text(rate: float, unit: str) -> str:
    """A rate with three digits and a decimal prefix: "4.8 TB/s"."""
    for prefix, scale in (("P", 1e15), ("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if rate >= scale:
            return f"{rate / scale:.3g} {prefix}{unit}"
    return f"{rate:.3g} {unit}"


def share(fraction: float) -> str:
    """A share in percent: two digits below ten."""
    return f"{fraction:.0%}" if fraction >= 0.1 else f"{fraction:.1%}"


def table(head: Sequence[str], rows: Sequence[Sequence[str]]) -> list[str]:
    """Lines of a table with aligned columns."""
    widths = [max(len(r[i]) for r in [head, *rows]) for i in range(len(head))]
    lines = [head, ["-" * w for w in widths], *rows]
    return ["  ".join(cell.ljust(w) for cell, w in zip(r, widths, strict=True)).rstrip()
            for r in lines]  # fmt: skip
