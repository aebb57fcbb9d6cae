"""All ops, and the loops over their cases."""

from __future__ import annotations

import functools
import importlib

from portable import cases

NAMES = (
    "matmul", "linear", "softmax", "log_softmax", "layer_norm", "rms_norm", "add_rms_norm",
    "attention", "rope", "gelu", "swiglu", "sum", "max", "mean", "argmax", "cumsum", "transpose",
    "embedding", "cross_entropy", "conv2d", "quantized_matmul",
)  # fmt: skip


@functools.cache
def op(name):
    return importlib.import_module(f"portable.ops.{name}").OP


@functools.cache
def case(name, case_name):
    return next(c for c in op(name).cases() if c.name == case_name)


def posed(name, found, dtype, seed=0):
    """(problem, arrays) of a case."""
    arrays = cases.arrays(op(name), found, dtype, seed)
    return cases.problem_of(op(name), arrays, found), arrays
