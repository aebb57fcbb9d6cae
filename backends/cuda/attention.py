"""Attention in one pass over keys and values, the queries of grouped heads side by side.

    mma    f16 and bf16 on the matrix units
    simt   every float type, every device

Where the query rows alone leave the device idle (decoding), the keys are split over blocks and a
second launch puts the parts together.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda._build import C_TYPES
from portable.backends.cuda._plan import (
    THREADS,
    Step,
    blocks,
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
from portable.op import Problem, TensorSpec

SOURCES = (
    "_attention.cuh",
    "_attention_combine.cu",
    "_attention_mma.cu",
    "_attention_simt.cu",
    "_common.cuh",
    "_mma.cuh",
    "transpose.cu",
)
_HEAD = 256  # largest head size: accumulators of a row tile stay in registers


def why_not(problem: Problem, device: Device) -> list[str]:
    """Other dtypes, or heads that are too large."""
    reasons = why_not_dtype(problem, dtypes.FLOATS) + why_not_layout(problem)
    for name in ("q", "v"):
        size = problem[name].shape[3]
        if size > _HEAD:
            reasons.append(f"head size of {name} is {size} (limit {_HEAD})")
    if not reasons and not configs(problem, device):
        shared = target(device).shared
        reasons.append(f"no tile fits the {shared} B of shared memory of a block")
    return reasons


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Kernel and tile, the likely best first."""
    return [c for c in _candidates(problem, target(device)) if _fits(problem, c, target(device))]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build for a device."""
    return compile_with(build, problem, device, config)


def build(problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
    """The host side."""
    result = problem.results[0]
    if result.size == 0:
        return lambda *arrays: runtime.empty(result.shape, result.dtype)
    specs = [
        spec if name == "mask" or _adjacent(spec) else spec.dense()
        for name, spec in zip(problem.operands, problem.tensors, strict=True)
    ]
    steps: list[Step] = [
        (lambda array: array) if read == given else dense(runtime, given)
        for read, given in zip(specs, problem.tensors, strict=True)
    ]
    matrix = config["kind"] == "mma"
    splits = int(config["split"])
    macros = _macros(problem, specs, config, aligned) | {"SPLIT": int(splits > 1)}
    block = 32 * int(config["warps"]) if matrix else THREADS
    name = f"attention_{config['kind']}"
    launch = runtime.kernel(f"_{name}.cu", name, macros, block, _shared(problem, config))
    b, h, s, dv = result.shape
    heads = specs[1].shape[1]
    rows, batch = s * (h // heads), b * heads
    grid = (-(-rows // _tile_rows(config)), splits, min(batch, 65535))
    sizes = (batch, float(problem.param("scale")), *_sizes(problem, specs))
    accumulator = dtypes.accumulator(problem.dtype)
    if splits > 1:
        combine_macros: dict[str, int | str] = {"T": C_TYPES[problem.dtype], "BASE2": int(matrix)}
        combine = runtime.kernel(
            "_attention_combine.cu", "attention_combine", combine_macros, THREADS
        )

    def kernel(*arrays: Any) -> Any:
        out = runtime.empty(result.shape, result.dtype)
        read = [step(array) for step, array in zip(steps, arrays, strict=True)]
        mask = read[3] if len(read) > 3 else out
        partial = stats = out
        if splits > 1:
            partial = runtime.empty((splits, b * h * s, dv), accumulator)
            stats = runtime.empty((splits, b * h * s, 2), accumulator)
        launch(grid, out, partial, stats, *read[:3], mask, *sizes)
        if splits > 1:
            total = b * h * s
            combine((blocks(total * dv), 1, 1), out, partial, stats, total, dv, splits)
        return out

    return kernel


def _adjacent(spec: TensorSpec) -> bool:
    return strides(spec)[-1] == 1 or spec.shape[-1] == 1


def _sizes(problem: Problem, specs: Sequence[TensorSpec]) -> list[int]:
    """The kernel's Shape: heads, group, s, t, d, dv, and the strides of q, k, v and the mask."""
    q, k, v = specs[:3]
    found = [k.shape[1], q.shape[1] // k.shape[1], q.shape[2], k.shape[2], q.shape[3], v.shape[3]]
    for spec in (q, k, v):
        found += strides(spec)[:3]
    mask = problem.get("mask")
    if mask is None:
        return [*found, 0, 0, 0, 0]
    own = [
        0 if extent == 1 else step for extent, step in zip(mask.shape, strides(mask), strict=True)
    ]
    return [*found, *[0] * (4 - len(own)), *own]


def _padded(size: int) -> int:
    return max(16, -(-size // 16) * 16)


def _macros(
    problem: Problem, specs: Sequence[TensorSpec], config: Config, aligned: bool
) -> dict[str, int | str]:
    mask = problem.get("mask")
    d, dv = _padded(specs[0].shape[3]), _padded(specs[2].shape[3])
    macros: dict[str, int | str] = {
        "T": C_TYPES[problem.dtype],
        "CAUSAL": int(problem.param("causal")),
        "MASK": 0 if mask is None else 1 if mask.dtype == "bool" else 2,
        "D": d,
        "DV": dv,
    }
    if config["kind"] == "simt":
        return macros | {"RM": int(config["rm"]), "RN": int(config["rn"])}
    wide = [
        aligned and spec.shape[3] % 8 == 0 and all(step % 8 == 0 for step in strides(spec)[:3])
        for spec in specs[:3]
    ]
    return macros | {
        "WARPS": int(config["warps"]),
        "BN": int(config["bn"]),
        "Q_SHARED": int(_tight(problem)),
        "VQ": int(wide[0]),
        "VK": int(wide[1]),
        "VV": int(wide[2]),
    }


def _tight(problem: Problem) -> bool:
    """Whether queries, scores and sums of a row tile together exceed 255 registers."""
    size = max(problem["q"].shape[3], problem["v"].shape[3])
    return size > (128 if "mask" not in problem.operands else 64)


def _tile_rows(config: Config) -> int:
    return 16 * int(config["warps"] if config["kind"] == "mma" else config["rm"])


def _shared(problem: Problem, config: Config) -> int:
    """Shared memory of a block [B]: queries, keys, values (simt: values replace the keys)."""
    d, dv = _padded(problem["q"].shape[3]), _padded(problem["v"].shape[3])
    rows = _tile_rows(config)
    if config["kind"] == "mma":
        bn = int(config["bn"])
        return 2 * ((rows + bn) * (d + 8) + bn * (dv + 8))
    item = dtypes.itemsize(dtypes.accumulator(problem.dtype))
    bn = 16 * int(config["rn"])
    return item * ((rows + bn) * (max(d, dv) + 1) + rows * (bn + 1))


def _fits(problem: Problem, config: Config, built_for: Target) -> bool:
    return _shared(problem, config) <= built_for.shared


def _candidates(problem: Problem, built_for: Target) -> list[Config]:
    q, k = problem["q"], problem["k"]
    rows = q.shape[2] * (q.shape[1] // max(k.shape[1], 1))
    found: list[dict[str, int | str | bool]] = []
    size = max(q.shape[3], problem["v"].shape[3])
    # sm_75 has the smaller mma only, which takes more registers: no room for heads above 128.
    least = {"float16": 75 if size <= 128 else 80, "bfloat16": 80}.get(problem.dtype, 1000)
    if built_for.capability >= least:
        order = [1, 2, 4, 8] if rows <= 16 else [2, 4, 1, 8] if rows <= 32 else [4, 8, 2, 1]
        keys: tuple[int, ...] = (32, 16) if _tight(problem) else (64, 32, 128)
        if size > 128 and "mask" in problem.operands:
            keys = (16, 32)
        found += [{"kind": "mma", "warps": w, "bn": bn} for bn in keys for w in order]
    for rm, rn in ((2, 2), (1, 2), (1, 1)):
        found.append({"kind": "simt", "rm": rm, "rn": rn})
    return [{**c, "split": _split(problem, c, built_for, rows)} for c in found]


def _split(problem: Problem, config: Config, built_for: Target, rows: int) -> int:
    """Parts of the keys: enough blocks to fill the device four times, two steps each at least."""
    q, k = problem["q"], problem["k"]
    tiles = -(-rows // _tile_rows(config)) * q.shape[0] * k.shape[1]
    keys = int(config["bn"]) if config["kind"] == "mma" else 16 * int(config["rn"])
    return max(1, min(4 * built_for.parallel // max(tiles, 1), k.shape[2] // (2 * keys), 64))
