"""Cost of an array family's key, the part of a warm call that depends on the array library.

python -m bench.family_key

Prints the best of many rounds [ns]: one key, a look-up of two keys in a dictionary of plans, and
where the family has one the check of both at once.
"""

from __future__ import annotations

import importlib.util
import timeit
from collections.abc import Callable
from typing import Any

import numpy as np

from portable import registry
from portable.arrays import KEYS

CALLS, ROUNDS = 50_000, 15


def nanoseconds(call: Callable[[], Any]) -> float:
    """Least time of one call, over CALLS of them, less that of an empty one."""
    empty = min(timeit.repeat(lambda: None, number=CALLS, repeat=ROUNDS))
    return (min(timeit.repeat(call, number=CALLS, repeat=ROUNDS)) - empty) / CALLS * 1e9


def row(label: str, array: Any) -> None:
    """One line of the table."""
    key = KEYS[type(array)]
    plans = {(key(array), key(array)): 0}
    one = nanoseconds(lambda: key(array))
    two = nanoseconds(lambda: plans[key(array), key(array)])
    matcher = getattr(registry.family_of_type(type(array)), "matcher", None)
    matches = matcher((array, array)) if matcher else None
    if matches:
        quick = nanoseconds(lambda: matches(array, array))
        print(f"{label:24} one check of both {quick:6.0f} ns")
    print(f"{label:24} one key {one:6.0f} ns   two keys and the look-up {two:6.0f} ns")


def main() -> None:
    """The table, for the libraries that are installed."""
    x = np.ones((8, 8), np.float32)
    row("numpy", x)
    row("numpy, transposed", x.T)
    if importlib.util.find_spec("torch"):
        import torch

        row("torch", torch.from_numpy(x))
        row("torch, transposed", torch.from_numpy(x).T)
        row("torch, wants a gradient", torch.from_numpy(x).clone().requires_grad_())
    if importlib.util.find_spec("jax"):
        import jax

        row("jax", jax.numpy.asarray(x))


if __name__ == "__main__":
    main()
