"""Running sums along one axis: one pass, or chunks (sum, scan the sums, scan again)."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, narrow, row_offset, widen
from portable.backends.triton._layout import Rows, cdiv, next_power_of_2, rows_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._rows import warps_for
from portable.backends.triton._support import FLOATS, refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem


@triton.jit
def scan_kernel(
    x, y, carry, rows, n, inner, each, x0, x1, xn, y0, y1, yn,
    PARTS: tl.constexpr, SUMS: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr,
    ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """Scans one part of each row, starting from `carry`; with SUMS only y[row, part] = its sum."""
    part = tl.program_id(0) % PARTS
    row = block_index(tl.program_id(0) // PARTS, BLOCK_R, WIDE)
    xp = x + row_offset(row, inner, x0, x1)[:, None]
    alive = (row < rows)[:, None]
    running = tl.zeros([BLOCK_R], ACC)
    if carry is not None:
        running = tl.load(carry + row * PARTS + part, mask=row < rows, other=0)
    first = widen(part, WIDE) * each
    for start in range(first, min(n, first + each), BLOCK_N):
        at = (start + widen(tl.arange(0, BLOCK_N), WIDE))[None, :]
        live = alive & (at < n)
        value = tl.load(xp + at * xn, mask=live, other=0).to(ACC)
        if SUMS:
            running += tl.sum(value, axis=1)
        else:
            result = tl.cumsum(value, axis=1) + running[:, None]
            yp = y + row_offset(row, inner, y0, y1)[:, None]
            tl.store(yp + at * yn, narrow(result, y.dtype.element_ty), mask=live)
            # the last column, picked: adding tl.sum(value) here breaks Triton 3.6's compiler
            last = (tl.arange(0, BLOCK_N) == BLOCK_N - 1)[None, :]
            running = tl.sum(tl.where(last, result, 0), axis=1).to(ACC)
    if SUMS:
        tl.store(y + row * PARTS + part, running, mask=row < rows)


@triton.jit
def carries_kernel(
    sums, carry, rows, BLOCK_R: tl.constexpr, PARTS: tl.constexpr, ACC: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """carry[row, part] = sums of all parts before it."""
    row = block_index(tl.program_id(0), BLOCK_R, WIDE)
    running = tl.zeros([BLOCK_R], ACC)
    for part in range(PARTS):
        tl.store(carry + row * PARTS + part, running, mask=row < rows)
        running += tl.load(sums + row * PARTS + part, mask=row < rows, other=0)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Floats and integers."""
    return refuse(problem, device, (*FLOATS, *dtypes.INTEGERS))


def layout(problem: Problem) -> Rows:
    """Rows of x and of the result along the axis."""
    return rows_of((problem["x"], problem.results[0]), problem.param("axis"))


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Tiles along or across rows; rows too few for the device are cut into parts."""
    target, rows = _target.of(device), layout(problem)
    long = next_power_of_2(max(rows.n, 1))
    if rows.across:
        tiles = [(64, min(long, 32)), (32, min(long, 32)), (128, min(long, 16))]
    else:
        pack = max(1, min(1024 // min(long, 1024), next_power_of_2(max(rows.rows, 1))))
        tiles = [(pack, min(long, size)) for size in (1024, 2048, 512)]
    units = target.units or 100
    found: list[Config] = []
    for block_r, block_n in dict.fromkeys(tiles):
        programs = cdiv(max(rows.rows, 1), block_r)
        room = next_power_of_2(max(1, rows.n // (4 * block_n)))
        parts = min(next_power_of_2(max(1, 2 * units // programs)), room, 512)
        warps = warps_for(block_r * block_n, target)
        found.append({"block_r": block_r, "block_n": block_n, "parts": parts, "num_warps": warps})
    return found


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """One launch, or three where rows are cut into parts."""
    rows, out = layout(problem), problem.results[0]
    block_r, block_n, parts = (int(config[key]) for key in ("block_r", "block_n", "parts"))
    acc, acc_name = _accumulator(problem.dtype)
    (x0, x1, xn), (y0, y1, yn) = rows.strides
    common: dict[str, Any] = {
        "x": T("x"), "rows": rows.rows, "n": rows.n, "inner": rows.inner,
        "each": cdiv(cdiv(rows.n, parts), block_n) * block_n, "x0": x0, "x1": x1, "xn": xn,
        "y0": y0, "y1": y1, "yn": yn, "PARTS": parts, "BLOCK_R": block_r, "BLOCK_N": block_n,
        "ACC": acc, "WIDE": wide(problem),
    }  # fmt: skip
    options = {"num_warps": int(config["num_warps"]), "num_stages": 2}
    grid = cdiv(rows.rows, block_r) * parts
    buffers = {"out": Buffer(out.shape, out.dtype)}
    launches = []
    if parts > 1:
        buffers |= {name: Buffer((rows.rows, parts), acc_name) for name in ("sums", "carry")}
        sums = common | {"y": T("sums"), "carry": None, "SUMS": True}
        launches.append(Launch(scan_kernel, grid, sums, options))
        lanes = min(128, next_power_of_2(max(rows.rows, 1)))
        carries = {"sums": T("sums"), "carry": T("carry"), "rows": rows.rows, "BLOCK_R": lanes,
                   "PARTS": parts, "ACC": acc, "WIDE": wide(problem)}  # fmt: skip
        launches.append(Launch(carries_kernel, cdiv(rows.rows, lanes), carries, {"num_warps": 4}))
    last = common | {"y": T("out"), "carry": T("carry") if parts > 1 else None, "SUMS": False}
    launches.append(Launch(scan_kernel, grid, last, options))
    dense = {"x": problem["x"].shape} if rows.dense else {}
    return Plan(tuple(launches), buffers, dense=dense)


def _accumulator(dtype: str) -> tuple[Any, str]:
    """Integers wrap around the same way in 64 bits and are cut at the end."""
    if not dtypes.is_float(dtype):
        return tl.int64, "int64"
    name = "float64" if dtype == "float64" else "float32"
    return getattr(tl, name), name


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
