"""Kernel and plan shared by layer_norm, rms_norm and add_rms_norm."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from portable.backend import Config
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, compute_type, narrow, row_offset, widen
from portable.backends.triton._layout import Rows, cdiv, rows_of, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T
from portable.backends.triton._rows import row_configs
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem


@triton.jit
def load_row(xp, rp, s, at, xn, rn, live, ADD: tl.constexpr, ACC: tl.constexpr):
    """x, or x + residual rounded to the dtype of the sum that is stored."""
    value = tl.load(xp + at * xn, mask=live, other=0.0).to(ACC)
    if ADD:
        value += tl.load(rp + at * rn, mask=live, other=0.0).to(ACC)
        value = narrow(value, s.dtype.element_ty).to(ACC)
    return value


@triton.jit
def norm_kernel(
    x, residual, weight, bias, y, s, rows, n, inner,
    x0, x1, xn, r0, r1, rn, y0, y1, yn, wn, bn,
    BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr, ONCE: tl.constexpr, CENTER: tl.constexpr,
    EPS: tl.constexpr, ADD: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y = (v - mean) / sqrt(mean square + EPS) * weight + bias; v = x (+ residual, kept in s).

    The mean (CENTER only) is taken first and the squares are of the centred values: no
    cancellation when the mean is large. Rows longer than a tile are read once per step.
    """
    row = block_index(tl.program_id(0), BLOCK_R, WIDE)
    xp = x + row_offset(row, inner, x0, x1)[:, None]
    rp = xp
    if ADD:
        rp = residual + row_offset(row, inner, r0, r1)[:, None]
    out = row_offset(row, inner, y0, y1)[:, None]
    alive = (row < rows)[:, None]
    if ONCE:
        at = block_index(0 * tl.program_id(0), BLOCK_N, WIDE)[None, :]
        live = alive & (at < n)
        value = load_row(xp, rp, s, at, xn, rn, live, ADD, ACC)
        if ADD:
            tl.store(s + out + at * yn, narrow(value, s.dtype.element_ty), mask=live)
        if CENTER:
            value = tl.where(live, value - (tl.sum(value, axis=1) / n)[:, None], 0.0)
        scale = (1.0 / tl.sqrt(tl.sum(value * value, axis=1) / n + EPS))[:, None]
        result = value * scale
        if weight is not None:
            result *= tl.load(weight + at * wn, mask=at < n, other=0.0).to(ACC)
        if bias is not None:
            result += tl.load(bias + at * bn, mask=at < n, other=0.0).to(ACC)
        tl.store(y + out + at * yn, narrow(result, y.dtype.element_ty), mask=live)
    else:
        mean = tl.zeros([BLOCK_R, 1], ACC)
        if CENTER:
            total = tl.zeros([BLOCK_R, BLOCK_N], ACC)
            for start in range(0, n, BLOCK_N):
                at = (start + widen(tl.arange(0, BLOCK_N), WIDE))[None, :]
                total += load_row(xp, rp, s, at, xn, rn, alive & (at < n), ADD, ACC)
            mean = (tl.sum(total, axis=1) / n)[:, None]
        square = tl.zeros([BLOCK_R, BLOCK_N], ACC)
        for start in range(0, n, BLOCK_N):
            at = (start + widen(tl.arange(0, BLOCK_N), WIDE))[None, :]
            live = alive & (at < n)
            value = load_row(xp, rp, s, at, xn, rn, live, ADD, ACC)
            if ADD:
                tl.store(s + out + at * yn, narrow(value, s.dtype.element_ty), mask=live)
            value = tl.where(live, value - mean, 0.0)
            square += value * value
        scale = (1.0 / tl.sqrt(tl.sum(square, axis=1) / n + EPS))[:, None]
        for start in range(0, n, BLOCK_N):
            at = (start + widen(tl.arange(0, BLOCK_N), WIDE))[None, :]
            live = alive & (at < n)
            value = load_row(xp, rp, s, at, xn, rn, live, ADD, ACC)
            result = (value - mean) * scale
            if weight is not None:
                result *= tl.load(weight + at * wn, mask=at < n, other=0.0).to(ACC)
            if bias is not None:
                result += tl.load(bias + at * bn, mask=at < n, other=0.0).to(ACC)
            tl.store(y + out + at * yn, narrow(result, y.dtype.element_ty), mask=live)


def layout(problem: Problem) -> Rows:
    """Rows of x, of the residual if there is one, and of the result."""
    tensors = [problem["x"], problem.results[0]]
    if "residual" in problem.operands:
        tensors.insert(1, problem["residual"])
    return rows_of(tensors, problem["x"].ndim - 1)


def plan(problem: Problem, target: Target, config: Config, center: bool) -> Plan:
    """One launch; programs own `block_r` rows."""
    rows = layout(problem)
    add = "residual" in problem.operands
    block_r, block_n = int(config["block_r"]), int(config["block_n"])
    (x0, x1, xn), (y0, y1, yn) = rows.strides[0], rows.strides[-1]
    r0, r1, rn = rows.strides[1] if add else (0, 0, 0)
    arguments: dict[str, Any] = {
        "x": T("x"), "residual": T("residual") if add else None, "y": T("out"),
        "s": T("sum") if add else None, "rows": rows.rows, "n": rows.n, "inner": rows.inner,
        "EPS": float(problem.param("eps")), "x0": x0, "x1": x1, "xn": xn, "r0": r0, "r1": r1,
        "rn": rn, "y0": y0, "y1": y1, "yn": yn, "BLOCK_R": block_r, "BLOCK_N": block_n,
        "ONCE": block_n >= rows.n, "CENTER": center, "ADD": add,
        "ACC": compute_type(problem.dtype), "WIDE": wide(problem),
    }  # fmt: skip
    for name in ("weight", "bias"):
        spec = problem.get(name)
        arguments[name] = T(name) if spec else None
        arguments[f"{name[0]}n"] = strides_of(spec)[0] if spec else 0
    options = {"num_warps": int(config["num_warps"]), "num_stages": 2}
    launch = Launch(norm_kernel, cdiv(rows.rows, block_r), arguments, options)
    names = ("out", "sum") if add else ("out",)
    specs = dict(zip(names, problem.results, strict=True))
    buffers = {name: Buffer(spec.shape, spec.dtype) for name, spec in specs.items()}
    inputs = ("x", "residual") if add else ("x",)
    dense = {name: problem[name].shape for name in inputs} if rows.dense else {}
    return Plan((launch,), buffers, names, dense)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Whole rows first; loops where a row is longer than the registers."""
    return row_configs(layout(problem), problem["x"].itemsize, _target.of(device))
