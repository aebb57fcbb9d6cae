"""Overhead of a warm call: direct, `portable.matmul`, bound; 8x8 float32, interleaved.

python -m bench.dispatch
"""

from __future__ import annotations

import statistics
import subprocess
import sys
import time

import numpy as np

import portable

CALLS, ROUNDS = 100, 2001  # short rounds: a preempted one is an outlier, not the median


def nanoseconds(call, a, b) -> float:
    """Time of one call, over CALLS of them."""
    start = time.perf_counter_ns()
    for _ in range(CALLS):
        call(a, b)
    return (time.perf_counter_ns() - start) / CALLS


def contest(label: str, direct, a, b) -> None:
    """Interleaved medians of the three ways to one library."""
    with portable.using(backend=label):
        bound = portable.bind("matmul", a, b)
        ways = {"direct": direct, "portable.matmul": portable.matmul, "bound": bound}
        times: dict[str, list[float]] = {name: [] for name in ways}
        for _ in range(ROUNDS):
            for name, call in ways.items():
                times[name].append(nanoseconds(call, a, b))
    base = times["direct"]
    for name, samples in times.items():
        extra = statistics.median(s - d for s, d in zip(samples, base, strict=True))
        print(f"{label:6} {name:16} {statistics.median(samples):8.0f} ns   extra {extra:6.0f} ns")


def import_time() -> float:
    """Median seconds of `import portable`, over the interpreter's own start."""

    def run(code: str) -> float:
        start = time.perf_counter()
        subprocess.run([sys.executable, "-c", code], check=True)
        return time.perf_counter() - start

    pairs = [(run("import portable"), run("pass")) for _ in range(9)]
    return statistics.median(with_ - without for with_, without in pairs)


def main() -> None:
    """Print the table."""
    a = np.random.rand(8, 8).astype("float32")
    contest("numpy", np.matmul, a, a)
    try:
        import torch
    except ImportError:
        print("torch is not installed: skipped")
    else:
        t = torch.from_numpy(a)
        contest("torch", torch.matmul, t, t)
    print(f"import portable: {import_time() * 1e3:.0f} ms")


if __name__ == "__main__":
    main()
