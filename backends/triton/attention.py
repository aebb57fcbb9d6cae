"""Flash attention: causal to the end, masks, grouped queries, decode with the keys cut into parts.

The query heads of a key head share its tiles of keys: a decode step with grouped queries reads the
keys once per group.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from portable.backend import Config, Kernel
from portable.backends.triton import _attention, _target
from portable.backends.triton._elements import compute_type
from portable.backends.triton._layout import cdiv, next_power_of_2, strides_of, wide
from portable.backends.triton._plan import Buffer, Launch, Plan, T, runner
from portable.backends.triton._support import refuse
from portable.backends.triton._target import Target
from portable.device import Device
from portable.op import Problem

LONGEST_HEAD = 256
"""Head dimension up to which a tile of keys and values stays in shared memory on every target."""
LOG2E = 1.4426950408889634
Tile = tuple[int, int, int, int]
"""(block_m, block_n, num_warps, num_stages)"""


def why_not(problem: Problem, device: Device) -> list[str]:
    """Float dtypes, head dimensions up to LONGEST_HEAD (half of it for float64 and on RDNA 3)."""
    reasons = refuse(problem, device)
    # RDNA 3 holds WMMA operands twice: with 256 every tile spills
    short = problem.dtype == "float64" or device.info.architecture.startswith("gfx11")
    longest = LONGEST_HEAD // 2 if short else LONGEST_HEAD
    for name in ("q", "v"):
        if problem[name].shape[3] > longest:
            size = problem[name].shape[3]
            reasons.append(f"head dimension of {name} is {size} (at most {longest})")
    return reasons


def tiles_for(problem: Problem, target: Target) -> list[Tile]:
    """Tiles whose operands and accumulator fit, best guess first.

    Found by cross-compiling for every target: what spilled is not here. The products of float32
    (and the whole of RDNA 3, whose WMMA holds each operand twice) run short of registers first.
    """
    wide_head = max(_padded(problem["q"].shape[3]), _padded(problem["v"].shape[3])) > 128
    few = _rows(problem) <= 16 or target.backend == "interpreter"
    itemsize = problem["q"].itemsize
    if itemsize == 8:
        return [(16, 16, 4, 1)]
    if itemsize == 4 and not target.cdna:
        return _single(target, few or wide_head)
    if target.rdna:
        return _rdna(target, few, wide_head)
    if few:
        return [(16, 32, 4, 2)] if itemsize == 4 else [(16, 64, 4, 2), (16, 32, 4, 2)]
    if target.cdna:
        return [(64, 32, 4, 1)] if wide_head else [(128, 64, 4, 1), (128, 32, 4, 1), (64, 64, 4, 1)]
    if target.capability in (90, 100, 103, 110):
        tiles = [(128, 128, 8, 2), (128, 64, 8, 3), (64, 64, 4, 3)]
        return [(64, 64, 8, 2)] if wide_head else tiles
    return [(64, 32, 8, 2)] if wide_head else [(128, 64, 8, 2), (128, 32, 8, 3), (64, 64, 4, 2)]


def _single(target: Target, small: bool) -> list[Tile]:
    """float32 without a matrix unit."""
    if target.rdna:
        return [(16, 16, 8, 1)] if small else [(16, 16, 8, 1), (32, 16, 16, 1)]
    return [(16, 16, 4, 1)] if small else [(32, 16, 8, 1), (16, 16, 4, 1)]


def _rdna(target: Target, few: bool, wide_head: bool) -> list[Tile]:
    """Half types on WMMA."""
    if wide_head:
        return [(16, 16, 8, 1)]
    if few:
        return [(16, 32, 4, 1), (16, 16, 4, 1)]
    third = str(target.arch).startswith("gfx11")
    return [(32, 16, 8, 1), (16, 32, 4, 1)] if third else [(64, 32, 8, 1), (32, 32, 4, 1)]


def _rows(problem: Problem) -> int:
    """Rows of one key head: its query heads times the queries."""
    q, k = problem["q"].shape, problem["k"].shape
    return q[1] // k[1] * q[2] if k[1] else 0


def _padded(size: int) -> int:
    return max(16, next_power_of_2(max(size, 1)))


def configs(problem: Problem, device: Device) -> Sequence[Config]:
    """Tiles; with parts of the keys where there are too few tiles of rows."""
    target = _target.of(device)
    (b, _, _, _), (_, hk, t, _) = problem["q"].shape, problem["k"].shape
    units = target.units or 100
    found: list[Config] = []
    for block_m, block_n, num_warps, num_stages in tiles_for(problem, target):
        programs = b * hk * cdiv(max(_rows(problem), 1), block_m)
        room = next_power_of_2(max(1, t // (2 * block_n)))
        best = min(next_power_of_2(max(1, 2 * units // max(programs, 1))), room, 64)
        for split in sorted({best, max(1, best // 2), 1}, key=lambda n: (n != best, -n)):
            if split > 1 and programs > units:
                continue
            found.append({"block_m": block_m, "block_n": block_n, "split": split,
                          "num_warps": num_warps, "num_stages": num_stages})  # fmt: skip
    return found


def plan(problem: Problem, target: Target, config: Config) -> Plan:
    """One launch, or one over parts of the keys and one that combines them."""
    q, k, v, out = problem["q"], problem["k"], problem["v"], problem.results[0]
    b, h, s, d = q.shape
    hk, t, dv = k.shape[1], k.shape[2], v.shape[3]
    rows, split = _rows(problem), int(config["split"])
    block_m, block_n = int(config["block_m"]), int(config["block_n"])
    acc = "float64" if q.dtype == "float64" else "float32"
    block_d, block_v = _padded(d), _padded(dv)
    arguments: dict[str, Any] = {
        "q": T("q"), "k": T("k"), "v": T("v"), "y": T("out" if split == 1 else "parts"),
        "heads": hk, "group": h // hk if hk else 1, "s": s, "t": t, "d": d, "dv": dv,
        "rows": rows, "each": cdiv(cdiv(t, split), block_n) * block_n,
        "SCALE": float(problem.param("scale")) * LOG2E, "SPLIT": split,
        "CAUSAL": problem.param("causal"), "EVEN_D": d == block_d, "EVEN_V": dv == block_v,
        "BLOCK_M": block_m, "BLOCK_N": block_n, "BLOCK_D": block_d, "BLOCK_V": block_v,
        "ACC": compute_type(q.dtype), "WIDE": wide(problem), **_mask(problem),
        "tops": T("tops") if split > 1 else None, "totals": T("totals") if split > 1 else None,
    }  # fmt: skip
    for name, letters in (("q", "bhsd"), ("k", "bhtd"), ("v", "bhtd")):
        steps = strides_of(problem[name])
        arguments |= {f"{name}{x}": step for x, step in zip(letters, steps, strict=True)}
    options = {"num_warps": int(config["num_warps"]), "num_stages": int(config["num_stages"])}
    planes = b * hk
    grid = planes * split * cdiv(rows, block_m)
    launches = [Launch(_attention.attention_kernel, grid, arguments, options)]
    buffers = {"out": Buffer(out.shape, out.dtype)}
    if split > 1:
        buffers |= {name: Buffer((planes, split, rows), acc) for name in ("tops", "totals")}
        buffers["parts"] = Buffer((planes, split, rows, dv), acc)
        last = {
            "parts": T("parts"), "tops": T("tops"), "totals": T("totals"), "y": T("out"),
            "rows": rows, "planes": planes, "dv": dv, "SPLIT": split, "BLOCK_V": block_v,
            "ACC": compute_type(q.dtype), "WIDE": wide(problem),
        }  # fmt: skip
        launches.append(Launch(_attention.attention_combine, planes * rows, last, {"num_warps": 4}))
    return Plan(tuple(launches), buffers)


def _mask(problem: Problem) -> dict[str, Any]:
    """The mask's arguments, its strides broadcast to four axes."""
    mask = problem.get("mask")
    if mask is None:
        return {"mask": None, "BOOL": False, "mb": 0, "mh": 0, "ms": 0, "mt": 0}
    pairs = zip(mask.shape, strides_of(mask), strict=True)
    steps = [0] * (4 - mask.ndim) + [0 if n == 1 else step for n, step in pairs]
    boolean = mask.dtype == "bool"
    view = T("mask", "uint8" if boolean else "")
    return {
        "mask": view,
        "BOOL": boolean,
        **dict(zip(("mb", "mh", "ms", "mt"), steps, strict=True)),
    }


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Builds nothing yet: Triton compiles at the first launch."""
    return runner(problem, plan(problem, _target.of(device), config))
