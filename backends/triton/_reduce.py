"""Kernels and plans of the reductions: sum, mean, max, argmax."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import triton
import triton.language as tl

from portable import dtypes
from portable.backend import Config
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, compute_type, narrow, widen
from portable.backends.triton._layout import (
    cdiv,
    collapse,
    next_power_of_2,
    span,
    strides_of,
    wide,
)
from portable.backends.triton._plan import Buffer, Launch, Plan, T
from portable.backends.triton._rows import warps_for
from portable.backends.triton._support import FLOATS, refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem, contiguous_strides

AXES = 3
"""Kept and reduced axes the kernels index after merging, each."""


@triton.jit
def offset3(index, e1, e2, s0, s1, s2):
    """Offset of a row-major index into three axes."""
    return (index // e2 // e1) * s0 + (index // e2 % e1) * s1 + (index % e2) * s2


@triton.jit
def reduce_kernel(
    x, y, rows, n, each, divisor, k1, k2, xk0, xk1, xk2, r1, r2, xr0, xr1, xr2,
    FORM: tl.constexpr, SPLIT: tl.constexpr, INIT: tl.constexpr, FLOAT: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y[row, part]: sum or max over one part of a row; a mean is divided by `divisor`."""
    part = tl.program_id(0) % SPLIT
    row = block_index(tl.program_id(0) // SPLIT, BLOCK_R, WIDE)
    xp = x + offset3(row, k1, k2, xk0, xk1, xk2)[:, None]
    alive = (row < rows)[:, None]
    acc = tl.full([BLOCK_R, BLOCK_N], INIT, ACC)
    first = widen(part, WIDE) * each
    for start in range(first, min(n, first + each), BLOCK_N):
        at = start + widen(tl.arange(0, BLOCK_N), WIDE)
        live = alive & (at < n)[None, :]
        value = tl.load(xp + offset3(at, r1, r2, xr0, xr1, xr2)[None, :], mask=live, other=0)
        value = tl.where(live, value.to(ACC), INIT).to(ACC)
        if FORM == "max":
            if FLOAT:
                acc = tl.maximum(acc, value, propagate_nan=tl.PropagateNan.ALL)
            else:
                acc = tl.maximum(acc, value)
        else:
            acc += value
    if FORM == "max":
        if FLOAT:
            missing = tl.max((acc != acc).to(tl.int32), axis=1)
            result = tl.max(tl.where(acc != acc, float("-inf"), acc), axis=1)
            result = tl.where(missing != 0, float("nan"), result)
        else:
            result = tl.max(acc, axis=1).to(ACC)
    else:
        result = tl.sum(acc, axis=1)
        if FORM == "mean":
            result = result / divisor
    tl.store(y + row * SPLIT + part, narrow(result, y.dtype.element_ty), mask=row < rows)


@triton.jit
def argmax_kernel(
    x, index, best, y, rows, n, each, k1, k2, xk0, xk1, xk2, r1, r2, xr0, xr1, xr2,
    SPLIT: tl.constexpr, INIT: tl.constexpr, FLOAT: tl.constexpr,
    BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y[row, part]: where the first NaN or else the first largest element of a part is.

    `best` receives that element when the parts are compared by a second launch, which then reads
    the positions the parts found from `index`.
    """
    part = tl.program_id(0) % SPLIT
    row = block_index(tl.program_id(0) // SPLIT, BLOCK_R, WIDE)
    xp = x + offset3(row, k1, k2, xk0, xk1, xk2)[:, None]
    alive = (row < rows)[:, None]
    nowhere = 0x7FFFFFFFFFFFFFFF
    top = tl.full([BLOCK_R], INIT, ACC)
    where = tl.full([BLOCK_R], nowhere, tl.int64)
    nan_at = tl.full([BLOCK_R], nowhere, tl.int64)
    first = widen(part, WIDE) * each
    for start in range(first, min(n, first + each), BLOCK_N):
        at = start + widen(tl.arange(0, BLOCK_N), WIDE)
        live = alive & (at < n)[None, :]
        value = tl.load(xp + offset3(at, r1, r2, xr0, xr1, xr2)[None, :], mask=live, other=0)
        value = value.to(ACC)
        place = tl.where(live, at.to(tl.int64)[None, :], nowhere)
        if FLOAT:
            nan_at = tl.minimum(nan_at, tl.min(tl.where(value != value, place, nowhere), axis=1))
            value = tl.where(value != value, INIT, value)
        value = tl.where(live, value, INIT).to(ACC)
        high = tl.max(value, axis=1).to(ACC)
        here = tl.min(tl.where(value == high[:, None], place, nowhere), axis=1)
        better = (high > top) | (where == nowhere)
        where = tl.where(better, here, where)
        top = tl.where(better, high, top)
    if FLOAT:
        top = tl.where(nan_at != nowhere, float("nan"), top)
        where = tl.where(nan_at != nowhere, nan_at, where)
    out = row * SPLIT + part
    if best is not None:
        tl.store(best + out, top.to(best.dtype.element_ty), mask=row < rows)
    if index is not None:
        where = tl.load(index + row * n + where, mask=row < rows, other=0)
    tl.store(y + out, where, mask=row < rows)


@dataclass(frozen=True, slots=True)
class Reduction:
    """Kept and reduced axes after merging: extents and strides, padded to AXES."""

    rows: int
    n: int
    kept: tuple[list[int], list[int]]
    reduced: tuple[list[int], list[int]]
    dense: bool
    fits: bool

    @property
    def across(self) -> bool:
        """Whether neighbouring rows, not neighbours in a row, are adjacent in memory."""
        extents, strides = self.kept
        return self.rows > 1 and self.n > 1 and strides[_last(extents)] == 1

    def arguments(self) -> dict[str, int]:
        """Extents and strides by parameter name."""
        (_, k1, k2), (xk0, xk1, xk2) = self.kept
        (_, r1, r2), (xr0, xr1, xr2) = self.reduced
        return {
            "rows": self.rows, "n": self.n, "k1": k1, "k2": k2, "xk0": xk0, "xk1": xk1,
            "xk2": xk2, "r1": r1, "r2": r2, "xr0": xr0, "xr1": xr1, "xr2": xr2,
        }  # fmt: skip


def _last(extents: list[int]) -> int:
    return max((i for i, n in enumerate(extents) if n > 1), default=0)


def axes_of(problem: Problem) -> tuple[int, ...]:
    """The reduced axes, argmax's None included."""
    axis = problem.param("axis")
    if axis is None:
        return tuple(range(problem["x"].ndim))
    return axis if isinstance(axis, tuple) else (axis,)


def reduction(problem: Problem) -> Reduction:
    """Merged axes of x, row-major if its own strides do not merge enough."""
    x, axes = problem["x"], axes_of(problem)
    keep = [i for i in range(x.ndim) if i not in axes]
    for dense in (False, True):
        strides = contiguous_strides(x.shape) if dense else strides_of(x)
        kept, (ks,) = collapse([x.shape[i] for i in keep], [[strides[i] for i in keep]])
        over, (rs,) = collapse([x.shape[i] for i in axes], [[strides[i] for i in axes]])
        fits = max(len(kept), len(over)) <= AXES
        if fits:
            break
    rows, n = (math.prod(x.shape[i] for i in group) for group in (keep, axes))
    return Reduction(rows, n, _padded(kept, ks), _padded(over, rs), dense, fits)


def _padded(extents: list[int], strides: list[int]) -> tuple[list[int], list[int]]:
    missing = AXES - len(extents)
    return extents + [1] * missing, strides + [0] * missing


def why_not(problem: Problem, device: Device) -> list[str]:
    """Any real dtype; at most AXES kept and AXES reduced axes after merging."""
    reasons = refuse(problem, device, (*FLOATS, *dtypes.INTEGERS, "bool"))
    if not reduction(problem).fits:
        reasons.append(f"axes do not merge into {AXES} kept and {AXES} reduced ones")
    return reasons


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Tiles along rows or across them, with parts of a row where rows alone are too few."""
    target, shape = _target.of(device), reduction(problem)
    long = next_power_of_2(max(shape.n, 1))
    if shape.across:
        tiles = [(64, min(long, 32)), (128, min(long, 16)), (32, min(long, 64))]
    else:
        pack = max(1, min(1024 // min(long, 1024), next_power_of_2(max(shape.rows, 1))))
        tiles = [(pack, min(long, size)) for size in (2048, 4096, 1024)]
    units = target.units or 100
    found: list[Config] = []
    for block_r, block_n in dict.fromkeys(tiles):
        programs = cdiv(max(shape.rows, 1), block_r)
        room = max(1, shape.n // (4 * block_n))
        split = min(next_power_of_2(max(1, 4 * units // programs)), next_power_of_2(room), 256)
        warps = warps_for(block_r * block_n, target)
        found.append({"block_r": block_r, "block_n": block_n, "split": split, "num_warps": warps})
    return found


def accumulator(form: str, dtype: str) -> tuple[Any, str, Any]:
    """(Triton dtype, canonical dtype, neutral element) of a reduction."""
    kind = dtypes.info(dtype).kind
    if kind == "f" or form == "mean":
        name = "float64" if dtype == "float64" or kind != "f" else "float32"
        return compute_type(name), name, float("-inf") if form == "max" else 0.0
    if form != "max":
        return tl.int64, "int64", 0
    if kind == "b":
        return tl.uint8, "uint8", 0
    signed, bits = kind == "i", 8 * dtypes.itemsize(dtype)
    return getattr(tl, dtype), dtype, -(2 ** (bits - 1)) if signed else 0


def plan(problem: Problem, target: Target, config: Config, form: str) -> Plan:
    """One launch, or one over the parts of the rows and one over the partial results."""
    shape, out = reduction(problem), problem.results[0]
    split = int(config["split"])
    acc, acc_name, init = accumulator("max" if form == "argmax" else form, problem.dtype)
    common: dict[str, Any] = {
        "INIT": init, "ACC": acc, "FLOAT": dtypes.is_float(problem.dtype) or form == "mean",
        "WIDE": wide(problem) or span(problem["x"]) >= 2**30,
    }  # fmt: skip
    if form == "argmax":
        common |= {"index": None, "best": None}
    else:
        common |= {"FORM": form, "divisor": shape.n}
    boolean = "uint8" if problem.dtype == "bool" else ""
    result = T("out", "uint8" if out.dtype == "bool" else "")
    first = {**common, **shape.arguments(), **_tile(config), "x": T("x", boolean), "y": result}
    first |= {"SPLIT": split, "each": _each(shape.n, split, int(config["block_n"]))}
    buffers = {"out": Buffer(out.shape, out.dtype)}
    launches = []
    blocks = cdiv(shape.rows, first["BLOCK_R"])
    if split > 1:
        first |= {"y": T("partial"), "divisor": 1} if form != "argmax" else {}
        second = {**common, **_over_parts(shape.rows, split), "y": result}
        if form == "argmax":
            first |= {"y": T("places"), "best": T("partial")}
            second |= {"index": T("places"), "x": T("partial")}
            buffers["places"] = Buffer((shape.rows, split), "int64")
        buffers["partial"] = Buffer((shape.rows, split), acc_name)
        programs = cdiv(shape.rows, second["BLOCK_R"])
        launches.append(_launch(form, first, blocks * split, config))
        launches.append(_launch(form, second, programs, {"num_warps": 4}))
    else:
        launches.append(_launch(form, first, blocks, config))
    dense = {"x": problem["x"].shape} if shape.dense else {}
    return Plan(tuple(launches), buffers, dense=dense)


def _tile(config: Config) -> dict[str, int]:
    return {"BLOCK_R": int(config["block_r"]), "BLOCK_N": int(config["block_n"])}


def _each(n: int, split: int, block_n: int) -> int:
    return cdiv(cdiv(n, split), block_n) * block_n


def _over_parts(rows: int, split: int) -> dict[str, Any]:
    block_r = max(1, min(1024 // split, next_power_of_2(max(rows, 1))))
    return {
        "x": T("partial"), "rows": rows, "n": split, "each": split, "SPLIT": 1, "k1": 1, "k2": 1,
        "xk0": split, "xk1": 0, "xk2": 0, "r1": 1, "r2": 1, "xr0": 1, "xr1": 0, "xr2": 0,
        "BLOCK_R": block_r, "BLOCK_N": split,
    }  # fmt: skip


def _launch(form: str, arguments: dict[str, Any], grid: int, config: Config) -> Launch:
    kernel = argmax_kernel if form == "argmax" else reduce_kernel
    if form == "argmax":
        arguments = {k: v for k, v in arguments.items() if k not in ("FORM", "divisor")}
    return Launch(kernel, grid, arguments, {"num_warps": int(config["num_warps"]), "num_stages": 3})
