"""A report in a few sentences."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from textwrap import shorten

from portable.report.model import Report
from portable.report.places import UNTRIED, Place
from portable.report.portability import CHOSEN, Study
from portable.report.ranking import Ranking, Total, best_of, table_of
from portable.report.rows import Row
from portable.stats import geometric_mean
from portable.text import share, time_text


def sentences(report: Report) -> list[str]:
    """What a reader should know who reads nothing else."""
    if not report.rows:
        return ["There are no records: run `portable bench` and give its record file."]
    lines = [_what(report)]
    for place in report.places:
        lines += _device(report, place)
    seen: set[str] = set()
    for ranking in report.rankings:
        lines += _workload(ranking, report, with_fix=ranking.weights.name not in seen)
        seen.add(ranking.weights.name)
    lines += [_portability(study) for study in report.studies if not study.aside]
    lines += _refused(report)
    lines += _warnings(report)
    return lines


def _what(report: Report) -> str:
    tried = [r for r in report.rows if r.status not in UNTRIED]
    problems = len({r.problem for r in report.rows})
    backends = len({r.record.backend for r in tried})
    devices, platforms = len(report.places), len(report.platforms)
    ok = sum(r.ok for r in tried)
    text = (
        f"{_count(len(tried), 'measurement')} of {_count(problems, 'problem')} by "
        f"{_count(backends, 'backend')} on {_count(devices, 'device')}"
    )
    text += f" by {_count(platforms, 'route')}" if platforms > devices else ""
    text += f", {ok} of them correct and timed"
    if report.projected:
        text += f"; {_count(len(report.projected), 'more device')} projected, not measured"
    return text + "."


def _device(report: Report, place: Place) -> list[str]:
    table = table_of(report.rows, place)
    if not table:
        return [f"On {place.label} nothing ran correctly."]
    best = [best_of(candidates) for candidates in table.values()]
    wins = Counter(row.candidate for row in best).most_common()
    won = ", ".join(f"{name} {count}" for name, count in wins)
    text = f"On {place.label} the fastest backend is {wins[0][0]} for {wins[0][1]} of {len(best)}"
    text += f" problems ({won})" if len(wins) > 1 else " problems"
    sol = _mean([r.sol_fraction for r in best])
    roof = _mean([r.roof_fraction for r in best])
    if sol is not None:
        text += f"; the best reach {share(sol)} of the datasheet's speed of light"
        text += f" and {share(roof)} of the measured roof" if roof is not None else ""
        text += " (geometric means)"
    return [text + "."]


def _mean(values: Sequence[float | None]) -> float | None:
    known = [v for v in values if v]
    return geometric_mean(known) if known else None


def _workload(ranking: Ranking, report: Report, *, with_fix: bool) -> list[str]:
    named = {t.candidate: t for t in ranking.totals}
    singles = [t for t in ranking.totals if t.candidate not in ("best", "chosen")]
    best = named["best"]
    where = f" on {ranking.place.label}" if len(report.places) > 1 else ""
    text = f"{ranking.weights.name}{where}: {time_text(best.time)} with the best backend everywhere"
    if "chosen" in named and not named["chosen"].missing:
        text += f", {ratio(named['chosen'].slowdown)} that with what was chosen"
    if singles:
        text += f", {_single(singles[0])}"
        if len(singles) > 1:
            text += f", {_single(singles[-1])}"
    lines = [text + "."]
    if with_fix:
        fixes = [f for f in ranking.fixes if f.kind not in ("port", "ceiling")]
        if fixes:
            first = fixes[0]
            lines.append(f"To fix first: {first.what} (up to {time_text(first.gain)}).")
    return lines


def _portability(study: Study) -> str:
    whole = [r for r in study.results if not r.scope]
    own = next(r for r in whole if r.application == CHOSEN)
    others = [r for r in whole if r is not own]
    text = f"{study.weights} over {_count(len(study.platforms), 'platform')}"
    if own.app.value:
        text += f": portable's PP is {share(own.app.value)} (application efficiency)"
    else:
        gaps = "; ".join(study.reasons(own))
        text += f": portable's PP is zero ({gaps})"
    everywhere = sorted((r for r in others if r.app.value), key=lambda r: -(r.app.value or 0.0))
    if everywhere:
        best = everywhere[0]
        text += f"; the best single backend is {best.application} with {share(best.app.value or 0)}"
    elif others:
        text += "; no single backend runs on all of them, so the PP of each is zero"
    return text + "."


def _refused(report: Report) -> list[str]:
    """Backends that never ran, with what they say."""
    ran = {r.candidate for r in report.rows if r.status not in UNTRIED}
    found: dict[str, list[str]] = {}
    for row in report.rows:
        if row.status == "unsupported" and row.candidate not in ran:
            found.setdefault(row.candidate, []).append(row.reason)
    said = [
        f"{name} ({shorten(Counter(r).most_common(1)[0][0], 160, placeholder=' …')})"
        for name, r in sorted(found.items())
    ]
    return [f"Not able to run here: {', '.join(said)}."] if said else []


def _single(total: Total) -> str:
    where = "wherever it runs" if total.missing else "alone"
    return f"{ratio(total.slowdown)} with {total.candidate} {where}"


def ratio(value: float) -> str:
    """A ratio with three digits: "1.23×", "12.3×", "123×"."""
    return (
        f"{value:.2f}×" if value < 9.995 else f"{value:.1f}×" if value < 99.95 else f"{value:.0f}×"
    )


def _warnings(report: Report) -> list[str]:
    lines = []
    if report.violations:
        lines.append(
            f"{_count(len(report.violations), 'measurement')} beat the speed of light: a number "
            "behind the bound or the timer is wrong; they are set apart and count nowhere."
        )
    wrong = [r for r in report.rows if r.status == "incorrect"]
    if wrong:
        names = ", ".join(sorted({f"{r.problem.op} on {r.candidate}" for r in wrong}))
        lines.append(f"Wrong results: {names}.")
    shares = [r for r in report.headlines if r.ok]
    guessed = [r for r in shares if _guessed(r)]
    if guessed:
        lines.append(
            f"{len(guessed)} of {len(shares)} shares of the speed of light rest on "
            "estimated peaks or bandwidths (marked ≈)."
        )
    if report.changes is not None:
        worse = report.regressions
        lines.append(
            f"Against the baseline {len(worse)} got worse."
            if worse
            else "Against the baseline nothing got slower beyond the noise."
        )
    return lines


def _guessed(row: Row) -> bool:
    return row.sol is not None and row.sol.estimated


def _count(number: int, noun: str) -> str:
    return f"{number:,} {noun}" + ("" if number == 1 else "s")
