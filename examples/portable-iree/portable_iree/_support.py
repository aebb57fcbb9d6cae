"""What the ops of this backend share."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np

from portable.backend import Config
from portable.device import Device
from portable.op import Problem

Array = np.ndarray[Any, np.dtype[Any]]

_TAKEN = {"llvm-cpu": ("float64", "float32"), "vulkan": ("float32",)}


def reasons(problem: Problem, device: Device, half: bool = False) -> list[str]:
    """Dtypes by runtime, and no empty tensors."""
    taken = _TAKEN.get(device.runtime, ("float32",))
    if half and device.runtime == "llvm-cpu":
        taken = (*taken, "float16")
    found = []
    if problem.dtype not in taken:
        found.append(f"dtype is {problem.dtype} ({device.runtime} takes {', '.join(taken)})")
    if any(t.size == 0 for t in (*problem.tensors, *problem.results)):
        found.append("a tensor is empty (takes tensors with elements)")
    return found


def nothing_to_tune(problem: Problem, device: Device) -> Sequence[Config]:
    """IREE chooses on its own."""
    return [{}]


def load(text: str, device: Device) -> Callable[..., Array]:
    """The module on the device's runtime."""
    from portable_iree import _runtime

    return _runtime.load(text, device.runtime)
