"""torch.nn.functional.cross_entropy, in float32 for half types."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from torch.nn import functional as F

from portable.backend import Config, Kernel
from portable.backends.torch._support import dtype_of, float_reasons, wide
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """float64 on MPS."""
    return float_reasons(problem, device)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """F.cross_entropy; without ignore_index no class is left out."""
    compute, dtype = wide(problem.dtype), dtype_of(problem)
    reduction, ignore = problem.param("reduction"), problem.param("ignore_index")
    ignore = _NO_CLASS if ignore is None else ignore

    def kernel(logits: Any, targets: Any) -> Any:
        wide_logits, index = logits.to(compute), targets.long()
        loss = F.cross_entropy(wide_logits, index, reduction=reduction, ignore_index=ignore)
        return loss.to(dtype)

    return kernel


_NO_CLASS = -(2**63)
