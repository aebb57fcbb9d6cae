"""attention: blocked for many queries, streamed for few; grouped heads share their keys."""

from __future__ import annotations

from typing import Any

import numpy as np

from portable.backend import Config, Kernel
from portable.backends.opencl import _gemm
from portable.backends.opencl._launch import Array, constant
from portable.backends.opencl._norm import why_not as why_not_layout
from portable.backends.opencl._plan import Builder, broadcast, is_cpu, strides_of, vector_width
from portable.device import Device
from portable.op import Problem

FILES = ("_panels.cl", "_micro.cl", "attention.cl")
SOURCES = ("_common.cl", "copy.cl", *FILES)
_FEW = 8
"""Rows (shared heads x queries) up to which keys are streamed."""
_MAX_HEAD = 512


def why_not(problem: Problem, device: Device) -> list[str]:
    """CPU devices, head dimensions up to 512."""
    reasons = why_not_layout(problem, device)
    if not is_cpu(device):
        reasons.append(f"device is a {device.info.kind} (has a kernel for CPUs)")
    if problem["q"].shape[3] == 0:
        reasons.append("head_dim is 0 (takes at least 1)")
    largest = max(problem["q"].shape[3], problem["v"].shape[3])
    if largest > _MAX_HEAD:
        reasons.append(f"head_dim is {largest} (takes up to {_MAX_HEAD})")
    return reasons


def _empty(problem: Problem) -> bool:
    return problem.results[0].size == 0 or problem["k"].shape[2] == 0


def configs(problem: Problem, device: Device) -> list[Config]:
    """Streamed or blocked; rows (rb) and keys (keys) of a block."""
    q, k = problem["q"], problem["k"]
    if _empty(problem):
        return [{}]
    vector = vector_width(device, q.dtype)
    rows = q.shape[1] // k.shape[1] * q.shape[2]
    splits = _splits(problem, device)
    decode: Config = {"kind": "decode", "vector": vector, "splits": splits}
    wide = vector * (8 if q.dtype == "float64" else 4) >= 64
    mr = _gemm.tile_rows(rows, 14 if wide else 6)
    units = max(device.info.units, 1)
    heads = k.shape[0] * k.shape[1]
    rb = min(-(-rows // mr), 112 // mr)
    while rb > 1 and heads * -(-rows // (rb * mr)) < 3 * units:
        rb = (rb + 1) // 2
    prefill: dict[str, int | str | bool] = {
        "kind": "prefill", "mr": mr, "nv": 2, "rb": rb * mr, "keys": 256, "vector": vector,
    }  # fmt: skip
    found: list[Config] = [decode, prefill] if rows <= _FEW else [prefill, {**prefill, "keys": 128}]
    return found


def _splits(problem: Problem, device: Device) -> int:
    """Parts into which the keys of a head are cut, so that every core has work."""
    k = problem["k"]
    heads, keys = k.shape[0] * k.shape[1], k.shape[2]
    return max(1, min(keys // 512, -(-4 * max(device.info.units, 1) // heads)))


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    q, k, v = (problem[name] for name in ("q", "k", "v"))
    if _empty(problem):
        return constant(problem, [0])
    c = {name: int(n) for name, n in config.items() if name != "kind"}
    b = Builder(problem, device, vector=c.get("vector"))
    arrays: list[Array] = []
    strides: list[int] = []
    for name in ("q", "k", "v"):
        spec, array = problem[name], b.operand(name)
        if spec.shape[3] > 1 and strides_of(spec)[3] != 1:
            array, spec = b.dense(name), spec.dense()
        arrays.append(array)
        strides += strides_of(spec)[:3]
    mask, mask_strides, kind = _mask(b)
    batches, heads, s, d = q.shape
    kv_heads, t, dv = k.shape[1], k.shape[2], v.shape[3]
    shared = heads // kv_heads
    sizes = [batches, kv_heads, shared, s, t]
    tail = [np.int32(problem.param("causal")), np.float64(problem.param("scale"))]
    options = [f"-DD={d}", f"-DDV={dv}", f"-DMASK={kind}"]
    size = 8 if b.dtype == "float64" else 4
    counter = b.scratch(64, zeroed=64)
    units = max(device.info.units, 1)
    if config["kind"] == "prefill":
        nr, keys, rb = c["nv"] * c["vector"], c["keys"], c["rb"]
        dp = -(-d // c["vector"]) * c["vector"] + c["vector"]
        op = -(-dv // nr) * nr
        per = rb * (dp + keys + c["vector"] + op + 2) + (dp + keys) * nr + keys * op
        count = max(1, min(batches * kv_heads * -(-shared * s // rb), units))
        scratch = b.scratch(count * per * size)
        options += ["-DPREFILL", f"-DMR={c['mr']}", f"-DNV={c['nv']}", f"-DKC={keys}"]
        options += [f"-DKB={keys}"]
        arguments: list[Any] = [*arrays, mask, b.out(), scratch, counter, *sizes, *strides]
        arguments += [*mask_strides, *tail, np.int32(rb)]
        b.step("attention_prefill", FILES, count, arguments, options, per_unit=1)
        return b.build()
    rows, splits = shared * s, c["splits"]
    dvec, ovec = -(-d // c["vector"]), -(-dv // c["vector"])
    count = max(1, min(batches * kv_heads * splits, units))
    padded = 1 << (rows - 1).bit_length()
    scratch = b.scratch(count * ((padded + c["vector"]) * dvec + padded) * c["vector"] * size)
    parts = b.scratch(batches * kv_heads * rows * splits * (ovec * c["vector"] + 2) * size)
    options += ["-DMR=1", "-DNV=1", "-DKC=64", f"-DROWS={padded}"]
    arguments = [*arrays, mask, b.out(), scratch, counter, *sizes, *strides, *mask_strides, *tail]
    arguments.append(np.int32(0))
    b.step("attention_decode", FILES, count, [*arguments, splits, parts], options, per_unit=1)
    total = batches * heads * s
    b.step("attention_combine", FILES, total, [parts, b.out(), total, splits], options, per_unit=1)
    return b.build()


def _mask(b: Builder) -> tuple[Array, tuple[int, ...], int]:
    """The mask, its strides when broadcast to (b, h, s, t), and its kind."""
    spec = b.problem.get("mask")
    if spec is None:
        return b.operand("q"), (0, 0, 0, 0), 0
    q, k = b.problem["q"], b.problem["k"]
    full = broadcast(spec, (*q.shape[:3], k.shape[2]))
    return b.operand("mask"), strides_of(full), 1 if spec.dtype == "bool" else 2
