"""torch.nn.functional.embedding."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch
from torch.nn import functional as F

from portable.backend import Config, Kernel
from portable.backends.torch._support import float_reasons
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
    """F.embedding; index types other than int32 and int64 are widened."""
    index = problem["indices"].dtype
    narrow = index not in ("int32", "int64")
    stand_in = _STAND_IN.get(problem["table"].dtype)

    def kernel(table: Any, indices: Any) -> Any:
        indices = indices.long() if narrow else indices
        if stand_in is None:
            return F.embedding(indices, table)
        return F.embedding(indices, table.view(stand_in)).view(table.dtype)

    return kernel


# Types without a gather kernel of their own travel under a type of their size.
_STAND_IN = {
    "bool": torch.uint8, "float8_e4m3fn": torch.uint8, "float8_e5m2": torch.uint8,
    "uint16": torch.int16, "uint32": torch.int32, "uint64": torch.int64,
}  # fmt: skip
