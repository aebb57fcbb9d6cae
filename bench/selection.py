"""How near the choice is to the oracle: regret cold, calibrated and tuned, on real workloads.

    python -m bench.selection [--workload NAME ...] [--limit 12] [--states cold calibrated tuned]

Every eligible backend is timed on every problem, interleaved, once: the oracle. The choices are
asked for in three states of knowledge (an empty store, after `portable calibrate`, after `portable
tune`) and judged by the oracle's times. Regret is the chosen candidate's time over the best one's.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

DEFAULT = ("llama3.1-8b", "bert-base")
STATES = ("cold", "calibrated", "tuned")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", nargs="*", default=list(DEFAULT))
    parser.add_argument("--limit", type=int, default=12, help="problems per workload at the most")
    parser.add_argument("--share", type=float, default=0.9)
    parser.add_argument("--budget", type=float, default=1.5, help="seconds of timing a problem")
    parser.add_argument("--tune-budget", type=float, default=120.0)
    parser.add_argument("--states", nargs="*", default=list(STATES), choices=STATES)
    wish = parser.parse_args()
    console = Console(highlight=False)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PORTABLE_DB"] = str(Path(folder) / "selection.sqlite")
        run(wish, console)


def run(wish: argparse.Namespace, console: Console) -> None:
    """Choices in every state first, the oracle last: its records must not help anybody."""
    from portable import calibrate, tuning, workloads
    from portable.cli_measure import progress_bar

    problems = {
        name: workloads.select(workloads.load(name), share=wish.share, limit=wish.limit).problems
        for name in wish.workload
    }
    flat = [(name, entry) for name, entries in problems.items() for entry in entries]
    choices: dict[str, list[str]] = {}
    if "cold" in wish.states:
        choices["cold"] = chosen(flat)
    if "calibrated" in wish.states:
        with progress_bar("calibrate") as report:
            calibrate.calibrate(progress=report)
        choices["calibrated"] = chosen(flat)
    if "tuned" in wish.states:
        with progress_bar("tune") as report:
            tuning.tune(
                [(entry.problem, entry.weight) for _, entry in flat],
                budget=wish.tune_budget,
                progress=report,
            )
        choices["tuned"] = chosen(flat)
    with progress_bar("oracle") as report:
        times = oracle(flat, wish.budget, report)
    show(console, flat, choices, times)


def chosen(flat: Sequence) -> list[str]:
    """The candidate a call would run on, per problem, with what is known now."""
    from portable import explaining

    found = [explaining.of_problem(entry.problem, "cpu").choice for _, entry in flat]
    return [c.name if c else "-" for c in found]


def oracle(flat: Sequence, budget: float, report) -> list[dict[str, float]]:
    """Median time of every candidate, per problem."""
    from portable import contest

    found = []
    for index, (_, entry) in enumerate(flat):
        report(index, len(flat), str(entry.problem))
        result = contest.contest(entry.problem, budget=budget)
        found.append(
            {contest.candidate_name(r): r.time for r in result.records if r.samples and r.time > 0}
        )
    return found


def show(console: Console, flat: Sequence, choices: dict, times: Sequence) -> None:
    """Regret per state, and the gain over every single-backend policy."""
    view = Table("state", "problems", "geomean regret", "worst", "where", box=None)
    for state, names in choices.items():
        rows = [
            (times[i][name] / min(times[i].values()), flat[i][1].problem)
            for i, name in enumerate(names)
            if name in times[i]
        ]
        worst, where = max(rows, key=lambda r: r[0])
        mean = geometric([r for r, _ in rows])
        view.add_row(state, str(len(rows)), f"{mean:.3f}", f"{worst:.2f}", str(where))
    console.print(view)
    last = list(choices)[-1]
    for name in sorted({n for t in times for n in t}):
        ran = [t[name] / t[c] for t, c in zip(times, choices[last], strict=True)
               if name in t and c in t]  # fmt: skip
        console.print(
            f"{last} choice against always {name}: {geometric(ran):.2f} times as fast "
            f"({len(ran)} of {len(times)} problems)"
        )


def geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


if __name__ == "__main__":
    main()
