"""Compiles a loop once per dtype and threading, and lets threads call it."""

from __future__ import annotations

import contextlib
import functools
import importlib
import threading
from collections.abc import Callable, Sequence
from typing import Any

import numba
import numpy as np
from numba import types

from portable.backend import Config
from portable.op import Problem

Array = np.ndarray[Any, np.dtype[Any]]

SMALL = 1 << 15
"""Elements below which starting the other threads costs more than they save."""

FAST = {"reassoc", "contract", "arcp"}
"""Sums may be split over vector lanes; NaN, infinities and signed zeros keep their meaning."""


def floats_only(problem: Problem) -> list[str]:
    """Why the problem's dtype is not taken."""
    taken = ("float64", "float32")
    dtype = problem.dtype
    return [] if dtype in taken else [f"dtype is {dtype} (takes {', '.join(taken)})"]


def thread_configs(problem: Problem) -> list[Config]:
    """All cores or one, the likelier first."""
    both: list[Config] = [{"threads": "all"}, {"threads": "one"}]
    return both if problem.tensors[0].size >= SMALL else both[::-1]


def read(dtype: str | np.dtype[Any], ndim: int) -> Any:
    """Type of an input: C order, may be read-only."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C", readonly=True)


def write(dtype: str | np.dtype[Any], ndim: int) -> Any:
    """Type of an output."""
    return types.Array(numba.from_dtype(np.dtype(dtype)), ndim, "C")


@functools.cache
def build(
    function: Callable[..., Any], arguments: tuple[Any, ...], threads: str
) -> Callable[..., Any]:
    """The function compiled for argument types; `numba.prange` runs on all cores or on one."""
    parallel = threads == "all"
    # No cache on disk: it would lie in the package's folder and outlive the package.
    compiled: Callable[..., Any] = numba.njit(
        [types.void(*arguments)], parallel=parallel, nogil=True, fastmath=FAST, error_model="numpy",
    )(function)  # fmt: skip
    if not parallel:
        return compiled
    guard = _guard()

    def run(*given: Any) -> Any:
        with guard:
            return compiled(*given)

    return run


@functools.cache
def _guard() -> Any:
    """Numba's own thread pool ("workqueue") must not be entered twice; OpenMP's and TBB's may."""
    for layer in ("omppool", "tbbpool"):
        try:
            importlib.import_module(f"numba.np.ufunc.{layer}")
        except ImportError:
            continue
        return contextlib.nullcontext()
    return threading.Lock()


def rows(array: Array, axis: int = -1) -> Array:
    """The array as (rows, n) with `axis` last; a copy only where strides need one."""
    last = np.moveaxis(array, axis, -1)
    return np.ascontiguousarray(last.reshape(-1, array.shape[axis]))


def prefer(problem: Problem, config: Config) -> str:
    """The threading asked for by a config."""
    return str(config.get("threads", "all"))


__all__: Sequence[str] = ("build", "floats_only", "prefer", "read", "rows", "thread_configs")
