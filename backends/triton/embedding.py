"""Rows of a table by index; an index outside of the table gives zeros and reads nothing."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, widen
from portable.backends.triton._layout import cdiv, collapse, next_power_of_2, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._rows import warps_for
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.backends.triton.transpose import BY_SIZE
from portable.device import Device
from portable.op import Problem


@triton.jit
def embedding_kernel(
    table, indices, y, count, n, d, i1, s0, s1, t0, t1,
    BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y[r, :] = table[indices[r], :] for a block of rows and columns."""
    tiles = tl.cdiv(d, BLOCK_D)
    r = block_index(tl.program_id(0) // tiles, BLOCK_R, WIDE)
    col = block_index(tl.program_id(0) % tiles, BLOCK_D, WIDE)
    index = tl.load(indices + r // i1 * s0 + r % i1 * s1, mask=r < count, other=0).to(tl.int64)
    inside = (r < count) & (index >= 0) & (index < n)
    row = tl.where(inside, index, 0)
    live = (r < count)[:, None] & (col < d)[None, :]
    source = table + row[:, None] * t0 + widen(col, WIDE)[None, :] * t1
    value = tl.load(source, mask=live & inside[:, None], other=0)
    tl.store(y + r[:, None] * d + col[None, :], value, mask=live)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Any dtype of 1 to 8 bytes."""
    return refuse(problem, device, (*dtypes.FLOATS, *dtypes.INTEGERS, "bool", *EIGHT_BIT))


EIGHT_BIT = ("float8_e4m3fn", "float8_e5m2")


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Whole rows up to 2048 columns."""
    target, table = _target.of(device), problem["table"]
    found: list[Config] = []
    for elements in (1024, 2048, 4096):
        block_d = min(next_power_of_2(max(table.shape[1], 1)), elements)
        warps = warps_for(elements, target, most=8)
        found.append({"block_r": elements // block_d, "block_d": block_d, "num_warps": warps})
    return found


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """One launch over (rows, columns) blocks."""
    table, indices, out = problem["table"], problem["indices"], problem.results[0]
    n, d = table.shape
    shape, (steps,) = collapse(indices.shape, [strides_of(indices)])
    dense = {"indices": indices.shape} if len(shape) > 2 else {}
    if dense:
        shape, steps = [indices.size], [1]
    i1 = shape[1] if len(shape) == 2 else 1
    s0, s1 = [*steps, 0, 0][:2]
    t0, t1 = strides_of(table)
    block_r, block_d = int(config["block_r"]), int(config["block_d"])
    integer = BY_SIZE[table.itemsize]
    arguments = {
        "table": T("table", integer), "indices": T("indices"), "y": T("out", integer),
        "count": indices.size, "n": n, "d": d, "i1": i1, "s0": s0, "s1": s1, "t0": t0, "t1": t1,
        "BLOCK_R": block_r, "BLOCK_D": block_d, "WIDE": wide(problem),
    }  # fmt: skip
    grid = cdiv(indices.size, block_r) * cdiv(d, block_d)
    launch = Launch(embedding_kernel, grid, arguments, {"num_warps": int(config["num_warps"])})
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)}, dense=dense)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
