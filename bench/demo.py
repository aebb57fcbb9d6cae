"""The main job: real layers of Llama-3.1-8B and BERT-base on this very machine.

    make demo            (or: python -m bench.demo [--share 0.8] [--limit 12] [--budget 3])

Looks at the machine, measures its roofs, times every eligible backend on the weightiest layers of
the two models, shows how far each is from the speed of light, which one a call is given to and how
portable each is over this machine's platforms (its libraries, and each OpenCL runtime),
builds those layers' kernels for GPUs that are not here (if Triton or NVRTC is installed), and
writes report.html and records.jsonl.
"""

from __future__ import annotations

import argparse
import math
import os
import time
from collections import Counter

from rich.console import Console
from rich.markup import escape

from portable import benching, calibrate, contest, registry, workloads
from portable.cli import doctor
from portable.cli_measure import progress_bar
from portable.crosscompile import crosscompile, show
from portable.report import summary

WORKLOADS = ("llama3.1-8b", "bert-base")
ELSEWHERE, PROBLEMS, BUILD_SECONDS = ("H200 SXM", "MI300X"), 3, 15.0
"""GPUs to build for, ops of each workload, and the time for it [s]; builds are kept."""
PROJECTED = ("H200 SXM", "MI300X", "B200", "TPU v6e")
"""Devices that the report shows beside the measured one: their speed of light, and a projection."""


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--share", type=float, default=0.8, help="share of the time to cover")
    parser.add_argument(
        "--limit",
        type=int,
        default=12,
        help="problems per workload at the most, and one of every other op",
    )
    parser.add_argument("--budget", type=float, default=3.0, help="seconds of timing a problem")
    parser.add_argument("--html", default="report.html")
    parser.add_argument("--records", default="records.jsonl")
    wish = parser.parse_args()
    console = Console(highlight=False)
    start = time.monotonic()

    console.rule("1. this machine")
    doctor()
    console.rule("2. its roofs")
    with progress_bar("calibrate") as report:
        console.print(escape(str(calibrate.calibrate(progress=report))))
    console.rule("3. two models on every backend")
    with progress_bar("bench") as report:
        benches = benching.bench(
            WORKLOADS, share=wish.share, limit=wish.limit, budget=wish.budget, progress=report
        )
    for name, bench in benches.items():
        console.print(benching.table(name, bench), soft_wrap=True)
    console.rule("4. what was chosen")
    console.print(escape(verdict(benches.values())))
    console.rule("5. the same layers on GPUs that are not here")
    compiled = compiled_elsewhere(console)
    console.rule("6. the report")
    benching.write(wish.records, benches.values())
    made = benching.write_html(wish.html, list(benches.values()), PROJECTED, compiled)
    for sentence in summary.sentences(made):
        console.print(f"• {escape(sentence)}")
    console.print(f"{wish.html} and {wish.records} are written; {time.monotonic() - start:.0f} s")


def compiled_elsewhere(console: Console) -> dict:
    """The weightiest full-size problems built for other targets; data of the report's section."""
    labelled = []
    for name in WORKLOADS:
        first = {}  # the weightiest problem of each op, the weightiest ops first
        for weighted in workloads.problems(workloads.load(name), scale="full"):
            first.setdefault(weighted.problem.op, weighted)
        for weighted in list(first.values())[:PROBLEMS]:
            labelled.append((f"{name}: {weighted.note or weighted.problem}", weighted.problem))
    with progress_bar("build") as report:
        found = crosscompile(
            problems=labelled, targets=ELSEWHERE, jobs=min(os.cpu_count() or 1, 8),
            budget=BUILD_SECONDS, progress=report,
        )  # fmt: skip
    if found.rows:
        console.print(show.table(found), soft_wrap=True)
        console.print(escape(show.summary(found)))
    for reason in found.skipped:
        console.print(f"not tried: {escape(str(reason))}")
    return show.data(found)


def verdict(benches) -> str:
    """How often each backend was chosen, the price of being wrong, and of never choosing."""
    problems = [p for b in benches for p in b.problems if p.result.best() is not None]
    chosen = Counter(p.chosen for p in problems)
    best = Counter(contest.candidate_name(p.result.best()) for p in problems)
    lines = ["chosen: " + ", ".join(f"{n} {c}x" for n, c in chosen.most_common())]
    lines.append("best:   " + ", ".join(f"{n} {c}x" for n, c in best.most_common()))
    regrets = [benching.regret(p) for p in problems]
    known = [r for r in regrets if r is not None]
    if known:
        lines.append(f"regret of the choices: geometric mean {geometric(known):.3f}, "
                     f"worst {max(known):.2f} over {len(known)} problems")  # fmt: skip
    for name in sorted({contest.candidate_name(r) for p in problems for r in p.result.records}):
        ratios = [benching.against(p, name) for p in problems]
        ran = [r for r in ratios if r is not None]
        lines.append(
            f"  against always {name}: {geometric(ran):.2f} times as fast "
            f"({len(ran)} of {len(problems)} problems it can run)"
            if ran
            else f"  always {name}: ran nothing"
        )
    return "\n".join(lines)


def geometric(values) -> float:
    """Geometric mean."""
    return math.exp(sum(map(math.log, values)) / len(values))


if __name__ == "__main__":
    registry.registered()
    main()
