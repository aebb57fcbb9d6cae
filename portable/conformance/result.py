"""What a conformance run found: counts by level, op and check, failures, refusals, the badge."""

from __future__ import annotations

import hashlib
import json
from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field
from typing import Any

from portable.text import table

PASSED, FAILED, REFUSED = "passed", "failed", "refused"
LEVELS = ("core", "full", "hostile")

CHECKS = {
    "contract": "keeps the protocol of portable.backend: names, reasons, configs, array types",
    "compile": "builds what it says it can",
    "exception": "runs without raising",
    "bound": "every element within the op's error bound of the float64 reference",
    "late": "the result is complete when the call returns",
    "unwritten": "every element of the result is written",
    "outside": "no byte outside of the result is written",
    "inputs": "inputs, and the memory between and around their elements, stay as they were",
    "aliasing": "the result owns its memory; one array may be given twice",
    "reuse": "a later call does not change an earlier result",
    "determinism": "the same input gives the same bits, unless DETERMINISTIC = False",
    "stale": "new data through the same kernel gives new results",
    "configs": "every config that is offered builds and is right",
    "alignment": "arrays that start at any element",
    "read-only": "inputs that must not be written",
    "far": "elements more than 2^31 elements apart",
    "threads": "calls from several threads at once",
    "streams": "work goes to the caller's current stream",
    "wait": "synchronize() waits for all the work of a call",
    "timers": "clocks and checkers stay what they are",
    "dispatch": "portable.<op> under using(backend=...) runs this backend, once",
    "delegation": "kernels do not call other backends",
    "coverage": "runs at least one case of every op it lists",
}
"""What is checked, in words."""


@dataclass(frozen=True, slots=True)
class Outcome:
    """One case or probe in one dtype on one device.

    Attributes:
        op: the op.
        case: name of the case, or "probe: <check>".
        dtype: dtype of the first operand.
        candidate: backend and runtime.
        level: "core", "full" or "hostile".
        status: "passed", "failed" or "refused".
        check: which of CHECKS failed.
        reasons: what is wrong, or why it is refused.
    """

    op: str
    case: str
    dtype: str
    candidate: str
    status: str
    check: str = ""
    reasons: tuple[str, ...] = ()
    level: str = "core"


@dataclass(slots=True)
class Result:
    """All outcomes of a run.

    Attributes:
        backend: name of the backend.
        level: level asked for.
        outcomes: one per op, case or probe, dtype and device.
        versions: of portable, its plugin API, and the backend's libraries and drivers.
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

    @property
    def reached(self) -> str:
        """The highest level at which it and all below hold; "" for none."""
        if not any(o.status == PASSED for o in self.outcomes):
            return ""
        broken = {o.level for o in self.failures}
        reached = ""
        for name in LEVELS[: LEVELS.index(self.level) + 1]:
            if name in broken:
                break
            reached = name
        return reached

    def counts(self) -> dict[tuple[str, str, str], Counter[str]]:
        """Statuses by (candidate, op, dtype)."""
        found: dict[tuple[str, str, str], Counter[str]] = {}
        for o in self.outcomes:
            found.setdefault((o.candidate, o.op, o.dtype), Counter())[o.status] += 1
        return found

    def by_level(self) -> dict[str, dict[str, int]]:
        """Statuses by level."""
        wanted = LEVELS[: LEVELS.index(self.level) + 1]
        return {name: self._statuses(o for o in self.outcomes if o.level == name)
                for name in wanted}  # fmt: skip

    def total(self, status: str) -> int:
        """Number of outcomes with a status."""
        return sum(1 for o in self.outcomes if o.status == status)

    @staticmethod
    def _statuses(outcomes: Iterable[Outcome]) -> dict[str, int]:
        found = Counter(o.status for o in outcomes)
        return {s: found[s] for s in _ORDER}

    def _refusals(self) -> set[str]:
        cases = (o for o in self.outcomes if not o.case.startswith("probe:"))
        return {r for o in cases if o.status == REFUSED for r in o.reasons}

    def to_json(self) -> dict[str, Any]:
        """The badge: levels, counts, versions, failures, reasons of refusals, and a digest."""
        badge: dict[str, Any] = {
            "format": 2,
            "backend": self.backend,
            "level": self.level,
            "level_reached": self.reached,
            "conforms": self.passed,
            "versions": self.versions,
            "totals": self._statuses(self.outcomes),
            "levels": self.by_level(),
            "counts": [
                {"candidate": c, "op": op, "dtype": dtype, **counts}
                for (c, op, dtype), counts in sorted(self.counts().items())
            ],
            "failures": [
                {"op": o.op, "case": o.case, "dtype": o.dtype, "candidate": o.candidate,
                 "level": o.level, "check": o.check, "reasons": list(o.reasons)}
                for o in self.failures
            ],
            "refusals": sorted(self._refusals()),
        }  # fmt: skip
        return {**badge, "digest": digest(badge)}

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


def digest(badge: dict[str, Any]) -> str:
    """SHA-256 over a badge without its digest: shows an edit by mistake, proves no origin."""
    plain = {k: v for k, v in badge.items() if k != "digest"}
    text = json.dumps(plain, sort_keys=True, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()


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
