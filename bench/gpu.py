"""The GPU's share of the acceptance figures: contests on the device, records kept.

    python -m bench.gpu [--device cuda:0] [--out records-gpu.jsonl] [--budget 2]

Prints, per problem, every backend's time against the best library and the speed of light:
bf16/f16/f32 matmul 8192 cubed, row-wise kernels against copy bandwidth, attention, and the
weightiest problems of Llama-3.1-8B at full scale. Needs a GPU; says so and stops without one.
"""

from __future__ import annotations

import argparse
import sys

from rich.console import Console
from rich.markup import escape

from portable import benching, calibrate, cases, contest, machine, registry
from portable import report as reports
from portable.cli_measure import progress_bar

LIST = (
    *(("matmul", ((8192, 8192), (8192, 8192)), d, {}) for d in ("bfloat16", "float16", "float32")),
    ("softmax", ((16384, 8192),), "bfloat16", {"axis": -1}),
    ("rms_norm", ((16384, 8192), (8192,)), "bfloat16", {}),
    ("layer_norm", ((16384, 8192), (8192,), (8192,)), "bfloat16", {}),
    ("swiglu", ((16384, 14336), (16384, 14336)), "bfloat16", {}),
    ("attention", ((4, 32, 4096, 128), (4, 8, 4096, 128), (4, 8, 4096, 128)), "bfloat16",
     {"causal": True}),
    ("attention", ((64, 32, 1, 128), (64, 8, 8192, 128), (64, 8, 8192, 128)), "bfloat16",
     {"causal": True}),
)  # fmt: skip


def main() -> None:
    """Run it."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--device", default="")
    parser.add_argument("--out", default="records-gpu.jsonl")
    parser.add_argument("--budget", type=float, default=2.0)
    wish = parser.parse_args()
    device = wish.device or next(
        (d for d in machine.devices() if d.startswith(("cuda", "rocm"))), ""
    )
    if not device:
        sys.exit("no GPU that a backend drives here: `portable doctor` tells why")
    console = Console(highlight=False, width=180)
    with progress_bar("calibrate") as report:
        console.print(escape(str(calibrate.calibrate(device, probes=False, progress=report))))
    rows = []
    for name, shapes, dtype, params in LIST:
        problem = cases.problem_of_shapes(registry.op(name), shapes, dtype, params)
        result = contest.contest(problem, device=device, budget=wish.budget)
        rows.append(benching.Benched(problem, 1.0, str(problem), result, "-"))
    weights = reports.from_entries("acceptance list", ((r.problem, 1.0, r.note) for r in rows))
    listed = benching.WorkloadBench(weights, rows)
    console.print(benching.table("acceptance list", listed), soft_wrap=True)
    done = benching.bench(
        ["llama3.1-8b"], device=device, scale="full", limit=16, budget=wish.budget
    )
    for name, bench in done.items():
        console.print(benching.table(name, bench), soft_wrap=True)
    count = benching.write(wish.out, [listed, *done.values()])
    console.print(f"{count} records in {wish.out}")


if __name__ == "__main__":
    main()
