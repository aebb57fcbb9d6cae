"""How often Intel's CPU runtime ties a worker to one core, and what that costs.

    python -m bench.worker_affinity [--processes 20]

Every process times ten blocks of 200 calls of one kernel (layer_norm of 384x768 float32), with the
runtime's threads as it leaves them or freed as the opencl backend does it, in turns.
"""

from __future__ import annotations

import argparse
import contextlib
import json
import os
import subprocess
import sys
import time
from pathlib import Path
from statistics import median


def child(freed: bool) -> None:
    """Print the median time [s] of each block and how many threads may use fewer cores than we."""
    import numpy as np

    import portable
    from portable.backends.opencl import _threads

    if not freed:
        _threads.freed = lambda runtime: contextlib.nullcontext()  # type: ignore[assignment]
    arrays = [np.ones(shape, np.float32) for shape in ((384, 768), (768,), (768,))]
    with portable.using(backend="opencl[intel]"):
        blocks = [block(lambda: portable.layer_norm(*arrays)) for _ in range(10)]
    threads = [int(task.name) for task in Path("/proc/self/task").iterdir()]
    tied = [t for t in threads if os.sched_getaffinity(t) < os.sched_getaffinity(0)]
    print(json.dumps({"blocks": blocks, "tied": len(tied)}))


def block(call) -> float:
    """Median of 200 calls, after a pause in which the threads fall asleep."""
    time.sleep(0.05)
    times = []
    for _ in range(200):
        start = time.perf_counter()
        call()
        times.append(time.perf_counter() - start)
    return median(times)


def main() -> None:
    """Run the processes in turns and print what they found."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--processes", type=int, default=20)
    parser.add_argument("--child", choices=("left", "freed"))
    wish = parser.parse_args()
    if wish.child:
        child(wish.child == "freed")
        return
    found: dict[str, list[dict]] = {"left": [], "freed": []}
    for _ in range(wish.processes):
        for mode, results in found.items():
            command = [sys.executable, "-m", "bench.worker_affinity", "--child", mode]
            environment = {**os.environ, "PORTABLE_DB": ":memory:"}
            done = subprocess.run(
                command, env=environment, capture_output=True, text=True, timeout=60, check=True
            )
            results.append(json.loads(done.stdout.splitlines()[-1]))
    for mode, results in found.items():
        blocks = sorted(b for r in results for b in r["blocks"])
        tied = sum(bool(r["tied"]) for r in results)
        low, middle, high = (blocks[len(blocks) * n // 100] * 1e6 for n in (10, 50, 90))
        print(f"threads {mode}: a worker tied in {tied} of {len(results)} processes; blocks take "
              f"{low:.0f}, {middle:.0f}, {high:.0f} us at percentiles 10, 50, 90")  # fmt: skip


if __name__ == "__main__":
    main()
