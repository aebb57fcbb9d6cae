"""What `portable.profile()` costs a call: 8x8 float32 products with and without, interleaved.

python -m bench.profile_overhead
"""

from __future__ import annotations

import statistics

import numpy as np

import portable
from bench.dispatch import nanoseconds

ROUNDS = 501


def main() -> None:
    """Print the median extra time of a profiled call."""
    a = np.ones((8, 8), np.float32)
    with portable.using(backend="numpy"):
        portable.matmul(a, a)
        plain, profiled = [], []
        with portable.profile():
            portable.matmul(a, a)
        for _ in range(ROUNDS):
            plain.append(nanoseconds(portable.matmul, a, a))
            with portable.profile():
                portable.matmul(a, a)  # the plan of this profile is built here
                profiled.append(nanoseconds(portable.matmul, a, a))
    extra = statistics.median(p - q for p, q in zip(profiled, plain, strict=True))
    print(f"profile(): {extra:.0f} ns a call over {statistics.median(plain):.0f} ns")


if __name__ == "__main__":
    main()
