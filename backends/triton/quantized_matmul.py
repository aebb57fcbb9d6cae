"""(scale_a a) @ (scale_b b) of int8 or fp8-e4m3 matrices; scales per tensor, row, column, block.

The contract asks for float32 sums. Hopper's and Ada's fp8 units keep about 14 to 22 bits, so
fp8 runs on them (and on GPUs without OCP fp8) decoded to float16, whose products are exact; with
precision "high" the fp8 unit is used wherever there is one.
"""

from __future__ import annotations

from collections.abc import Sequence

from portable.backend import Config, Kernel
from portable.backends.triton import _quantized, _target
from portable.backends.triton._layout import cdiv, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.backends.triton._tiles import NARROW_ROOM, RESIDUAL_ROOM, Shape, candidates
from portable.device import Device
from portable.op import Problem, TensorSpec


def why_not(problem: Problem, device: Device) -> list[str]:
    """int8 and fp8-e4m3."""
    return refuse(problem, device, ("int8", "float8_e4m3fn"))


def form(problem: Problem, target: Target) -> str:
    """What the matrix unit multiplies: "int8", "native" fp8, or "half" (fp8 decoded)."""
    if problem.dtype == "int8":
        return "int8"
    full_sums = target.capability in (100, 103) or target.backend == "hip"
    native = target.fp8 and (full_sums or problem.precision == "high")
    return "native" if native and target.backend != "interpreter" else "half"


def within(problem: Problem, block_k: int) -> str:
    """How the scales vary along k for a tile depth."""
    block = problem.param("block")
    if not block:
        return "never"
    return "tile" if block % block_k == 0 else "element"


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Tiles as for matmul; a depth that divides the block of the scales comes first."""
    target = _target.of(device)
    (m, k), (_, n) = problem["a"].shape, problem["b"].shape
    kind = form(problem, target)
    dtype = "float16" if kind == "half" else problem.dtype
    itemsize = 2 if kind == "half" else 1
    # scales that vary with k need a second accumulator
    room = NARROW_ROOM if problem.param("block") else RESIDUAL_ROOM
    found = candidates(Shape(1, m, n, k), dtype, itemsize, "ieee", target, room=room, most=24)
    whole = [_fitted(c, problem) for c in found if c["split_k"] == 1]
    unique = [c for i, c in enumerate(whole) if c not in whole[:i]]
    return sorted(unique, key=lambda c: within(problem, int(c["block_k"])) == "element")[:8]


def _fitted(config: Config, problem: Problem) -> Config:
    """The tile with a depth that lies in one block of the scales, where there is one."""
    keep = ("block_m", "block_n", "block_k", "group_m", "num_warps", "num_stages")
    fitted = {key: config[key] for key in keep}
    block = problem.param("block")
    depth = int(config["block_k"])
    least = 32
    while block and block % depth and depth > least:
        depth //= 2
    if block and block % depth:  # dequantized to float32: small tiles on the vector unit
        return fitted | {"block_m": 32, "block_n": 32, "block_k": 32, "num_warps": 4}
    return fitted | {"block_k": max(depth, least)}


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """One launch."""
    a, b, out = problem["a"], problem["b"], problem.results[0]
    (m, k), (_, n) = a.shape, b.shape
    block_m, block_n, block_k = (int(config[f"block_{axis}"]) for axis in "mnk")
    block = problem.param("block")
    (am, ak), (bk, bn) = strides_of(a), strides_of(b)
    sam, sak = _steps(problem["scale_a"])
    sbk, sbn = _steps(problem["scale_b"])
    kind = form(problem, target)
    view = "uint8" if kind == "half" else ""
    by_block = block and problem["scale_b"].ndim == 2 and _blocks_of_b(problem)
    arguments = {
        "a": T("a", view), "b": T("b", view), "scale_a": T("scale_a"), "scale_b": T("scale_b"),
        "c": T("out"), "M": m, "N": n, "K": k, "am": am, "ak": ak, "bk": bk, "bn": bn,
        "sam": sam, "sak": sak, "sbk": sbk, "sbn": sbn, "block": block or k or 1,
        "FORM": kind, "WITHIN": within(problem, block_k), "COLUMNS": block if by_block else 1,
        "EVEN_K": k % block_k == 0, "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_K": block_k,
        "GROUP_M": int(config["group_m"]), "WIDE": wide(problem),
    }  # fmt: skip
    options = {"num_warps": int(config["num_warps"]), "num_stages": int(config["num_stages"])}
    grid = cdiv(m, block_m) * cdiv(n, block_n)
    launch = Launch(_quantized.quantized_kernel, grid, arguments, options)
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)})


def _steps(scale: TensorSpec) -> tuple[int, int]:
    """Strides of a scale over (rows, columns) of its grid; 0 where one value serves all."""
    if scale.ndim == 0:
        return 0, 0
    steps = strides_of(scale)
    rows, columns = (0 if n == 1 else s for n, s in zip(scale.shape, steps, strict=True))
    return rows, columns


def _blocks_of_b(problem: Problem) -> bool:
    """Whether scale_b has one value per block of B x B (not one per column)."""
    (k, n), block = problem["b"].shape, problem.param("block")
    return problem["scale_b"].shape == (cdiv(k, block), cdiv(n, block))


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
