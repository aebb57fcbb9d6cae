"""Numba against every backend installed, on problems of several ops: who is fastest, who is chosen.

    pip install portable-kernels ./examples/portable-numba torch jax pyopencl intel-opencl-rt
    PORTABLE_DB=contest.sqlite python examples/portable-numba/contest.py

Candidates of a problem are checked against their error bound, then timed interleaved in one
process; medians of whole calls on NumPy arrays. The records go to the store named by PORTABLE_DB,
and `portable` is then asked whom it would choose on such arrays. Run it on an idle machine.
"""

from __future__ import annotations

import sys

import portable
from portable import cases, engine, records, registry
from portable.contest import contest

PROBLEMS = [
    ("cumsum", [(64, 1024)], "float64", {"axis": 1}),
    ("cumsum", [(4096, 4096)], "float32", {"axis": 1}),
    ("embedding", [(32000, 4096), (512,)], "float32", {}),
    ("layer_norm", [(4096, 1024), (1024,), (1024,)], "float64", {}),
    ("rms_norm", [(4096, 1024), (1024,)], "float64", {}),
    ("add_rms_norm", [(1, 4096), (1, 4096), (4096,)], "float32", {}),
    ("add_rms_norm", [(2048, 4096), (2048, 4096), (4096,)], "float64", {}),
    ("cross_entropy", [(8, 1000), (8,)], "float32", {}),
    ("cross_entropy", [(64, 32000), (64,)], "float32", {}),
    ("argmax", [(32, 32)], "float32", {"axis": 1}),
    ("softmax", [(4096, 1024)], "float64", {"axis": 1}),
]
BUDGET = 3.0
"""Seconds of timing per problem, all candidates together."""


def main() -> None:
    """One line per problem."""
    if "numba" not in registry.registered():
        sys.exit("the plugin is not installed: pip install ./examples/portable-numba")
    print("| problem | numba [µs] | best other | its time [µs] | numba is | chosen |")
    print("|---|---|---|---|---|---|")
    for op, shapes, dtype, params in PROBLEMS:
        problem = cases.problem_of_shapes(registry.op(op), shapes, dtype, params)
        result = contest(problem, budget=BUDGET, configs=2)
        records.default_store().add(result.records)
        engine.refresh()
        good = [r for r in result.records if r.ok]
        ours = min(r.time for r in good if r.backend == "numba")
        other = min((r for r in good if r.backend != "numba"), key=lambda r: r.time)
        name = other.backend + (f"[{other.runtime}]" if other.runtime else "")
        ratio = other.time / ours
        verdict = f"{ratio:.2f} x faster" if ratio > 1 else f"{1 / ratio:.2f} x slower"
        arrays = cases.problem_arrays(problem)
        chosen = portable.explain(op, *arrays, **params).candidates[0].name
        shape = ", ".join("x".join(map(str, s)) for s in shapes)
        print(f"| {op} {shape} {dtype} | {ours * 1e6:.0f} | {name} | {other.time * 1e6:.0f} "
              f"| {verdict} | {chosen} |", flush=True)  # fmt: skip


if __name__ == "__main__":
    main()
