"""What one problem launches, as data: the same plan is run, and cross-compiled without a GPU.

An op module writes `plan(problem, target, config) -> Plan`. `runner` turns it into the kernel of
the backend protocol; `signature` turns each launch into what `triton.compile` takes, with the same
specialisation (divisibility by 16, equal to 1) that a real launch would get.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from portable.op import Problem

POINTERS = {
    "float64": "*fp64", "float32": "*fp32", "float16": "*fp16", "bfloat16": "*bf16",
    "float8_e4m3fn": "*fp8e4nv", "int64": "*i64", "int32": "*i32", "int16": "*i16", "int8": "*i8",
    "uint64": "*u64", "uint32": "*u32", "uint16": "*u16", "uint8": "*u8", "bool": "*i1",
}  # fmt: skip
ALIGNMENT = 16
"""Triton specialises on pointers and integers that are divisible by this."""
INT32_MAX = 2**31 - 1
CUDA_GRID_X = 2**31 - 1


@dataclass(frozen=True, slots=True)
class T:
    """A tensor argument: an operand of the problem or a buffer of the plan, by name.

    `view` names a dtype of the same size under which the kernel sees the memory ("uint8" for fp8).
    """

    name: str
    view: str = ""


@dataclass(frozen=True, slots=True)
class Buffer:
    """Memory that the plan allocates, row-major."""

    shape: tuple[int, ...]
    dtype: str


@dataclass(frozen=True, slots=True)
class Descriptor:
    """A tensor descriptor (TMA) over a row-major matrix of the named tensor."""

    name: str
    shape: tuple[int, ...]
    block: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Launch:
    """One kernel launch.

    Attributes:
        kernel: the @triton.jit function.
        grid: programs; one axis, so that only the large limit of the first axis counts.
        arguments: by parameter name: T, Descriptor, a number, None, or a constexpr's value.
        options: num_warps, num_stages and what else the compiler takes.
    """

    kernel: Any
    grid: int
    arguments: Mapping[str, Any]
    options: Mapping[str, int] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Plan:
    """All launches of one problem.

    Attributes:
        launches: in order.
        buffers: outputs and scratch, by name.
        results: names of the buffers that are returned.
        dense: operands that are first broadcast to this shape and copied to row-major, because
            their strides do not collapse into what the kernel takes.
    """

    launches: tuple[Launch, ...]
    buffers: Mapping[str, Buffer]
    results: tuple[str, ...] = ("out",)
    dense: Mapping[str, tuple[int, ...]] = field(default_factory=dict)


def torch_dtype(name: str) -> Any:
    """The torch dtype of a canonical name."""
    import torch

    return getattr(torch, name)


_interpreter = threading.Lock()
"""On the CPU kernels are interpreted, by an interpreter that has one state for all threads."""


def runner(problem: Problem, plan: Plan) -> Callable[..., Any]:
    """The kernel of a plan: allocates, launches on the current stream, returns without waiting."""
    import torch

    buffers = {n: (b.shape, torch_dtype(b.dtype)) for n, b in plan.buffers.items()}
    steps = [_step(launch) for launch in plan.launches if launch.grid > 0]
    empty = all(spec.size == 0 for spec in problem.results)
    names, dense = problem.operands, tuple(plan.dense.items())

    def run(*arrays: Any) -> Any:
        tensors = dict(zip(names, arrays, strict=True))
        device = arrays[0].device
        for name, shape in dense:
            tensors[name] = tensors[name].expand(shape).contiguous()
        for name, (shape, dtype) in buffers.items():
            tensors[name] = torch.empty(shape, dtype=dtype, device=device)
        if not empty:
            if device.type == "cuda" and device.index != torch.cuda.current_device():
                with torch.cuda.device(device):
                    _launch(steps, tensors)
            elif device.type == "cpu":
                with _interpreter:
                    _launch(steps, tensors)
            else:
                _launch(steps, tensors)
        results = tuple(tensors[name] for name in plan.results)
        return results if len(results) > 1 else results[0]

    return run


def _step(launch: Launch) -> tuple[Any, dict[str, Any], dict[str, Any]]:
    bound = (T, Descriptor)
    fixed = {k: v for k, v in launch.arguments.items() if not isinstance(v, bound)}
    fixed |= {"enable_fp_fusion": True, **launch.options}
    tensors = {k: v for k, v in launch.arguments.items() if isinstance(v, bound)}
    return launch.kernel[(launch.grid,)], fixed, tensors


def _launch(steps: Any, tensors: Mapping[str, Any]) -> None:
    for start, fixed, named in steps:
        start(**{k: _argument(v, tensors) for k, v in named.items()}, **fixed)


def _argument(value: T | Descriptor, tensors: Mapping[str, Any]) -> Any:
    tensor = tensors[value.name]
    if isinstance(value, T):
        return tensor.view(torch_dtype(value.view)) if value.view else tensor
    from triton.tools.tensor_descriptor import TensorDescriptor

    matrix = tensor.view(value.shape)
    return TensorDescriptor(matrix, list(value.shape), list(matrix.stride()), list(value.block))


def signature(
    launch: Launch, dtypes: Mapping[str, str]
) -> tuple[dict[str, str], dict[str, Any], dict[tuple[int], Any]]:
    """(signature, constexprs, attributes) of a launch for `triton.compile`.

    `dtypes` maps tensor names to canonical dtypes. Tensors are taken as 16-byte aligned, as fresh
    allocations are; integers equal to 1 become constants, as at a real launch.
    """
    kinds: dict[str, str] = {}
    constants: dict[str, Any] = {}
    attributes: dict[tuple[int], Any] = {}
    for index, parameter in enumerate(launch.kernel.params):
        name = parameter.name
        if name not in launch.arguments:
            raise TypeError(f"{launch.kernel.__name__} lacks the argument {name!r}")
        value = launch.arguments[name]
        kinds[name] = _kind(value, parameter.is_constexpr, dtypes)
        if kinds[name] == "constexpr":
            constants[name] = value
        elif isinstance(value, T) or (isinstance(value, int) and value % ALIGNMENT == 0):
            attributes[(index,)] = [["tt.divisibility", ALIGNMENT]]
    return kinds, constants, attributes


def _kind(value: Any, constexpr: bool, dtypes: Mapping[str, str]) -> str:
    if constexpr or value is None or (isinstance(value, int) and value == 1):
        return "constexpr"
    if isinstance(value, T):
        return POINTERS[value.view or dtypes[value.name]]
    if isinstance(value, Descriptor):
        element = POINTERS[dtypes[value.name]][1:]
        return f"tensordesc<{element}[{', '.join(map(str, value.block))}]>"
    if isinstance(value, float):  # a launch would pass it as float32, float64 kernels included
        raise TypeError("a float argument must be a constexpr")
    return "i32" if abs(value) <= INT32_MAX else "i64"


def tensor_dtypes(problem: Problem, plan: Plan) -> dict[str, str]:
    """Canonical dtype of every tensor a launch can name."""
    operands = {n: s.dtype for n, s in zip(problem.operands, problem.tensors, strict=True)}
    return operands | {name: buffer.dtype for name, buffer in plan.buffers.items()}
