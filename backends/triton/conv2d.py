"""Convolution, NCHW: implicit matrix product, direct for few filters a group, Winograd F(2x2, 3x3).

Winograd (float32, 3x3, stride 1) needs 2.25 times fewer products; its transforms are float32, so
that half types, whose products run on matrix units, gain nothing from it.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import replace
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.triton import _conv, _gemm_plan, _target
from portable.backends.triton._elements import compute_type
from portable.backends.triton._gemm_plan import Product, input_precision
from portable.backends.triton._layout import cdiv, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.backends.triton._tiles import Shape, candidates
from portable.device import Device
from portable.op import Problem, TensorSpec

POINTS = 16
"""Points of a Winograd tile: (2 + 3 - 1)^2."""
FEW_FILTERS = 4
"""Filters a group up to which the direct kernel is tried first."""


def why_not(problem: Problem, device: Device) -> list[str]:
    """Float dtypes only."""
    return refuse(problem, device)


def _extents(problem: Problem) -> tuple[int, int, int]:
    """(pixels, filters a group, depth) of the implicit product."""
    out, w, groups = problem.results[0], problem["w"], problem.param("groups")
    n, _, oh, ow = out.shape
    return n * oh * ow, w.shape[0] // groups, w.shape[1] * w.shape[2] * w.shape[3]


def winograd_applies(problem: Problem) -> bool:
    """3x3, stride and dilation 1, one group, float32 that is to be exact."""
    plain = all(problem.param(name) == (1, 1) for name in ("stride", "dilation"))
    three = problem["w"].shape[2:] == (3, 3)
    single = problem.param("groups") == 1 and problem.dtype == "float32"
    return plain and three and single and problem.precision == "highest"


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Variants with their tiles, best guess first."""
    target = _target.of(device)
    pixels, filters, depth = _extents(problem)
    shape = Shape(problem.param("groups"), pixels, filters, depth)
    precision = input_precision(problem, target)
    itemsize = problem["x"].itemsize
    tiles = [
        {**c, "variant": "implicit"}
        for c in candidates(
            shape, problem.dtype, itemsize, precision, target, narrow=itemsize == 2
        )  # half types are gathered one by one
        if c["split_k"] == 1 and int(c["block_m"]) * int(c["block_n"]) <= 128 * 128
    ]
    found: list[Config] = [{k: v for k, v in c.items() if k not in DROPPED} for c in tiles[:6]]
    if winograd_applies(problem) and pixels:
        w = problem["w"]
        product = Shape(POINTS, w.shape[0], _tiles(problem)[2], w.shape[1])
        best = candidates(product, "float32", 4, precision, target)[0]
        winograd = [{**best, "variant": "winograd", "split_k": 1}]
        deep = w.shape[0] >= 32 and w.shape[1] >= 32
        found = [*winograd, *found] if deep else [*found, *winograd]
    direct: list[Config] = [
        {"variant": "direct", "block": block, "num_warps": max(1, block // (4 * target.warp))}
        for block in (512, 1024, 256)
    ]
    return [*direct, *found[:3]] if filters <= FEW_FILTERS else found


DROPPED = ("split_k", "group_m")


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """The launches of one variant."""
    variant = {"implicit": _implicit, "direct": _direct, "winograd": _winograd}
    return variant[str(config["variant"])](problem, target, config)


def _common(problem: Problem) -> dict[str, Any]:
    x, w, out = problem["x"], problem["w"], problem.results[0]
    bias, groups = problem.get("bias"), problem.param("groups")
    named = dict(zip(("xn", "xc", "xh", "xw"), strides_of(x), strict=True))
    named |= dict(zip(("wo", "wi", "wh", "ww"), strides_of(w), strict=True))
    for name, short in (("stride", "stride"), ("padding", "pad"), ("dilation", "dil")):
        named |= dict(zip((f"{short}_h", f"{short}_w"), problem.param(name), strict=True))
    return named | {
        "x": T("x"), "w": T("w"), "bias": T("bias") if bias else None, "y": T("out"),
        "bias_n": strides_of(bias)[0] if bias else 0, "outputs": w.shape[0],
        "depth": w.shape[1] * w.shape[2] * w.shape[3], "OH": out.shape[2], "OW": out.shape[3],
        "H": x.shape[2], "W": x.shape[3], "KH": w.shape[2], "KW": w.shape[3],
        "channels": w.shape[1], "filters": w.shape[0] // groups,
        "ACC": compute_type(x.dtype), "WIDE": wide(problem),
    }  # fmt: skip


def _implicit(problem: Problem, target: Target, config: Config) -> Plan:
    pixels, filters, _ = _extents(problem)
    out = problem.results[0]
    block_m, block_n, block_k = (int(config[f"block_{axis}"]) for axis in "mnk")
    tiles_m, tiles_n = cdiv(pixels, block_m), cdiv(filters, block_n)
    arguments = _common(problem) | {
        "pixels": pixels, "tiles_m": tiles_m, "tiles_n": tiles_n, "BLOCK_M": block_m,
        "BLOCK_N": block_n, "BLOCK_K": block_k, "PRECISION": input_precision(problem, target),
    }  # fmt: skip
    options = {"num_warps": int(config["num_warps"]), "num_stages": int(config["num_stages"])}
    grid = tiles_m * tiles_n * problem.param("groups")
    launch = _launch(_conv.conv_implicit, grid, arguments, options)
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)})


def _direct(problem: Problem, target: Target, config: Config) -> Plan:
    out, block = problem.results[0], int(config["block"])
    n, outputs, oh, ow = out.shape
    tiles = cdiv(oh * ow, block)
    arguments = _common(problem) | {"tiles": tiles, "BLOCK": block}
    options = {"num_warps": int(config["num_warps"]), "num_stages": 1}
    launch = _launch(_conv.conv_direct, n * outputs * tiles, arguments, options)
    return Plan((launch,), {"out": Buffer(out.shape, out.dtype)})


def _tiles(problem: Problem) -> tuple[int, int, int]:
    """(rows, columns, all) of the 2x2 tiles of the result."""
    n, _, oh, ow = problem.results[0].shape
    th, tw = cdiv(oh, 2), cdiv(ow, 2)
    return th, tw, n * th * tw


def _winograd(problem: Problem, target: Target, config: Config) -> Plan:
    x, w, out = problem["x"], problem["w"], problem.results[0]
    outputs, channels = w.shape[:2]
    th, tw, tiles = _tiles(problem)
    block, options = 128, {"num_warps": 4, "num_stages": 1}
    large = wide(problem) or POINTS * max(channels, outputs) * tiles >= 2**30
    common = _common(problem) | {"tiles": tiles, "TH": th, "TW": tw, "BLOCK": block, "WIDE": large}
    source = common | {"points": T("v"), "step": channels * tiles}
    taps = common | {"points": T("u"), "size": outputs * channels, "C": channels}
    sink = common | {"points": T("m"), "step": outputs * tiles}
    specs = {
        "u": TensorSpec((POINTS, outputs, channels), x.dtype),
        "v": TensorSpec((POINTS, channels, tiles), x.dtype),
        "m": TensorSpec((POINTS, outputs, tiles), x.dtype),
    }
    product = Product(
        Shape(POINTS, outputs, tiles, channels),
        1,
        ("u", (outputs * channels, 0, channels, 1)),
        ("v", (channels * tiles, 0, tiles, 1)),
    )
    inner = Problem("matmul", 1, ("u", "v"), (specs["u"], specs["v"]), (), (specs["m"],))
    (matmul,) = _gemm_plan.plan(inner, product, target, {**config, "variant": "tile"}).launches
    matmul = replace(matmul, arguments={**matmul.arguments, "c": T("m")})
    blocks = cdiv(tiles, block)
    launches = (
        _launch(_conv.winograd_filter, cdiv(outputs * channels, block), taps, options),
        _launch(_conv.winograd_input, blocks * channels, source, options),
        matmul,
        _launch(_conv.winograd_output, blocks * outputs, sink, options),
    )
    buffers = {name: Buffer(spec.shape, spec.dtype) for name, spec in specs.items()}
    return Plan(launches, buffers | {"out": Buffer(out.shape, out.dtype)})


def _launch(kernel: Any, grid: int, arguments: dict[str, Any], options: dict[str, int]) -> Launch:
    """A launch with those of the common arguments that the kernel has."""
    return Launch(kernel, grid, {name: arguments[name] for name in kernel.arg_names}, options)


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
