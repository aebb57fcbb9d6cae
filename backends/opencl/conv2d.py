"""conv2d: implicit matrix product, and Winograd's F(2x2, 3x3) as a variant."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.opencl import _gemm
from portable.backends.opencl._launch import constant
from portable.backends.opencl._norm import why_not as why_not_layout
from portable.backends.opencl._plan import Builder, is_cpu, strides_of
from portable.device import Device
from portable.op import Problem

FILES = ("_panels.cl", "_activations.cl", "_micro.cl", "conv.cl")
SOURCES = ("_common.cl", "copy.cl", "gemm.cl", "winograd.cl", *FILES)


def why_not(problem: Problem, device: Device) -> list[str]:
    """CPU devices; images of less than 2^31 pixels."""
    reasons = why_not_layout(problem, device)
    if not is_cpu(device):
        reasons.append(f"device is a {device.info.kind} (has a kernel for CPUs)")
    y = problem.results[0]
    if max(y.shape[2] * y.shape[3], problem["w"].size) >= 1 << 31:
        reasons.append("an image or the filters have 2^31 elements (takes fewer)")
    return reasons


def _winograd_fits(problem: Problem) -> bool:
    ones = (1, 1)
    return (
        problem["w"].shape[2:] == (3, 3)
        and problem.param("stride") == ones
        and problem.param("dilation") == ones
        and problem.param("groups") == 1
    )


def _gemm_of(problem: Problem) -> _gemm.Gemm:
    """The product of one image and group: filters x taps x pixels."""
    y, w, groups = problem.results[0], problem["w"], problem.param("groups")
    taps, pixels = w.shape[1] * w.shape[2] * w.shape[3], y.shape[2] * y.shape[3]
    batch = ((y.shape[0] * groups, 0, 0),)
    return _gemm.Gemm(w.shape[0] // groups, pixels, taps, taps, 1, pixels, 1, batch)


def configs(problem: Problem, device: Device) -> list[Config]:
    """Implicit product first (it keeps the place of NaN and infinity), Winograd where it fits."""
    g = _gemm_of(problem)
    if 0 in (g.m, g.n, g.k, g.count):
        return [{}]
    first = {**_gemm.packed_config(g, problem.dtype, device), "kind": "direct"}
    found: list[Config] = [first, {**first, "nb": 2 * int(first["nb"])}]
    if _winograd_fits(problem):
        product = _gemm.packed_config(_winograd_gemm(problem), problem.dtype, device)
        found.append({**product, "kind": "winograd"})
    return found


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    if problem.results[0].size == 0:
        return constant(problem, [0])
    if problem["x"].size == 0 or problem["w"].size == 0:
        return _bias_only(problem)
    if config["kind"] == "winograd":
        return _winograd(problem, device, config)
    c = {name: int(v) for name, v in config.items() if name != "kind"}
    x, w, y = problem["x"], problem["w"], problem.results[0]
    b = Builder(problem, device, vector=c["vector"])
    g, groups = _gemm_of(problem), problem.param("groups")
    tiles = g.count * -(-g.m // c["mb"]) * -(-g.n // c["nb"])
    count = max(1, min(tiles, device.info.units))
    nr, size = c["nv"] * c["vector"], 8 if b.dtype == "float64" else 4
    elements = c["mb"] * (c["kc"] + c["vector"]) + c["kc"] * nr + c["mb"] * c["nb"]
    scratch, counter = b.scratch(count * elements * size), b.scratch(64, zeroed=64)
    bias, has_bias = _bias(b)
    pairs = [*x.shape[2:], *y.shape[2:], *w.shape[2:]]
    pairs += [v for name in ("stride", "padding", "dilation") for v in problem.param(name)]
    ints = [np.int32(v) for v in (x.shape[0], groups, w.shape[1], w.shape[0] // groups)]
    arguments: list[Any] = [b.operand("x"), b.dense("w"), bias, has_bias, b.out(), scratch, counter]
    arguments += [*ints, *strides_of(x), *(np.int32(v) for v in (*pairs, c["mb"], c["nb"]))]
    options = [f"-D{name.upper()}={c[name]}" for name in ("mr", "nv", "kc")]
    b.step("conv", FILES, count, arguments, options, per_unit=1)
    return b.build()


def _bias_only(problem: Problem) -> Kernel:
    """Nothing to sum (no channels, or only padding): the bias, or zeros."""
    if problem.get("bias") is None:
        return constant(problem, [0])
    shape, at = problem.results[0].shape, problem.operands.index("bias")

    def kernel(*arrays: Any) -> Any:
        bias = arrays[at]
        if isinstance(bias, np.ndarray):
            return np.ascontiguousarray(np.broadcast_to(bias[:, None, None], shape))
        host = np.broadcast_to(bias.get()[:, None, None], shape)
        from portable.backends.opencl import _runtime

        return _runtime.load().array.to_device(bias.queue, np.ascontiguousarray(host))

    return kernel


def _bias(b: Builder) -> tuple[Any, np.int32]:
    if "bias" in b.problem.operands:
        return b.dense("bias"), np.int32(1)
    return b.operand("w"), np.int32(0)


def _tiles(problem: Problem) -> tuple[int, int]:
    y = problem.results[0]
    return -(-y.shape[2] // 2), -(-y.shape[3] // 2)


def _winograd_gemm(problem: Problem) -> _gemm.Gemm:
    rows, cols = _tiles(problem)
    o, c = problem["w"].shape[:2]
    tiles = problem["x"].shape[0] * rows * cols
    return _gemm.Gemm(o, tiles, c, c, 1, tiles, 1, ((16, o * c, c * tiles),))


def _winograd(problem: Problem, device: Device, config: Config) -> Kernel:
    """Transforms of filters and inputs, 16 products, transform of outputs."""
    x, w, y = problem["x"], problem["w"], problem.results[0]
    b = Builder(problem, device, vector=int(config["vector"]))
    size, wide = (8, "float64") if b.dtype == "float64" else (4, "float32")
    rows, cols = _tiles(problem)
    g = _winograd_gemm(problem)
    u, v = b.scratch(16 * g.m * g.k * size), b.scratch(16 * g.k * g.n * size)
    m = b.scratch(16 * g.m * g.n * size)
    b.step("winograd_filters", "winograd.cl", g.m * g.k, [b.dense("w"), u, g.m * g.k])
    py, px = problem.param("padding")
    ints = [np.int32(i) for i in (*x.shape, py, px, rows, cols)]
    tasks = x.shape[0] * x.shape[1] * rows
    b.step("winograd_inputs", "winograd.cl", tasks, [b.dense("x"), v, *ints])
    stored, b.dtype = b.dtype, wide
    _gemm.add_gemm(b, g, u, v, m, config, _gemm.Epilogue())
    b.dtype = stored
    bias, has_bias = _bias(b)
    ints = [np.int32(i) for i in (x.shape[0], w.shape[0], *y.shape[2:], rows, cols)]
    tasks = x.shape[0] * w.shape[0] * rows
    b.step("winograd_outputs", "winograd.cl", tasks, [m, bias, has_bias, b.out(), *ints])
    return b.build()
