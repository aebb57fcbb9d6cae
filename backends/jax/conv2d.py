"""Convolution by XLA, jitted; half types accumulate in float32."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.jax._jit import accumulator, jitted, precision, wide
from portable.backends.jax._load import jax, jnp
from portable.device import Device
from portable.op import Problem

DIFFERENTIABLE = True
TRACEABLE = True


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune: XLA decides."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """lax.conv_general_dilated in NCHW and OIHW."""
    total, how = accumulator(problem.dtype), precision(problem)
    stride, dilation, groups = (problem.param(n) for n in ("stride", "dilation", "groups"))
    padding = [(p, p) for p in problem.param("padding")]
    shape = problem.results[0].shape

    def conv2d(x: Any, w: Any, bias: Any = None) -> Any:
        if 0 in shape or 0 in x.shape:
            y = jnp.zeros(shape, total)
        else:
            y = jax.lax.conv_general_dilated(
                x,
                w,
                window_strides=stride,
                padding=padding,
                rhs_dilation=dilation,
                dimension_numbers=("NCHW", "OIHW", "NCHW"),
                feature_group_count=groups,
                precision=how,
                preferred_element_type=total,
            )
        if bias is not None:
            y = y + wide(bias)[:, None, None]
        return y.astype(x.dtype)

    return jitted(problem, conv2d)
