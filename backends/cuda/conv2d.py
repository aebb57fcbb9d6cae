"""Two-dimensional convolution, NCHW.

mma       f16 and bf16 on the matrix units, x gathered tap by tap (no im2col matrix)
simt      every float type on the vector units
winograd  3x3 filters, stride and dilation 1, one group; float32 and float64
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _gemm
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    blocks,
    compile_with,
    dense,
    target,
    why_not_dtype,
    why_not_layout,
)
from portable.backends.cuda._runtime import Runtime
from portable.backends.cuda._targets import Target
from portable.device import Device
from portable.op import Problem, TensorSpec

SOURCES = (
    "_common.cuh", "_conv2d.cuh", "_conv2d_mma.cu", "_conv2d_simt.cu", "_gemm_simt.cu", "_mma.cuh",
    "_winograd.cu", "transpose.cu",
)  # fmt: skip
_WORTH = 32  # channels and filters from which Winograd's transforms pay
_MMA_TILES = (
    {"bm": 64, "bn": 64, "bk": 32, "warps_m": 2, "warps_n": 2},
    {"bm": 32, "bn": 128, "bk": 32, "warps_m": 1, "warps_n": 4},
    {"bm": 128, "bn": 64, "bk": 32, "warps_m": 4, "warps_n": 2},
)
_SIMT_TILES = (
    {"bm": 64, "bn": 64, "bk": 16, "tm": 4, "tn": 4},
    {"bm": 16, "bn": 128, "bk": 16, "tm": 4, "tn": 4},
)
_AREA = 2**31  # taps and places in a plane are ints


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes, or planes beyond 32-bit places."""
    reasons = why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)
    x, w = problem["x"], problem["w"]
    if w.shape[1] * w.shape[2] * w.shape[3] >= _AREA or x.shape[2] * x.shape[3] >= _AREA:
        reasons.append(f"a filter or a plane has 2^31 elements or more (limit {_AREA})")
    if int(problem.param("groups")) > 65535:
        reasons.append(f"groups is {problem.param('groups')} (limit 65535)")
    return reasons


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Kernel and tile, the likely best first."""
    return _candidates(problem, target(device))


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side; operands that are not dense are packed first."""
    result = problem.results[0]
    if result.size == 0:
        return lambda *arrays: runtime.empty(result.shape, result.dtype)
    if config["kind"] == "winograd":
        return _build_winograd(problem, config, runtime, aligned)
    x, w = problem["x"], problem["w"]
    taps = w.shape[1] * w.shape[2] * w.shape[3]
    matrix = config["kind"] == "mma"
    macros = _macros(problem)
    macros |= {name.upper(): int(value) for name, value in config.items() if name != "kind"}
    if matrix:
        macros["VW"] = int(aligned and taps % 8 == 0)
        block = 32 * int(config["warps_m"]) * int(config["warps_n"])
    else:
        block = int(config["bm"]) * int(config["bn"]) // (int(config["tm"]) * int(config["tn"]))
    launch = runtime.kernel(f"_conv2d_{config['kind']}.cu", "conv2d", macros, block)
    steps = [dense(runtime, spec) for spec in problem.tensors]
    groups = int(problem.param("groups"))
    n, filters, height, width = result.shape
    filters //= groups
    tiles = -(-filters // int(config["bm"])) * -(-n * height * width // int(config["bn"]))
    pairs = [number for name in ("stride", "padding", "dilation") for number in problem.param(name)]
    sizes = (n, w.shape[1], *x.shape[2:], filters, height, width, *w.shape[2:], *pairs, groups)

    def kernel(*arrays: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        read = [step(array) for step, array in zip(steps, arrays, strict=True)]
        launch((tiles, groups, 1), out, read[0], read[1], read[-1], *sizes)
        return out

    return kernel


def _macros(problem: Problem) -> dict[str, int | str]:
    return {"T": C_TYPES[problem.dtype], "BIAS": int("bias" in problem.operands)}


def _candidates(problem: Problem, built_for: Target) -> Sequence[Config]:
    w, result = problem["w"], problem.results[0]
    found: list[dict[str, int | str | bool]] = []
    least = {"float16": 75, "bfloat16": 80}.get(problem.dtype, 1000)
    filters = w.shape[0] // int(problem.param("groups"))
    pixels = result.size // max(result.shape[1], 1)

    def cost(tile: dict[str, int]) -> float:
        count = -(-filters // tile["bm"]) * -(-pixels // tile["bn"])
        slow = 1.0 + 24.0 * (1.0 / tile["bm"] + 1.0 / tile["bn"])
        return -(-count // built_for.parallel) * tile["bm"] * tile["bn"] * slow

    if built_for.capability >= least:
        found += [{"kind": "mma", **tile} for tile in sorted(_MMA_TILES, key=cost)]
    found += [{"kind": "simt", **tile} for tile in sorted(_SIMT_TILES, key=cost)]
    if _winograd(problem):
        product = _product(problem)
        tile = next(c for c in _gemm.configs(product, built_for) if c["kind"] == "simt")
        config = {**tile, "kind": "winograd"}
        pays = w.shape[1] >= _WORTH and w.shape[0] >= _WORTH
        found.insert(0 if pays else len(found), config)
    return found


def _winograd(problem: Problem) -> bool:
    w, ones = problem["w"], (1, 1)
    return (
        problem.dtype in ("float32", "float64")
        and w.shape[2:] == (3, 3)
        and tuple(problem.param("stride")) == ones
        and tuple(problem.param("dilation")) == ones
        and int(problem.param("groups")) == 1
        and problem.results[0].size > 0
    )


def _tiles(problem: Problem) -> tuple[int, int, int]:
    """Images, rows and columns of 2x2 tiles."""
    n, _, height, width = problem.results[0].shape
    return n, -(-height // 2), -(-width // 2)


def _product(problem: Problem) -> _gemm.Product:
    """The 16 products between the transforms."""
    filters, channels = problem["w"].shape[:2]
    n, rows, cols = _tiles(problem)
    tiles = n * rows * cols
    left = TensorSpec((16, filters, channels), problem.dtype)
    right = TensorSpec((16, channels, tiles), problem.dtype)
    return _gemm.Product(problem.dtype, _gemm.view(left, (16,)), _gemm.view(right, (16,)), (16,))


def _build_winograd(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    result, x, w = problem.results[0], problem["x"], problem["w"]
    macros = _macros(problem)
    names = ("winograd_filter", "winograd_input", "winograd_output")
    filter_, input_, output = (
        runtime.kernel("_winograd.cu", name, macros, THREADS) for name in names
    )
    multiply = _gemm.build(_product(problem), {**config, "kind": "simt"}, runtime, aligned)
    steps = [dense(runtime, spec) for spec in problem.tensors]
    filters, channels = w.shape[:2]
    n, rows, cols = _tiles(problem)
    tiles, dtype = n * rows * cols, problem.dtype
    pads = tuple(problem.param("padding"))

    def kernel(*arrays: Any) -> Any:
        read = [step(array) for step, array in zip(steps, arrays, strict=True)]
        out = runtime.empty(result.shape, dtype)
        u = runtime.empty((16, filters, channels), dtype)
        v = runtime.empty((16, channels, tiles), dtype)
        m = runtime.empty((16, filters, tiles), dtype)
        if channels:
            count = filters * channels
            filter_((blocks(count), 1, 1), u, read[1], count)
            sizes = (n, channels, *x.shape[2:], *pads, rows, cols)
            input_((blocks(channels * tiles), 1, 1), v, read[0], *sizes)
        multiply(m, u, v, m, m)
        sizes = (n, filters, *result.shape[2:], rows, cols)
        output((blocks(filters * tiles), 1, 1), out, m, read[-1], *sizes)
        return out

    return kernel
