"""What policy="adaptive" costs: 10,000 calls under both policies, in interleaved blocks.

python -m bench.adaptive
"""

from __future__ import annotations

import time
from statistics import median

import numpy as np

import portable

ROUNDS, CALLS = 50, 200


def ratio(rounds: int = ROUNDS, calls: int = CALLS) -> tuple[float, float]:
    """Median over blocks of time(adaptive) / time(auto), and of time(auto) / time(auto)."""
    x = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    order = ("auto", "adaptive", "auto")
    for policy in order:
        with portable.using(policy=policy):
            portable.softmax(x)
    changed, same = [], []
    for _ in range(rounds):
        first, adaptive, second = (block(policy, x, calls) for policy in order)
        changed.append(2 * adaptive / (first + second))
        same.append(second / first)
    return median(changed), median(same)


def block(policy: str, x: np.ndarray, calls: int) -> float:
    """Seconds of calls under a policy."""
    with portable.using(policy=policy):
        start = time.perf_counter()
        for _ in range(calls):
            portable.softmax(x)
        return time.perf_counter() - start


def main() -> None:
    """Print the ratio, and that of a policy with itself as the noise."""
    adaptive, noise = ratio()
    print(f"{ROUNDS * CALLS} calls of softmax 64x512: adaptive takes {adaptive:.3f} of auto's time")
    print(f"auto against itself: {noise:.3f}")


if __name__ == "__main__":
    main()
