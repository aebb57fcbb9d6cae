"""Cross entropy of class indices: one read of the logits, then a fixed-order sum of the rows."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import triton
import triton.language as tl

from portable.backend import Config, Kernel
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, compute_type, narrow, widen
from portable.backends.triton._layout import Rows, cdiv, rows_of, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._rows import row_configs
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem

NOTHING_IGNORED = -(2**63)
"""Stands for ignore_index None; no class index has this value."""
SUM_BLOCK = 1024


@triton.jit
def loss_kernel(
    logits, targets, losses, rows, n, x0, xn, t0, ignore,
    BLOCK_R: tl.constexpr, BLOCK_N: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """losses[row] = log sum exp(logits[row]) - logits[row, target]; 0 where ignored."""
    row = block_index(tl.program_id(0), BLOCK_R, WIDE)
    alive = row < rows
    xp = logits + row * x0
    target = tl.load(targets + row * t0, mask=alive, other=0).to(tl.int64)
    counted = alive & (target != ignore)
    top = tl.full([BLOCK_R], float("-inf"), ACC)
    total = tl.zeros([BLOCK_R], ACC)
    for start in range(0, n, BLOCK_N):
        at = (start + widen(tl.arange(0, BLOCK_N), WIDE))[None, :]
        live = counted[:, None] & (at < n)
        value = tl.load(xp[:, None] + at * xn, mask=live, other=float("-inf")).to(ACC)
        new_top = tl.maximum(top, tl.max(value, axis=1))
        safe = tl.where(new_top == float("-inf"), 0.0, new_top)
        total = total * tl.exp(top - safe) + tl.sum(tl.exp(value - safe[:, None]), axis=1)
        top = new_top
    safe = tl.where(top == float("-inf"), 0.0, top)
    inside = counted & (target >= 0) & (target < n)
    picked = tl.load(xp + tl.where(inside, target, 0) * xn, mask=inside, other=0.0).to(ACC)
    loss = tl.log(total) + safe - picked
    loss = tl.where(counted, loss, 0.0)
    tl.store(losses + row, narrow(loss, losses.dtype.element_ty), mask=alive)


@triton.jit
def total_kernel(
    losses, targets, y, rows, t0, ignore,
    MEAN: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y = sum of the losses, or that over the number of counted rows; one program."""
    acc = tl.zeros([BLOCK], ACC)
    counted = tl.zeros([BLOCK], ACC)
    for start in range(0, tl.cdiv(rows, BLOCK)):
        row = block_index(start, BLOCK, False)
        alive = row < rows
        acc += tl.load(losses + row, mask=alive, other=0.0)
        target = tl.load(targets + row * t0, mask=alive, other=0).to(tl.int64)
        counted += tl.where(alive & (target != ignore), 1.0, 0.0).to(ACC)
    result = tl.sum(acc, axis=0)
    if MEAN:
        result = result / tl.sum(counted, axis=0)
    tl.store(y, narrow(result, y.dtype.element_ty))


def why_not(problem: Problem, device: Device) -> list[str]:
    """Float logits."""
    return refuse(problem, device)


def layout(problem: Problem) -> Rows:
    """Rows of the logits."""
    return rows_of((problem["logits"],), 1)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """As for softmax."""
    return row_configs(layout(problem), problem["logits"].itemsize, _target.of(device))


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """The losses, then their sum unless the reduction is "none"."""
    logits, out = problem["logits"], problem.results[0]
    rows, n = logits.shape
    x0, xn = strides_of(logits)
    reduction, ignore = problem.param("reduction"), problem.param("ignore_index")
    acc = "float64" if logits.dtype == "float64" else "float32"
    common: dict[str, Any] = {
        "targets": T("targets"), "t0": strides_of(problem["targets"])[0], "rows": rows,
        "ignore": NOTHING_IGNORED if ignore is None else ignore,
        "ACC": compute_type(acc), "WIDE": wide(problem),
    }  # fmt: skip
    block_r, block_n = int(config["block_r"]), int(config["block_n"])
    single = reduction == "none"
    first = common | {
        "logits": T("logits"), "losses": T("out" if single else "losses"), "n": n, "x0": x0,
        "xn": xn, "BLOCK_R": block_r, "BLOCK_N": block_n,
    }  # fmt: skip
    options = {"num_warps": int(config["num_warps"]), "num_stages": 2}
    launches = [Launch(loss_kernel, cdiv(rows, block_r), first, options)]
    buffers = {"out": Buffer(out.shape, out.dtype)}
    if not single:
        buffers["losses"] = Buffer((rows,), acc)
        last = common | {"losses": T("losses"), "y": T("out"), "MEAN": reduction == "mean",
                         "BLOCK": SUM_BLOCK}  # fmt: skip
        launches.append(Launch(total_kernel, 1, last, {"num_warps": 4}))
    return Plan(tuple(launches), buffers)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
