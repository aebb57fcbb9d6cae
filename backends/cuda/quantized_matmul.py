"""Product of int8 or fp8 matrices with scales per tensor, row, column or block.

mma    int8 on the integer matrix units; fp8 widened to f16 on its way into shared memory
simt   any strides and any block
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.cuda import _gemm
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    compile_with,
    dense,
    strides,
    target,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.backends.cuda._targets import Target
from portable.device import Device
from portable.op import Problem

SOURCES = (
    "_common.cuh",
    "_mma.cuh",
    "_quantized.cuh",
    "_quantized_mma.cu",
    "_quantized_simt.cu",
    "transpose.cu",
)
_DTYPES = ("int8", "float8_e4m3fn")
_TILES = (
    {"bm": 128, "bn": 64, "bk": 64, "warps_m": 2, "warps_n": 2},
    {"bm": 64, "bn": 64, "bk": 64, "warps_m": 2, "warps_n": 2},
    {"bm": 16, "bn": 64, "bk": 128, "warps_m": 1, "warps_n": 4},
    {"bm": 64, "bn": 64, "bk": 32, "warps_m": 2, "warps_n": 2},
)


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes."""
    return why_not_dtype(problem, _DTYPES) + why_not_layout(problem)


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Kernel and tile, the likely best first."""
    return _candidates(problem, target(device))


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side: A is read by rows, B in either order, scales dense."""
    result = problem.results[0]
    if result.size == 0:
        return lambda *arrays: runtime.empty(result.shape, result.dtype)
    a, b = problem["a"], problem["b"]
    if config["kind"] == "simt":
        return _build_simt(problem, runtime)
    left, right = _gemm.view(a), _gemm.view(b)
    specs = [a, b]
    if left.adjacent != 1:
        specs[0] = a.dense()
        left = _gemm.view(specs[0])
    if right.adjacent is None:
        specs[1] = b.dense()
        right = _gemm.view(specs[1])
    steps = [
        dense(runtime, given) if given != read else (lambda array: array)
        for given, read in zip((a, b), specs, strict=True)
    ] + [dense(runtime, problem[name]) for name in ("scale_a", "scale_b")]
    along_n = right.adjacent == 1
    names = ("bm", "bn", "bk", "warps_m", "warps_n")
    macros: dict[str, int | str] = {name.upper(): int(config[name]) for name in names}
    macros |= {
        "INT8": int(problem.dtype == "int8"),
        "R": C_TYPES[result.dtype],
        "B_N": int(along_n),
        "VA": int(aligned and left.vector(problem.dtype)),
        "VB": int(aligned and right.vector(problem.dtype)),
        "BLOCKED": int(_blocked(problem)),
    }
    block = 32 * int(config["warps_m"]) * int(config["warps_n"])
    launch = runtime.kernel(
        "_quantized_mma.cu", "quantized_mma", macros, block, _shared(config, problem.dtype, along_n)
    )
    (m, k), n = a.shape, b.shape[1]
    grid = (-(-m // int(config["bm"])) * -(-n // int(config["bn"])), 1, 1)
    sizes, scales = (m, n, k, left.lead, right.lead), _scales(problem)

    def kernel(*arrays: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        x, y, sx, sy = (step(array) for step, array in zip(steps, arrays, strict=True))
        launch(grid, out, x, y, *sizes, sx, sy, *scales)
        return out

    return kernel


def _build_simt(problem: Problem, runtime: Runtime) -> Kernel:
    result, a, b = problem.results[0], problem["a"], problem["b"]
    macros: dict[str, int | str] = {
        "INT8": int(problem.dtype == "int8"),
        "T": C_TYPES[problem.dtype],
        "R": C_TYPES[result.dtype],
    }
    launch = runtime.kernel("_quantized_simt.cu", "quantized_simt", macros, THREADS)
    steps = [dense(runtime, problem[name]) for name in ("scale_a", "scale_b")]
    (m, k), n = a.shape, b.shape[1]
    grid = (-(-m // 64) * -(-n // 64), 1, 1)
    sizes, scales = (m, n, k, *strides(a), *strides(b)), _scales(problem)

    def kernel(x: Any, y: Any, scale_x: Any, scale_y: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        launch(grid, out, x, y, *sizes, steps[0](scale_x), steps[1](scale_y), *scales)
        return out

    return kernel


def _scales(problem: Problem) -> tuple[int, ...]:
    """Strides of the dense scales along row, k (a), k, n (b); columns per scale of b; block."""
    a, b = problem["scale_a"].shape, problem["scale_b"].shape
    k, n = problem["b"].shape
    block = int(problem.param("block") or 0)
    along_a = (0, 0) if not a else (a[1], int(a[1] > 1))
    if not b:
        return (*along_a, 0, 0, 1, block or max(k, 1))
    width = 1 if b == (1, n) else max(block, 1)
    return (*along_a, b[1] if b[0] > 1 else 0, 1, width, block or max(k, 1))


def _blocked(problem: Problem) -> bool:
    """Whether a scale changes along k."""
    a, b = problem["scale_a"].shape, problem["scale_b"].shape
    return bool(a and a[1] > 1) or bool(b and b[0] > 1)


def _shared(config: Config, dtype: str, along_n: bool) -> int:
    """Two buffers of A and B [B], rows padded by 16 B; fp8 lies there as f16."""
    bm, bn, bk = (int(config[name]) for name in ("bm", "bn", "bk"))
    item = 1 if dtype == "int8" else 2
    b = bk * (bn * item + 16) if along_n and item == 2 else bn * (bk * item + 16)
    return 2 * (bm * (bk * item + 16) + b)


def _candidates(problem: Problem, built_for: Target) -> list[Config]:
    (m, _), n = problem["a"].shape, problem["b"].shape[1]
    found: list[dict[str, int | str | bool]] = []
    if built_for.capability >= 75:
        block = int(problem.param("block") or 0) if _blocked(problem) else 0
        tiles = [t for t in _TILES if block % t["bk"] == 0 and _fits(t, problem, built_for)]
        if block:  # two sets of sums: the largest tile would not fit the registers
            tiles = [t for t in tiles if t["bm"] < 128]
        else:
            tiles = [t for t in tiles if t["bk"] != 32]

        def cost(tile: dict[str, int]) -> float:
            count = -(-m // tile["bm"]) * -(-n // tile["bn"])
            slow = 1.0 + 24.0 * (1.0 / tile["bm"] + 1.0 / tile["bn"])
            return -(-count // built_for.parallel) * tile["bm"] * tile["bn"] * slow

        found += [{"kind": "mma", **tile} for tile in sorted(tiles, key=cost)]
    return [*found, {"kind": "simt"}]


def _fits(tile: Config, problem: Problem, built_for: Target) -> bool:
    return max(_shared(tile, problem.dtype, n) for n in (True, False)) <= built_for.shared
