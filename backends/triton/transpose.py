"""Axes in another order, written row-major, in tiles that are wide in both fast axes."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

import math
from collections.abc import Sequence

import triton
import triton.language as tl

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, widen
from portable.backends.triton._layout import cdiv, collapse, next_power_of_2, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem, contiguous_strides

OUTER = 4
"""Axes beside the two of the tile."""
BY_SIZE = {1: "uint8", 2: "int16", 4: "int32", 8: "int64"}
"""Moved as integers of the same size: no dtype is special."""


@triton.jit
def transpose_kernel(
    x, y, A, B, e1, e2, e3, xa, xb, ya, x0, x1, x2, x3, y0, y1, y2, y3,
    BLOCK_A: tl.constexpr, BLOCK_B: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y[..., a, b] = x[..., a, b] for one tile; b is y's fastest axis, a the one fast in x."""
    tiles_a = tl.cdiv(A, BLOCK_A)
    tiles_b = tl.cdiv(B, BLOCK_B)
    pid = tl.program_id(0)
    a = block_index(pid // tiles_b % tiles_a, BLOCK_A, WIDE)[:, None]
    b = block_index(pid % tiles_b, BLOCK_B, WIDE)[None, :]
    outer = widen(pid // tiles_b // tiles_a, WIDE)
    i3 = outer % e3
    i2 = outer // e3 % e2
    i1 = outer // e3 // e2 % e1
    i0 = outer // e3 // e2 // e1
    live = (a < A) & (b < B)
    value = tl.load(x + (i0 * x0 + i1 * x1 + i2 * x2 + i3 * x3) + a * xa + b * xb, mask=live)
    tl.store(y + (i0 * y0 + i1 * y1 + i2 * y2 + i3 * y3) + a * ya + b, value, mask=live)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Any dtype of 1 to 8 bytes; at most OUTER + 2 axes after merging."""
    reasons = refuse(problem, device, tuple(dtypes.DTYPES))
    if problem["x"].itemsize > max(BY_SIZE):
        reasons.append(f"dtype is {problem.dtype} (at most 8 bytes)")
    rank = len(axes_of(problem)[0])
    if rank > OUTER + 2:
        reasons.append(f"{rank} axes are left after merging (at most {OUTER + 2})")
    return reasons


def axes_of(problem: Problem) -> tuple[list[int], list[int], list[int]]:
    """Extents, strides in x and strides in y of the result's axes, merged where both allow."""
    out, steps = problem.results[0], strides_of(problem["x"])
    mine = [steps[i] for i in problem.param("axes")]
    extents, (xs, ys) = collapse(out.shape, [mine, contiguous_strides(out.shape)])
    return (extents, xs, ys) if extents else ([1], [0], [1])


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Square tiles; flat ones where x is fast along y's fastest axis too."""
    target = _target.of(device)
    extents, xs, _ = axes_of(problem)
    if xs[-1] == 1 or len(extents) == 1:
        tiles = [(1, 1024), (1, 2048), (4, 256), (16, 64)]
    else:
        tiles = [(64, 64), (32, 64), (64, 32), (32, 32)]
    found: list[Config] = []
    for block_a, block_b in tiles:
        block_b = min(block_b, next_power_of_2(max(extents[-1], 16)))
        warps = max(1, min(8, block_a * block_b // (8 * target.warp)))
        found.append({"block_a": block_a, "block_b": block_b, "num_warps": warps})
    return found


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """One launch over tiles of (x's fast axis, y's fast axis)."""
    out = problem.results[0]
    extents, xs, ys = axes_of(problem)
    others = range(len(extents) - 1)
    fast = min(others, key=lambda i: (abs(xs[i]) or math.inf, -extents[i]), default=None)
    rest = [i for i in others if i != fast]
    fill = OUTER - len(rest)
    e = [1] * fill + [extents[i] for i in rest]
    x_outer = [0] * fill + [xs[i] for i in rest]
    y_outer = [0] * fill + [ys[i] for i in rest]
    block_a, block_b = int(config["block_a"]), int(config["block_b"])
    a, xa, ya = (extents[fast], xs[fast], ys[fast]) if fast is not None else (1, 0, 0)
    integer = BY_SIZE[problem["x"].itemsize]
    arguments = {
        "x": T("x", integer), "y": T("out", integer), "A": a, "B": extents[-1], "xa": xa,
        "xb": xs[-1], "ya": ya, "BLOCK_A": block_a, "BLOCK_B": block_b, "WIDE": wide(problem),
        **{f"e{i}": e[i] for i in (1, 2, 3)},
        **{f"x{i}": x_outer[i] for i in range(OUTER)},
        **{f"y{i}": y_outer[i] for i in range(OUTER)},
    }  # fmt: skip
    grid = math.prod(e) * cdiv(a, block_a) * cdiv(extents[-1], block_b)
    launch = Launch(transpose_kernel, grid, arguments, {"num_warps": int(config["num_warps"])})
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)})


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
