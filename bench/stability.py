"""Do fresh tunes choose the same? Tunes a few problems again and again, each with an empty store.

    python -m bench.stability [--tunes 20] [--workload bert-base] [--limit 4]

For every problem: who was chosen how often, and the gap between the two best of all tunes against
the noise. A flip where the gap exceeds the noise is a fault of the tuner; other flips cost nothing
that can be told from noise.
"""

from __future__ import annotations

import argparse
import os
import tempfile
from collections import Counter
from pathlib import Path
from statistics import median


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
    engine.refresh()
    for problem in flat:
        chosen[problem][explaining.of_problem(problem, "cpu").choice.name] += 1
        best: dict = {}
        for record in records.default_store().records(op=problem.op):
            if record.ok and record.problem == problem:
                name = contest.candidate_name(record)
                best[name] = min(best.get(name, 1e9), min(record.samples))
        for name, value in best.items():
            times[problem].setdefault(name, []).append(value)


def report(chosen: dict, times: dict) -> None:
    """Who was chosen, and whether the gap exceeds the noise."""
    rates = {True: [], False: []}
    for problem, counts in chosen.items():
        ranked = sorted((median(v), n) for n, v in times[problem].items())
        if not ranked:
            print(f"nobody could run it: {problem}")
            continue
        (first, one), (second, two) = ranked[0], ranked[1] if len(ranked) > 1 else ranked[0]
        gap = second / first - 1
        spread = max(noise(times[problem][one]), noise(times[problem][two]))
        (_, most), total = counts.most_common(1)[0], sum(counts.values())
        rates[gap > spread].append(1 - most / total)
        verdict = "gap" if gap > spread else "noise"
        print(f"{dict(counts)} gap {gap:.0%} noise {spread:.0%} -> {verdict}: {problem}")
    for beyond, flips in rates.items():
        where = "gap beyond the noise" if beyond else "gap inside the noise"
        if flips:
            print(f"{where}: {len(flips)} problems, flip rate {sum(flips) / len(flips):.1%}")


def noise(values: list) -> float:
    """Half of the range between the quartiles over the median, between tunes."""
    ordered = sorted(values)
    quarter = len(ordered) // 4
    return (ordered[-1 - quarter] - ordered[quarter]) / 2 / median(ordered)


if __name__ == "__main__":
    main()
