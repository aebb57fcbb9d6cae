"""Do fresh tunes choose the same? Tunes a few problems again and again, each with an empty store.

    python -m bench.stability [--tunes 20] [--workload bert-base] [--limit 4]

For every problem: who was chosen how often, and the gap between the two best of all tunes against
the noise, half of the range between the quartiles of a candidate's times over the tunes. A flip
where the gap exceeds the noise counts as a fault of the tuner; other flips cost nothing that can be
told from noise.

That is a hard rule: of two candidates with a gap as large as their noise, independent and normal, a
single tune sees the slower one ahead in every third case. So "by chance" says how many flips the
noise of the ratio within a tune explains, given who is preferred in a tie.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections import Counter
from pathlib import Path
from statistics import NormalDist, median

from portable.stats import quantile, relative_spread


def main() -> None:
    """Print a row per problem and the flip rates."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", default="bert-base")
    parser.add_argument("--tunes", type=int, default=20)
    parser.add_argument("--limit", type=int, default=4)
    parser.add_argument("--largest", type=float, default=1e9, help="FLOP of a problem at the most")
    parser.add_argument("--budget", type=float, default=1.0, help="seconds a problem")
    wish = parser.parse_args()
    wish.workload = [wish.workload]
    from bench.selection import problems

    flat = [entry.problem for _, entry in problems(wish)]
    chosen = {p: Counter() for p in flat}
    times = {p: {} for p in flat}
    for turn in range(wish.tunes):
        with tempfile.TemporaryDirectory() as folder:
            os.environ["PORTABLE_DB"] = str(Path(folder) / "stability.sqlite")
            once(flat, turn, wish.budget, chosen, times)
        print(f"tune {turn + 1} of {wish.tunes}", flush=True)
    report(chosen, times)


def once(flat, seed: int, budget: float, chosen: dict, times: dict) -> None:
    """One fresh tune."""
    from portable import contest, engine, explaining, records, tuning

    engine.refresh()
    for problem in flat:
        tuning.tune_problem(problem, budget=budget, seed=seed)
    for problem in flat:  # as `portable tune` does
        tuning.second_look(problem, budget=budget * tuning.SECOND, seed=seed)
    engine.refresh()
    for problem in flat:
        chosen[problem][explaining.of_problem(problem, "cpu").choice.name] += 1
        best: dict = {}
        for record in records.default_store().records(op=problem.op):
            if record.ok and record.problem == problem:
                name = contest.candidate_name(record)
                best[name] = min(best.get(name, 1e9), min(record.samples))
        for name, value in best.items():
            times[problem].setdefault(name, {})[seed] = value


def report(chosen: dict, times: dict) -> None:
    """Who was chosen, and whether the gap exceeds the noise."""
    rates = {True: [], False: []}
    for problem, counts in chosen.items():
        ranked = sorted((median(v.values()), n) for n, v in times[problem].items())
        if len(ranked) < 2:
            print(f"{'only one' if ranked else 'nobody'} could run it: {problem}")
            continue
        (first, one), (second, two) = ranked[:2]
        gap = second / first - 1
        spread = max(relative_spread(list(times[problem][name].values())) for name in (one, two))
        (_, most), total = counts.most_common(1)[0], sum(counts.values())
        flips = 1 - most / total
        expected = chance(times[problem][one], times[problem][two], border(one, two))
        rates[gap > spread].append((flips, expected))
        verdict = "gap" if gap > spread else "noise"
        print(
            f"{dict(counts)} gap {gap:.1%} to {two} noise {spread:.1%} -> {verdict}; "
            f"flips {flips:.0%}, by chance {expected:.0%}: {problem}"
        )
    for beyond, found in rates.items():
        where = "gap beyond the noise" if beyond else "gap inside the noise"
        if found:
            flips, expected = (sum(each) / len(found) for each in zip(*found, strict=True))
            print(
                f"{where}: {len(found)} problems, flip rate {flips:.1%} (by chance {expected:.1%})"
            )


def border(one: str, two: str) -> float:
    """time(two) / time(one) above which one is chosen: a tie goes to the one that is preferred."""
    from portable import registry
    from portable.samples import TIE

    first, second = (registry.backend(name.partition("[")[0]).priority for name in (one, two))
    return 1.0 if first == second else 1 + TIE if first < second else 1 / (1 + TIE)


def chance(one: dict, two: dict, edge: float) -> float:
    """Share of tunes on the wrong side of the edge, by the noise of their own ratio two / one.

    The noise is taken as normal, its width from the quartiles; both by tune.
    """
    ratios = [math.log(two[tune] / one[tune]) for tune in one.keys() & two.keys()]
    if len(ratios) < 2:
        return 0.0
    sigma = (quantile(ratios, 0.75) - quantile(ratios, 0.25)) / (2 * NormalDist().inv_cdf(0.75))
    distance = abs(median(ratios) - math.log(edge))
    return NormalDist().cdf(-distance / sigma) if sigma else 0.0


if __name__ == "__main__":
    main()
