"""Steps that the plans of several ops share: layouts, packing, alignment, grid sizes."""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from typing import Any, Protocol

from portable import dtypes
from portable.backend import Config, Kernel
from portable.backends.cuda import _runtime, _targets
from portable.backends.cuda._runtime import Launch, Runtime
from portable.device import Device
from portable.op import Problem, TensorSpec, contiguous_strides

Step = Callable[[Any], Any]

MAX_AXES = 6
"""Axes of `copy_strided`, after neighbouring ones are merged."""
THREADS = 256
_UNSIGNED = {1: "u8", 2: "u16", 4: "u32", 8: "u64"}
_MAX_BLOCKS = 1 << 20


class Build(Protocol):
    """An op module's `build`: the host side of its kernels on any runtime."""

    def __call__(self, problem: Problem, config: Config, runtime: Runtime, aligned: bool) -> Kernel:
        """Plan and build; `aligned`: every input starts on 16 bytes."""
        ...


def compile_with(build: Build, problem: Problem, device: Device, config: Config) -> Kernel:
    """An implementation's `compile` on a device."""
    runtime = _runtime.runtime(device)
    return runtime.on_device(guarded(build, problem, config, runtime))


def guarded(build: Build, problem: Problem, config: Config, runtime: Runtime) -> Kernel:
    """The kernel for 16-byte aligned inputs; a second one is built when others come along.

    CuPy's pool aligns to 512 bytes; a view (`x[1:]`) may start anywhere.
    """
    fast = build(problem, config, runtime, True)
    slow: list[Kernel] = []

    def kernel(*arrays: Any) -> Any:
        if all(runtime.pointer(array) % 16 == 0 for array in arrays):
            return fast(*arrays)
        if not slow:
            slow.append(build(problem, config, runtime, False))
        return slow[0](*arrays)

    return kernel


def target(device: Device) -> _targets.Target:
    """The target of a device."""
    return _targets.of_device(device)


def why_not_dtype(problem: Problem, allowed: Sequence[str]) -> list[str]:
    """ "dtype is complex64 (takes float64, ...)"."""
    if problem.dtype in allowed:
        return []
    return [f"dtype is {problem.dtype} (takes {', '.join(allowed)})"]


def why_not_layout(problem: Problem) -> list[str]:
    """Layouts that the packing step cannot read."""
    found = []
    for name, spec in zip(problem.operands, problem.tensors, strict=True):
        axes = len(merged(spec.shape, [strides(spec)])[0])
        if axes > MAX_AXES:
            found.append(f"{name} has {axes} axes that do not merge (limit {MAX_AXES})")
    return found


def strides(spec: TensorSpec) -> tuple[int, ...]:
    """Strides in elements, also for a contiguous tensor."""
    return contiguous_strides(spec.shape) if spec.strides is None else spec.strides


def merged(
    shape: Sequence[int], steps: Sequence[Sequence[int]]
) -> tuple[list[int], list[list[int]]]:
    """Drop axes of one, and merge neighbours that every tensor walks as one axis.

    Args:
        shape: common extents.
        steps: the strides of each tensor over them.
    """
    extents: list[int] = []
    found: list[list[int]] = [[] for _ in steps]
    for axis, extent in enumerate(shape):
        if extent == 1:
            continue
        here = [step[axis] for step in steps]
        if extents and all(
            last[-1] == step * extent for last, step in zip(found, here, strict=True)
        ):
            extents[-1] *= extent
            for last, step in zip(found, here, strict=True):
                last[-1] = step
        else:
            extents.append(extent)
            for last, step in zip(found, here, strict=True):
                last.append(step)
    return extents, found


def blocks(total: int, each: int = THREADS) -> int:
    """Blocks for `total` elements; kernels walk on in grid steps when there are more."""
    return max(1, min(_MAX_BLOCKS, -(-total // each)))


def vector(dtype: str, *extents: int, aligned: bool = True) -> int:
    """Elements of one 16-byte access, or 1 where rows of these extents do not start on 16 bytes."""
    wide = 16 // dtypes.itemsize(dtype)
    return wide if aligned and all(extent % wide == 0 for extent in extents) else 1


def dense(runtime: Runtime, spec: TensorSpec) -> Step:
    """A step that gives the tensor contiguous: the array itself, or a packed copy."""
    if spec.contiguous:
        return lambda array: array
    copy = copier(runtime, spec)

    def pack(array: Any) -> Any:
        out = runtime.empty(spec.shape, spec.dtype)
        copy(out, array)
        return out

    return pack


def copier(runtime: Runtime, spec: TensorSpec) -> Callable[[Any, Any], None]:
    """`copy(out, array)`: a strided tensor into dense memory of the same shape."""
    if spec.size == 0:
        return lambda out, array: None
    shape, (steps,) = merged(spec.shape, [strides(spec)])
    macros: dict[str, int | str] = {"T": _UNSIGNED[spec.itemsize]}
    if 2 <= len(shape) <= 3 and steps[-2] == 1 and min(shape[-2:]) >= 8:
        rows, cols = shape[-2:]
        batch, step = (shape[0], steps[0]) if len(shape) == 3 else (1, 0)
        launch = runtime.kernel("transpose.cu", "copy_transposed", macros, THREADS)
        grid = (-(-rows // 32) * -(-cols // 32), min(batch, 65535), 1)
        args: tuple[int, ...] = (rows, cols, steps[-1], batch, step)
    else:
        lead = MAX_AXES - len(shape)
        launch = runtime.kernel("transpose.cu", "copy_strided", macros, THREADS)
        grid = (blocks(spec.size), 1, 1)
        args = (spec.size, *[1] * lead, *shape, *[0] * lead, *steps)
    return _launcher(launch, grid, args)


def _launcher(
    launch: Launch, grid: tuple[int, int, int], args: tuple[int, ...]
) -> Callable[[Any, Any], None]:
    return lambda out, array: launch(grid, out, array, *args)


def rows_of(shape: Sequence[int], axis: int) -> tuple[int, int, int]:
    """(outer, extent, inner) of a dense tensor around one axis."""
    return math.prod(shape[:axis]), shape[axis], math.prod(shape[axis + 1 :])
