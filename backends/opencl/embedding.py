"""embedding: rows of a table, copied."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import constant
from portable.backends.opencl._plan import Builder, strides_of, too_many_axes, why_not_memory
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "copy.cl", "embedding.cl")
ELEMENTS = {1: "uchar", 2: "ushort", 4: "uint", 8: "ulong"}
INDICES = {
    "int8": "char", "int16": "short", "int32": "int", "int64": "long",
    "uint8": "uchar", "uint16": "ushort", "uint32": "uint", "uint64": "ulong",
}  # fmt: skip


def why_not(problem: Problem, device: Device) -> list[str]:
    """Elements of 1, 2, 4 or 8 bytes."""
    table = problem["table"]
    if table.itemsize not in ELEMENTS:
        return [f"dtype is {table.dtype} (takes elements of 1, 2, 4 or 8 bytes)"]
    return too_many_axes(problem["indices"]) + why_not_memory(problem, device)


def configs(problem: Problem, device: Device) -> list[Config]:
    """Nothing to tune."""
    return [{}]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    table, indices = problem["table"], problem["indices"]
    if problem.results[0].size == 0:
        return constant(problem, [0])
    b = Builder(problem, device)
    options = [f"-DELEMENT={ELEMENTS[table.itemsize]}", f"-DINDEX={INDICES[indices.dtype]}"]
    rows, n = table.shape
    row, column = strides_of(table)
    arguments = [
        b.operand("table"),
        b.dense("indices"),
        b.out(),
        indices.size,
        rows,
        n,
        row,
        column,
    ]
    b.step("embedding", "embedding.cl", indices.size, arguments, options)
    return b.build()
