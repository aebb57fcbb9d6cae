"""Convolution as one BLAS product per image and group over a gathered patch matrix."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.numpy._support import Array, quiet, result_dtype, store, wide_dtype
from portable.device import Device
from portable.op import Problem


def why_not(problem: Problem, device: Device) -> list[str]:
    """Takes everything."""
    return []


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Patches (channels kh kw, positions) by strides, one image at a time to bound memory."""
    dtype, compute = result_dtype(problem), wide_dtype(problem)
    stride, padding, dilation = (problem.param(n) for n in ("stride", "padding", "dilation"))
    groups = problem.param("groups")
    filters, channels, kh, kw = problem["w"].shape
    n, _, rows, columns = problem.results[0].shape

    def kernel(x: Array, w: Array, bias: Array | None = None) -> Array:
        y = np.empty((n, filters, rows, columns), dtype)
        if y.size == 0:
            return y
        matrix = w.astype(compute, copy=False).reshape(groups, filters // groups, -1)
        offset = None if bias is None else bias.astype(compute).reshape(groups, -1, 1)
        for image in range(n):
            wide = np.pad(
                x[image].astype(compute, copy=False), ((0, 0), *((p, p) for p in padding))
            )
            patches = _patches(wide, (kh, kw), (rows, columns), stride, dilation)
            patches = patches.reshape(groups, channels * kh * kw, rows * columns)
            part = np.matmul(matrix, patches)
            if offset is not None:
                part += offset
            store(y[image], part.reshape(filters, rows, columns))
        return y

    return quiet(kernel)


_Pair = tuple[int, int]


def _patches(x: Array, kernel: _Pair, out: _Pair, stride: _Pair, dilation: _Pair) -> Array:
    """View (channels, kh, kw, rows, columns) of a padded image (channels, h, w)."""
    c, h, w = x.strides
    return np.lib.stride_tricks.as_strided(
        x,
        (x.shape[0], *kernel, *out),
        (c, h * dilation[0], w * dilation[1], h * stride[0], w * stride[1]),
        writeable=False,
    )
