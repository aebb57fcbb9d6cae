"""Softmax on the toy; a config chooses how the rows are cut."""

from __future__ import annotations

import numpy as np
import toylib


def why_not(problem, device):
    good = problem.dtype == "float32"
    return [] if good else [f"dtype is {problem.dtype} (takes float32)"]


def configs(problem, device):
    return [{"lanes": 4}, {"lanes": 1}]


def compile(problem, device, config):
    axis = problem.param("axis")

    def work(source, out):
        with np.errstate(all="ignore"):
            top = source.data.max(axis, keepdims=True, initial=-np.inf)
            e = np.exp(source.data - top)
            np.divide(e, e.sum(axis, keepdims=True), out)

    def kernel(x):
        return toylib.Array.launch(x.shape, x.dtype, lambda out: work(x, out))

    return kernel
