"""Writing down the launches of a problem: operands, contiguous copies, grids, options."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from itertools import pairwise
from typing import Any

import numpy as np

from portable import dtypes
from portable.backends.opencl._launch import Array, Launcher, Scratch, Step, span
from portable.device import Device
from portable.op import Problem, TensorSpec

_TAGS = {"float64": "F64", "float32": "F32", "float16": "F16", "bfloat16": "BF16"}
Dim = tuple[int, int, int]
"""Extent, source stride, destination stride."""


def is_cpu(device: Device) -> bool:
    """Whether one work-item a group, with explicit vectors, is the right shape."""
    return device.info.kind == "cpu"


def vector_width(device: Device, dtype: str) -> int:
    """Elements of the widest register in the type sums are kept in (4 on GPUs)."""
    if not is_cpu(device):
        return 4
    width = int(device.info.extra.get("vector_width_float", "8") or 8)
    width = max(4, min(16, width))
    return max(4, width // 2) if dtype == "float64" else width


def asks_ahead(device: Device) -> bool:
    """Whether products ask for what they read next, before tuning tells.

    On Zen 5 that gave 3 to 16 %. On a Xeon of the Sapphire Rapids class it cost 5 to 10 %: the line
    buffers of a core, which what is asked for fills, are its bottleneck, not the prefetchers.
    """
    return "Intel" not in device.info.name


def groups(device: Device, tasks: int, per_unit: int = 4) -> int:
    """Work-groups for `tasks` independent tasks: a few per compute unit, at least one."""
    return max(1, min(tasks, max(device.info.units, 1) * per_unit))


def local_size(device: Device) -> int:
    """Work-items of a cooperating group: one on CPUs, 128 (or what is allowed) elsewhere."""
    if is_cpu(device):
        return 1
    allowed = int(device.info.extra.get("max_work_group", "64") or 64)
    return 1 << min(7, max(0, allowed.bit_length() - 1))


def why_not_float(problem: Problem, device: Device) -> list[str]:
    """Reasons by dtype and memory: real floats only, float64 where the device has it."""
    dtype = problem.dtype
    if dtype not in dtypes.FLOATS:
        return [f"dtype is {dtype} (takes {', '.join(dtypes.FLOATS)})"]
    reasons = why_not_double(device) if dtype == "float64" else []
    return reasons + why_not_memory(problem, device)


def why_not_memory(problem: Problem, device: Device) -> list[str]:
    """A reason for each tensor that reaches over more bytes than the device takes in one buffer.

    Devices with shared virtual memory read host arrays in place and have no such limit. A view of
    a few elements far apart counts with all that lies between: a buffer has no holes.
    """
    limit = int(device.info.extra.get("max_buffer", "0") or 0)
    if not limit:
        return []
    results = [(f"result {i}", r) for i, r in enumerate(problem.results)]
    named = [*zip(problem.operands, problem.tensors, strict=True), *results]
    reach = [(name, max(span(t) * t.itemsize, t.nbytes)) for name, t in named]
    return [f"{name} spans {n} bytes (takes {limit} in one buffer)" for name, n in reach
            if n > limit]  # fmt: skip


def why_not_double(device: Device) -> list[str]:
    """A reason when the device has no double precision."""
    if "cl_khr_fp64" in device.info.features:
        return []
    return ["dtype is float64 (the device lacks cl_khr_fp64)"]


def collapse(dims: Sequence[Dim]) -> list[Dim]:
    """Drop axes of extent 1 and merge neighbours that step through memory as one."""
    merged: list[Dim] = []
    for n, s, d in dims:
        if n == 1:
            continue
        if merged and merged[-1][1] == s * n and merged[-1][2] == d * n:
            merged[-1] = (merged[-1][0] * n, s, d)
        else:
            merged.append((n, s, d))
    return merged


def strides_of(spec: TensorSpec) -> tuple[int, ...]:
    """Strides in elements, spelled out."""
    from portable.op import contiguous_strides

    return contiguous_strides(spec.shape) if spec.strides is None else spec.strides


def row_stride(spec: TensorSpec, row_axes: int) -> int | None:
    """Stride between rows if the last axes are contiguous rows at one distance, else None.

    `row_axes` trailing axes form a row.
    """
    if spec.size == 0:
        return None
    strides = strides_of(spec)
    split = spec.ndim - row_axes
    inner = collapse([(n, s, 0) for n, s in zip(spec.shape[split:], strides[split:], strict=True)])
    outer = [(n, s) for n, s in zip(spec.shape[:split], strides[:split], strict=True) if n != 1]
    if len(inner) > 1 or (inner and inner[0][1] != 1):
        return None
    if not outer:
        return math.prod(spec.shape[split:])
    if any(a[1] != b[1] * b[0] for a, b in pairwise(outer)):
        return None
    return outer[-1][1]


@dataclass(frozen=True, slots=True)
class Rows:
    """Rows of contiguous elements at one distance."""

    array: Array
    stride: int


STREAM_FROM = 48 << 20
"""Bytes of operands and results from which the next op cannot find them in a cache."""


class Builder:
    """Collects the launches of one problem.

    Args:
        problem: what to compute.
        device: for whom.
        dtype: element type of the kernels' `S`; the first operand's when not given.
        vector: vector width; the device's when not given.
    """

    def __init__(
        self,
        problem: Problem,
        device: Device,
        dtype: str | None = None,
        vector: int | None = None,
    ) -> None:
        self.problem, self.device = problem, device
        self.dtype = dtype or problem.dtype
        self.vector = vector or vector_width(device, self.dtype)
        self.local = local_size(device)
        self._steps: list[Step] = []
        self._scratch: list[Scratch] = []

    # ---- arrays
    def operand(self, name: str) -> Array:
        """An operand as it is."""
        return Array("in", self.problem.operands.index(name))

    def out(self, index: int = 0) -> Array:
        """A result."""
        return Array("out", index)

    def scratch(self, nbytes: int, zeroed: int = 0) -> Array:
        """Memory for this call only."""
        self._scratch.append(Scratch(max(nbytes, 1), zeroed))
        return Array("tmp", len(self._scratch) - 1)

    def dense(self, name: str, shape: tuple[int, ...] | None = None) -> Array:
        """An operand with row-major contiguous elements, copied to scratch if it has not.

        `shape` broadcasts it first.
        """
        spec = self.problem[name]
        if shape is not None and shape != spec.shape:
            spec = broadcast(spec, shape)
        if spec.contiguous:
            return self.operand(name)
        target = self.scratch(spec.nbytes)
        self.copy(self.operand(name), spec, target)
        return target

    def rows(self, name: str, row_axes: int = 1, shape: tuple[int, ...] | None = None) -> Rows:
        """An operand as rows of its last axes, copied only if its layout is no such thing."""
        spec = self.problem[name]
        if shape is not None and shape != spec.shape:
            spec = broadcast(spec, shape)
        stride = row_stride(spec, row_axes)
        if stride is not None:
            return Rows(self.operand(name), stride)
        return Rows(self.dense(name, shape), math.prod(spec.shape[spec.ndim - row_axes :]))

    def streaming(self) -> list[str]:
        """Options for results that no cache will hold: stores past the caches, and prefetching."""
        if not is_cpu(self.device) or self.device.runtime == "oclgrind":
            return []
        tensors = (*self.problem.tensors, *self.problem.results)
        if sum(t.nbytes for t in tensors) < STREAM_FROM:
            return []
        return ["-DSTREAM", "-DPREFETCH"]

    # ---- launches
    def step(
        self,
        name: str,
        file: str | tuple[str, ...],
        tasks: int,
        arguments: Sequence[Any],
        options: Sequence[str] = (),
        per_unit: int = 4,
        local: int | None = None,
    ) -> None:
        """A launch of groups that share `tasks` among themselves."""
        files = (file,) if isinstance(file, str) else file
        count = groups(self.device, tasks, per_unit if is_cpu(self.device) else 1 << 30)
        fixed = [f"-DDT_{_TAGS.get(self.dtype, 'F32')}", f"-DVW={self.vector}"]
        items = local or self.local
        fixed.append(f"-DLOCAL={items}")
        values = tuple(a if isinstance(a, Array | np.generic) else np.int64(a) for a in arguments)
        step = Step(name, files, (*fixed, *options), (count * items,), (items,), values)
        self._steps.append(step)

    def copy(self, source: Array, spec: TensorSpec, target: Array) -> None:
        """Strided `source` to row-major `target`."""
        dense = spec.dense()
        dims = collapse(list(zip(spec.shape, strides_of(spec), strides_of(dense), strict=True)))
        add_copy(self, source, target, dims, spec.itemsize)

    def build(self) -> Launcher:
        """The kernel."""
        return Launcher(self.problem, self.device, self._steps, self._scratch)


def broadcast(spec: TensorSpec, shape: tuple[int, ...]) -> TensorSpec:
    """The spec seen with a broadcast shape: stride 0 where it is repeated."""
    lead = len(shape) - spec.ndim
    strides = [0] * lead
    for n, s, wanted in zip(spec.shape, strides_of(spec), shape[lead:], strict=True):
        strides.append(s if n == wanted else 0)
    return TensorSpec(shape, spec.dtype, tuple(strides))


MAX_OUTER = 6
_BLOCK = 4096


def add_copy(b: Builder, source: Array, target: Array, dims: list[Dim], itemsize: int) -> None:
    """Append a strided copy: rows when the last axis is contiguous in both, else tiles.

    Raises:
        ValueError: more axes than the kernel takes (after merging).
    """
    dims = dims or [(1, 1, 1)]
    q = dims[-1]
    p_at = next((i for i, d in enumerate(dims[:-1]) if abs(d[1]) == 1 and d[1] > 0), None)
    tiles = q[1] != 1 and p_at is not None
    outer = [d for i, d in enumerate(dims[:-1]) if not (tiles and i == p_at)]
    if len(outer) > MAX_OUTER:
        raise ValueError(f"{len(dims)} separate axes (a strided copy takes {MAX_OUTER + 1})")
    outer = [(1, 0, 0)] * (MAX_OUTER - len(outer)) + outer
    flat = [v for d in outer for v in d]
    options = [f"-DELEMENT={ {1: 'uchar', 2: 'ushort', 4: 'uint', 8: 'ulong'}[itemsize] }"]
    count = math.prod(d[0] for d in outer)
    if tiles and p_at is not None:
        p = dims[p_at]
        blocks = -(-p[0] // 16)
        arguments = [source, target, *flat, p[0], p[2], q[0], q[1]]
        b.step("copy_tiles", "copy.cl", count * blocks, arguments, options)
    else:
        blocks = -(-q[0] // _BLOCK)
        arguments = [source, target, *flat, q[0], q[1], q[2], _BLOCK]
        b.step("copy_rows", "copy.cl", count * blocks, arguments, options)


def too_many_axes(spec: TensorSpec) -> list[str]:
    """A reason when an operand would need a strided copy of more axes than the kernel takes."""
    dims = collapse(list(zip(spec.shape, strides_of(spec), strides_of(spec.dense()), strict=True)))
    if len(dims) > MAX_OUTER + 1:
        return [f"{len(dims)} separately strided axes (takes {MAX_OUTER + 1})"]
    return []


Compile = Callable[[Problem, Device, Any], Any]
