"""Kernels and plans of the element-wise ops: gelu, swiglu, rope."""
# Triton kernels take untyped parameters: annotations there would change what is compiled.
# ruff: noqa: ANN001, ANN202
# mypy: disable-error-code="no-untyped-def,no-untyped-call,untyped-decorator"

from __future__ import annotations

from collections.abc import Sequence

import triton
import triton.language as tl

from portable.backend import Config
from portable.backends.triton import _target
from portable.backends.triton._elements import (
    block_index,
    compute_type,
    gelu_erf,
    gelu_tanh,
    narrow,
    sigmoid,
)
from portable.backends.triton._layout import cdiv, collapse, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem, TensorSpec, contiguous_strides

AXES = 3
"""Axes the kernel indexes after merging; operands with more are copied to row-major."""


@triton.jit
def map_kernel(
    x, gate, y, size, n1, n2, x0, x1, x2, g0, g1, g2,
    FORM: tl.constexpr, BLOCK: tl.constexpr, ACC: tl.constexpr, WIDE: tl.constexpr,
):  # fmt: skip
    """y[i] = gelu(x) or silu(gate) * x, y row-major, x and gate with up to three strides."""
    at = block_index(tl.program_id(0), BLOCK, WIDE)
    live = at < size
    i2 = at % n2
    i1 = at // n2 % n1
    i0 = at // n2 // n1
    value = tl.load(x + (i0 * x0 + i1 * x1 + i2 * x2), mask=live, other=0.0).to(ACC)
    if FORM == "swiglu":
        lever = tl.load(gate + (i0 * g0 + i1 * g1 + i2 * g2), mask=live, other=0.0).to(ACC)
        result = lever * sigmoid(lever) * value
    elif FORM == "tanh":
        result = gelu_tanh(value)
    else:
        result = gelu_erf(value)
    tl.store(y + at, narrow(result, y.dtype.element_ty), mask=live)


def views(tensors: Sequence[TensorSpec]) -> tuple[list[int], list[list[int]], bool]:
    """Shape and strides of equally shaped tensors in at most AXES axes; whether copies are due."""
    shape = tensors[0].shape
    for dense in (False, True):
        strides = [contiguous_strides(shape) if dense else strides_of(t) for t in tensors]
        merged, new = collapse(shape, [*strides, contiguous_strides(shape)])
        if len(merged) <= AXES:
            break
    # behind them, so that the divisions by absent extents fold away
    extents = merged + [1] * (AXES - len(merged))
    return extents, [step + [0] * (AXES - len(step)) for step in new[:-1]], dense


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """One launch over all elements."""
    out = problem.results[0]
    names = problem.operands  # ("x",) or ("gate", "up")
    extents, strides, dense = views(problem.tensors)
    gated = len(names) == 2
    x, g = (strides[1], strides[0]) if gated else (strides[0], [0, 0, 0])
    block = int(config["block"])
    arguments = {
        "x": T(names[-1]), "gate": T(names[0]) if gated else None, "y": T("out"),
        "size": out.size, "n1": extents[1], "n2": extents[2],
        "x0": x[0], "x1": x[1], "x2": x[2], "g0": g[0], "g1": g[1], "g2": g[2],
        "FORM": "swiglu" if gated else problem.param("approximate"), "BLOCK": block,
        "ACC": compute_type(problem.dtype), "WIDE": wide(problem),
    }  # fmt: skip
    launch = Launch(map_kernel, cdiv(out.size, block), arguments, _options(config))
    copies = dict.fromkeys(names, out.shape) if dense else {}
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)}, dense=copies)


def _options(config: Config) -> dict[str, int]:
    return {"num_warps": int(config["num_warps"]), "num_stages": 1}


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Block sizes of 16 bytes a lane and more."""
    target = _target.of(device)
    found: list[Config] = []
    for block, lanes in ((1024, 128), (2048, 256), (4096, 256), (512, 128)):
        found.append({"block": block, "num_warps": max(1, lanes // target.warp)})
    return found
