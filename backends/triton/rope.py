"""Rotary position embedding: pairs of the last axis rotated by the angle of their position."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN201
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl

from portable.backend import Config, Kernel
from portable.backends.triton import _target
from portable.backends.triton._elements import block_index, compute_type, narrow, widen
from portable.backends.triton._layout import cdiv, collapse, next_power_of_2, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._rows import warps_for
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem, TensorSpec, contiguous_strides

AXES = 3
"""Axes before the last that the kernel indexes after merging."""


@triton.jit
def rope_kernel(
    x, cos, sin, y, rows, half, e1, e2, x0, x1, x2, xd, c0, c1, c2, cd, s0, s1, s2, sd,
    INTERLEAVED: tl.constexpr, BLOCK_R: tl.constexpr, BLOCK_D: tl.constexpr, ACC: tl.constexpr,
    WIDE: tl.constexpr,
):  # fmt: skip
    """y1 = x1 cos - x2 sin, y2 = x2 cos + x1 sin over a block of rows; y is row-major."""
    row = block_index(tl.program_id(0), BLOCK_R, WIDE)
    i2 = row % e2
    i1 = row // e2 % e1
    i0 = row // e2 // e1
    pair = widen(tl.arange(0, BLOCK_D), WIDE)[None, :]
    live = (row < rows)[:, None] & (pair < half)
    c = tl.load(cos + (i0 * c0 + i1 * c1 + i2 * c2)[:, None] + pair * cd, mask=live, other=0.0)
    s = tl.load(sin + (i0 * s0 + i1 * s1 + i2 * s2)[:, None] + pair * sd, mask=live, other=0.0)
    c = c.to(ACC)
    s = s.to(ACC)
    first = 2 * pair if INTERLEAVED else pair
    second = 2 * pair + 1 if INTERLEAVED else pair + half
    xp = x + (i0 * x0 + i1 * x1 + i2 * x2)[:, None]
    yp = y + (row * 2 * half)[:, None]
    a = tl.load(xp + first * xd, mask=live, other=0.0).to(ACC)
    b = tl.load(xp + second * xd, mask=live, other=0.0).to(ACC)
    tl.store(yp + first, narrow(a * c - b * s, y.dtype.element_ty), mask=live)
    tl.store(yp + second, narrow(b * c + a * s, y.dtype.element_ty), mask=live)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Float dtypes; at most AXES axes before the last after merging."""
    reasons = refuse(problem, device)
    if len(rows_of_all(problem)[0]) > AXES:
        reasons.append(f"axes before the last do not merge into {AXES}")
    return reasons


def rows_of_all(problem: Problem) -> tuple[list[int], list[list[int]], bool]:
    """Merged leading axes of x and both tables; x row-major if its strides do not merge."""
    x = problem["x"]
    lead = x.shape[:-1]
    tables = [_spread(problem[name], len(lead)) for name in ("cos", "sin")]
    for dense in (False, True):
        mine = (contiguous_strides(x.shape) if dense else strides_of(x))[:-1]
        extents, strides = collapse(lead, [mine, *tables])
        if len(extents) <= AXES:
            break
    return extents, strides, dense


def _spread(table: TensorSpec, rank: int) -> list[int]:
    """Strides of the leading axes of a table broadcast to `rank` axes."""
    pairs = zip(table.shape[:-1], strides_of(table)[:-1], strict=True)
    own = [0 if n == 1 else s for n, s in pairs]
    return [0] * (rank - len(own)) + own


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Blocks of about 512 to 2048 pairs."""
    target = _target.of(device)
    block_d = next_power_of_2(max(problem["x"].shape[-1] // 2, 1))
    found: list[Config] = []
    for pairs in (1024, 512, 2048):
        block_r = max(1, pairs // block_d)
        warps = warps_for(2 * block_r * block_d, target, most=8)
        found.append({"block_r": block_r, "num_warps": warps})
    return found


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """One launch over blocks of rows."""
    x, out = problem["x"], problem.results[0]
    half = x.shape[-1] // 2
    extents, strides, dense = rows_of_all(problem)
    _, e1, e2 = extents + [1] * (AXES - len(extents))
    rows = out.size // max(x.shape[-1], 1)
    block_r = int(config["block_r"])
    arguments = {
        "x": T("x"), "cos": T("cos"), "sin": T("sin"), "y": T("out"), "rows": rows, "half": half,
        "e1": e1, "e2": e2, "xd": 1 if dense else strides_of(x)[-1],
        "cd": strides_of(problem["cos"])[-1], "sd": strides_of(problem["sin"])[-1],
        "INTERLEAVED": problem.param("interleaved"), "BLOCK_R": block_r,
        "BLOCK_D": next_power_of_2(max(half, 1)), "ACC": compute_type(problem.dtype),
        "WIDE": wide(problem),
    }  # fmt: skip
    for letter, steps in zip("xcs", strides, strict=True):
        padded = steps + [0] * (AXES - len(steps))
        arguments |= {f"{letter}{i}": padded[i] for i in range(AXES)}
    launch = Launch(
        rope_kernel, cdiv(rows, block_r), arguments, {"num_warps": int(config["num_warps"])}
    )
    copies = {"x": x.shape} if dense else {}
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)}, dense=copies)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
