"""Kernel and plan shared by softmax and log_softmax."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl

from portable.backend import Config
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, compute_type, narrow, row_offset, widen
from portable.backends.triton._layout import Rows, cdiv, rows_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T
from portable.backends.triton._rows import row_configs
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem


@triton.jit
def softmax_kernel(
    x, y, rows, n, inner, x0, x1, xn, y0, y1, yn,
    BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr, ONCE: tl.constexpr, LOG: tl.constexpr,
    ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """softmax over rows: in one tile (ONCE), or online over tiles with a second pass to write."""
    row = block_index(tl.program_id(0), BLOCK_R, WIDE)
    xp = x + row_offset(row, inner, x0, x1)[:, None]
    yp = y + row_offset(row, inner, y0, y1)[:, None]
    alive = (row < rows)[:, None]
    if ONCE:
        at = block_index(0 * tl.program_id(0), BLOCK_N, WIDE)[None, :]
        live = alive & (at < n)
        value = tl.load(xp + at * xn, mask=live, other=float("-inf")).to(ACC)
        top = tl.max(value, axis=1)[:, None]
        shifted = value - top
        power = tl.exp(shifted)
        total = tl.sum(power, axis=1)[:, None]
        result = shifted - tl.log(total) if LOG else power / total
        tl.store(yp + at * yn, narrow(result, y.dtype.element_ty), mask=live)
    else:
        top = tl.full([BLOCK_R], float("-inf"), ACC)
        total = tl.zeros([BLOCK_R], ACC)
        for start in range(0, n, BLOCK_N):
            at = (start + widen(tl.arange(0, BLOCK_N), WIDE))[None, :]
            value = tl.load(xp + at * xn, mask=alive & (at < n), other=float("-inf")).to(ACC)
            new_top = tl.maximum(top, tl.max(value, axis=1))
            # a row that is -inf so far must not make exp(-inf + inf) = NaN
            safe = tl.where(new_top == float("-inf"), 0.0, new_top)
            total = total * tl.exp(top - safe) + tl.sum(tl.exp(value - safe[:, None]), axis=1)
            top = new_top
        safe = tl.where(top == float("-inf"), 0.0, top)[:, None]
        scale = tl.log(total)[:, None] if LOG else (1.0 / total)[:, None]
        for start in range(0, n, BLOCK_N):
            at = (start + widen(tl.arange(0, BLOCK_N), WIDE))[None, :]
            live = alive & (at < n)
            value = tl.load(xp + at * xn, mask=live, other=0.0).to(ACC) - safe
            result = value - scale if LOG else tl.exp(value) * scale
            tl.store(yp + at * yn, narrow(result, y.dtype.element_ty), mask=live)


def plan(problem: Problem, target: Target, config: Config, log: bool) -> Plan:
    """One launch; programs own `block_r` rows."""
    rows = layout(problem)
    block_r, block_n = int(config["block_r"]), int(config["block_n"])
    (x0, x1, xn), (y0, y1, yn) = rows.strides
    arguments = {
        "x": T("x"), "y": T("out"), "rows": rows.rows, "n": rows.n, "inner": rows.inner,
        "x0": x0, "x1": x1, "xn": xn, "y0": y0, "y1": y1, "yn": yn,
        "BLOCK_R": block_r, "BLOCK_N": block_n, "ONCE": block_n >= rows.n, "LOG": log,
        "ACC": compute_type(problem.dtype), "WIDE": wide(problem),
    }  # fmt: skip
    launch = Launch(
        softmax_kernel,
        cdiv(rows.rows, block_r),
        arguments,
        {"num_warps": int(config["num_warps"]), "num_stages": 2},
    )
    out = problem.results[0]
    dense = {"x": problem["x"].shape} if rows.dense else {}
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)}, dense=dense)


def layout(problem: Problem) -> Rows:
    """Rows of x and of the result along the axis."""
    return rows_of((problem["x"], problem.results[0]), problem.param("axis"))


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Whole rows first; loops where a row is longer than the registers."""
    return row_configs(layout(problem), problem["x"].itemsize, _target.of(device))
