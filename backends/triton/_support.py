"""Reasons that most implementations share."""

from __future__ import annotations

from collections.abc import Sequence

from portable import dtypes
from portable.backends.triton import _target
from portable.device import Device
from portable.op import Problem

FLOATS = ("float64", "float32", "float16", "bfloat16")


def refuse(problem: Problem, device: Device, allowed: Sequence[str] = FLOATS) -> list[str]:
    """Device without a code generator, dtype outside of `allowed`."""
    reasons = _target.unsupported(device)
    if problem.dtype not in allowed:
        names = ", ".join(dtypes.short(name) for name in allowed)
        reasons.append(f"dtype is {problem.dtype} (takes {names})")
    target = None if reasons else _target.of(device)
    if target and problem.dtype == "bfloat16" and 0 < target.capability < 80:
        reasons.append(f"bfloat16 on sm_{target.capability} (sm_80 or later)")
    return reasons
