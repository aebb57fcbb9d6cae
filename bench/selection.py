"""How near the choice is to the oracle: regret cold, calibrated, held out and tuned.

    python -m bench.selection [--workload NAME ...] [--limit 3] [--largest 2e9]

Every eligible backend is timed on every problem, interleaved: the oracle, measured last, so that
its records help nobody. The choices are asked for in four states of knowledge and judged by the
oracle's times: an empty store ("cold": shipped priors alone), after `portable calibrate`, after
tuning every second problem (judged on the others: "held out"), and after tuning all ("tuned").
Regret is the chosen candidate's time over the best one's; times are fastest samples, since what
disturbs a machine only adds.
"""

from __future__ import annotations

import argparse
import math
import os
import tempfile
from collections import Counter
from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.markup import escape
from rich.table import Table

DEFAULT = (
    "llama3.2-1b", "qwen2.5-0.5b", "bert-base", "t5-base", "vit-b16-l16", "whisper-tiny",
    "resnet50-inference", "trace-gpt2-train", "mistral-7b-v0.3-int8", "kernelbench-level1",
)  # fmt: skip
STATES = ("cold", "calibrated", "held out", "tuned")


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--workload", nargs="*", default=list(DEFAULT))
    parser.add_argument("--limit", type=int, default=3, help="problems per workload at the most")
    parser.add_argument("--largest", type=float, default=2e9, help="FLOP of a problem at the most")
    parser.add_argument("--budget", type=float, default=2.0, help="seconds of timing a problem")
    parser.add_argument("--tune-budget", type=float, default=2.0, help="seconds a problem")
    parser.add_argument("--calibrate-budget", type=float, default=60.0)
    wish = parser.parse_args()
    console = Console(highlight=False, width=180)
    with tempfile.TemporaryDirectory() as folder:
        os.environ["PORTABLE_DB"] = str(Path(folder) / "selection.sqlite")
        run(wish, console)


def run(wish: argparse.Namespace, console: Console) -> None:
    """Choices in every state first, the oracle last."""
    from portable import calibrate, engine, tuning
    from portable.cli_measure import progress_bar

    flat = problems(wish)
    choices = {"cold": chosen(flat)}
    with progress_bar("calibrate") as report:
        calibrate.calibrate(budget=wish.calibrate_budget, progress=report)
    choices["calibrated"] = chosen(flat)
    with progress_bar("tune") as report:
        for start, state in ((0, "held out"), (1, "tuned")):
            for index in range(start, len(flat), 2):
                report(index, len(flat), str(flat[index][1].problem))
                tuning.tune_problem(flat[index][1].problem, budget=wish.tune_budget)
            engine.refresh()
            choices[state] = chosen(flat)
    choices["held out"] = [
        name if index % 2 else "-" for index, name in enumerate(choices["held out"])
    ]
    with progress_bar("oracle") as report:
        times = oracle(flat, wish.budget, report)
    show(console, flat, choices, times)


def problems(wish: argparse.Namespace) -> list:
    """(workload, entry): the weightiest problems of each workload that are small enough."""
    from portable import registry, workloads

    found = []
    for name in wish.workload:
        entries = workloads.select(workloads.load(name), share=1.0, limit=40).problems
        small = [
            e
            for e in entries
            if registry.op(e.problem.op).cost(e.problem).flops <= wish.largest
            and all(e.problem != other.problem for _, other in found)
        ]
        found += [(name, e) for e in small[: wish.limit]]
    return found


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
        found.append(fastest(result.records))
    return found


def fastest(records) -> dict[str, float]:
    """Fastest sample of every candidate that was right."""
    from portable import contest

    return {contest.candidate_name(r): min(r.samples) for r in records if r.samples}


def show(console: Console, flat: Sequence, choices: dict, times: Sequence) -> None:
    """Regret per state, and the gain over every single-backend policy."""
    head = ("state", "judged", "chosen failed", "the best one", "geomean regret", "worst", "where")
    view = Table(*head, box=None)
    for state, names in choices.items():
        rows = [
            (times[i][name] / min(times[i].values()), flat[i][1].problem)
            for i, name in enumerate(names)
            if name in times[i]
        ]
        if not rows:
            continue
        worst, where = max(rows, key=lambda r: r[0])
        mean = geometric([r for r, _ in rows])
        # A first choice that failed in the oracle's run has no regret: it is counted, not hidden.
        failed = sum(1 for i, name in enumerate(names) if name != "-" and name not in times[i])
        hits = sum(ratio == 1.0 for ratio, _ in rows)
        cells = (str(hits), f"{mean:.3f}", f"{worst:.2f}", escape(str(where)))
        view.add_row(state, str(len(rows)), str(failed), *cells)
    console.print(view)
    for state, names in choices.items():
        counts = Counter(name for name in names if name != "-")
        told = ", ".join(f"{name} {count}" for name, count in counts.most_common())
        console.print(f"{state}: {escape(told)}")
    last = list(choices)[-1]
    for name in sorted({n for t in times for n in t}):
        ran = [t[name] / t[c] for t, c in zip(times, choices[last], strict=True)
               if name in t and c in t]  # fmt: skip
        console.print(
            f"{last} choice against always {escape(name)}: {geometric(ran):.2f} times as fast "
            f"({len(ran)} of {len(times)} problems)"
        )


def geometric(values: Sequence[float]) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values)) if values else math.nan


if __name__ == "__main__":
    main()
