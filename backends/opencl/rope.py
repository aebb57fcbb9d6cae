"""rope: one pass over x, tables broadcast by strides."""

from __future__ import annotations

from portable.backend import Config, Kernel
from portable.backends.opencl._launch import Array, constant
from portable.backends.opencl._norm import why_not
from portable.backends.opencl._plan import Builder, broadcast, strides_of
from portable.backends.opencl._softmax import configs
from portable.device import Device
from portable.op import Problem

SOURCES = ("_common.cl", "copy.cl", "rope.cl")
__all__ = ["SOURCES", "compile", "configs", "why_not"]
_AXES = 4
Axis = tuple[int, tuple[int, ...]]


def compile(problem: Problem, device: Device, config: Config) -> Kernel:
    """Build the kernel."""
    x = problem["x"]
    if x.size == 0:
        return constant(problem, [0])
    b = Builder(problem, device, vector=int(config.get("vector", 0)) or None)
    arrays, axes = _layout(b, {name for name in problem.operands if _copies(problem, name)})
    if len(axes) > _AXES:
        b = Builder(problem, device, vector=b.vector)
        arrays, axes = _layout(b, set(problem.operands))
    axes = [(1, (0, 0, 0))] * (_AXES - len(axes)) + axes
    flat = [n for n, _ in axes] + [s[i] for i in range(3) for _, s in axes]
    options = ["-DINTERLEAVED"] if problem.param("interleaved") else []
    if problem["cos"].dtype != x.dtype:
        options.append("-DTABLE_F32")
    options += b.streaming()
    tasks = -(-x.size // x.shape[-1] // b.local)
    b.step("rope", "rope.cl", tasks, [*arrays, b.out(), *flat, x.shape[-1]], options)
    return b.build()


def _copies(problem: Problem, name: str) -> bool:
    """Whether the last axis is not contiguous, so that the kernel needs a copy."""
    spec = problem[name]
    return spec.shape[-1] > 1 and strides_of(spec)[-1] != 1


def _layout(b: Builder, copied: set[str]) -> tuple[list[Array], list[Axis]]:
    """The arrays and the leading axes, merged where all three step as one."""
    problem = b.problem
    lead = problem["x"].shape[:-1]
    arrays, strides = [], []
    for name in ("x", "cos", "sin"):
        spec = problem[name]
        if name in copied:
            arrays.append(b.dense(name))
            spec = spec.dense()
        else:
            arrays.append(b.operand(name))
        strides.append(strides_of(broadcast(spec, (*lead, spec.shape[-1])))[:-1])
    merged: list[Axis] = []
    for i, n in enumerate(lead):
        if n == 1:
            continue
        step = tuple(s[i] for s in strides)
        if merged and merged[-1][1] == tuple(s * n for s in step):
            merged[-1] = (merged[-1][0] * n, step)
        else:
            merged.append((n, step))
    return arrays, merged
