"""What a conformance run found: counts, failures, refusals."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from portable.text import table

PASSED, FAILED, REFUSED = "passed", "failed", "refused"


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case, dtype and device.

    Attributes:
        op: the op.
        case: name of the case.
        dtype: dtype of the first operand.
        candidate: backend and runtime.
        status: "passed", "failed" or "refused".
        check: which check failed: "bound", "inputs", "stale", "determinism", "exception".
        reasons: what is wrong, or why it is refused.
    """

    op: str
    case: str
    dtype: str
    candidate: str
    status: str
    check: str = ""
    reasons: tuple[str, ...] = ()


@dataclass(slots=True)
class Result:
    """All outcomes of a run.

    Attributes:
        backend: name of the backend.
        level: level asked for.
        outcomes: one per op, case, dtype and device.
        versions: of the backend's libraries and drivers.
    """

    backend: str
    level: str
    outcomes: list[Outcome] = field(default_factory=list)
    versions: dict[str, str] = field(default_factory=dict)

    @property
    def failures(self) -> list[Outcome]:
        """Outcomes that are wrong."""
        return [o for o in self.outcomes if o.status == FAILED]

    @property
    def passed(self) -> bool:
        """Whether something ran and nothing failed: an empty backend does not pass."""
        return not self.failures and any(o.status == PASSED for o in self.outcomes)

    def counts(self) -> dict[tuple[str, str, str], Counter[str]]:
        """Statuses by (candidate, op, dtype)."""
        found: dict[tuple[str, str, str], Counter[str]] = {}
        for o in self.outcomes:
            found.setdefault((o.candidate, o.op, o.dtype), Counter())[o.status] += 1
        return found

    def total(self, status: str) -> int:
        """Number of outcomes with a status."""
        return sum(1 for o in self.outcomes if o.status == status)

    def _refusals(self) -> set[str]:
        return {r for o in self.outcomes if o.status == REFUSED for r in o.reasons}

    def to_json(self) -> dict[str, Any]:
        """The badge: level, counts, versions, failures, reasons of refusals."""
        return {
            "format": 1,
            "backend": self.backend,
            "level": self.level,
            "conforms": self.passed,
            "versions": self.versions,
            "totals": {s: self.total(s) for s in (PASSED, FAILED, REFUSED)},
            "counts": [
                {"candidate": c, "op": op, "dtype": dtype, **counts}
                for (c, op, dtype), counts in sorted(self.counts().items())
            ],
            "failures": [
                {"op": o.op, "case": o.case, "dtype": o.dtype, "candidate": o.candidate,
                 "check": o.check, "reasons": list(o.reasons)}
                for o in self.failures
            ],
            "refusals": sorted(self._refusals()),
        }  # fmt: skip

    def __str__(self) -> str:
        rows = [
            [op, _by_dtype(self.outcomes, op), *(str(_count(self.outcomes, op, s)) for s in _ORDER)]
            for op in sorted({o.op for o in self.outcomes})
        ]
        lines = table(["op", "dtypes that pass", *_ORDER], rows)
        lines += [
            f"FAILED {o.candidate} {o.op} {o.dtype} {o.case!r} ({o.check}): {'; '.join(o.reasons)}"
            for o in self.failures[:20]
        ]
        if len(self.failures) > 20:
            lines.append(f"... and {len(self.failures) - 20} more failures")
        verdict = "conforms" if self.passed else "does NOT conform"
        totals = ", ".join(f"{self.total(s)} {s}" for s in _ORDER)
        lines.append(f"{self.backend} {verdict} at level {self.level}: {totals}")
        return "\n".join(lines)


_ORDER = (PASSED, FAILED, REFUSED)


def _count(outcomes: Iterable[Outcome], op: str, status: str) -> int:
    return sum(1 for o in outcomes if o.op == op and o.status == status)


def _by_dtype(outcomes: Iterable[Outcome], op: str) -> str:
    from portable import dtypes

    seen: dict[str, set[str]] = {}
    for o in outcomes:
        if o.op == op:
            seen.setdefault(o.dtype, set()).add(o.status)
    good = [d for d, s in seen.items() if PASSED in s and FAILED not in s]
    return " ".join(dtypes.short(d) for d in good) or "-"
