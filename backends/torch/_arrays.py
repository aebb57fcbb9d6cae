"""torch's tensors: key, layout, gradients and traces, and the way to and from host memory."""

from __future__ import annotations

import functools
from collections.abc import Callable, Hashable, Sequence
from operator import attrgetter
from typing import TYPE_CHECKING, Any

import torch
from torch.autograd import forward_ad

from portable import dtypes
from portable.backends._host import writable
from portable.errors import DTypeError, FamilyError
from portable.op import TensorSpec

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]

# Bound once: they are asked for every operand of every call.
_functorch_level = torch._C._functorch.maybe_current_level
_dispatch_modes = torch._C._len_torch_dispatch_stack
_grad_enabled = torch.is_grad_enabled
_PLAIN = frozenset((torch.Tensor, torch.nn.Parameter))
_NO_TRACE: tuple[None, int, int] = (None, 0, -1)
"""functorch level, torch dispatch modes and forward-mode level when nothing is going on."""

# NumPy has no bfloat16 and fp8 that torch can read: their bytes travel under another name.
_STAND_IN = {
    torch.bfloat16: (torch.int16, "bfloat16"),
    torch.float8_e4m3fn: (torch.uint8, "float8_e4m3fn"),
    torch.float8_e5m2: (torch.uint8, "float8_e5m2"),
}
_NUMPY_STAND_IN = {name: (dtype, via) for dtype, (via, name) in _STAND_IN.items()}


class TorchFamily:
    """`torch.Tensor`, `Parameter`, and subclasses (FakeTensor, DTensor: these stay in torch)."""

    name = "torch"
    types: tuple[str, ...] = ("torch.Tensor",)

    shape_and_dtype = staticmethod(attrgetter("shape", "dtype"))

    def key(self, t: Any) -> Hashable:
        """Shape, strides unless contiguous, dtype, device unless the CPU, gradient and trace state.

        About 0.3 µs a tensor: every attribute of a tensor costs 40 to 70 ns.
        """
        return _device_key(t) if type(t) in _PLAIN else _subclass_key(t)

    def key_of(self, kind: type) -> Callable[[Any], Hashable] | None:
        """The key of exactly this type: without the device where there is only the CPU."""
        if kind not in _PLAIN:
            return None
        return _host_key if _host_only() else _device_key

    def matcher(self, tensors: Sequence[Any]) -> Callable[..., bool] | None:
        """One quick check whether tensors have the keys that these have; None where there is none.

        It may say no to tensors whose keys are equal, never yes to others.
        """
        from portable.backends.torch._match import matcher

        return matcher(tensors)

    def spec(self, t: Any) -> TensorSpec:
        """Shape, dtype and strides; traced tensors count as contiguous.

        Raises:
            FamilyError: sparse, nested, MKL-DNN or meta tensors.
            DTypeError: quantized and other dtypes that have no name here.
        """
        _refuse_layout(t)
        dtype = _dtype_name(t)
        shape = tuple(int(n) for n in t.shape)
        if _is_traced(t) or t.is_contiguous():
            return TensorSpec(shape, dtype)
        return TensorSpec(shape, dtype, tuple(int(s) for s in t.stride()))

    def device(self, t: Any) -> str:
        """ "cpu", "cuda:0", "rocm:0" (a HIP build calls its devices cuda), "xpu:0", "mps:0"."""
        return device_id(t.device)

    def constraints(self, t: Any) -> frozenset[str]:
        """ "differentiable" where a gradient is asked for, "traceable" in transformations."""
        found = set()
        if _is_traced(t):
            found |= {"differentiable", "traceable"}
        if (t.requires_grad and _grad_enabled()) or forward_ad._current_level >= 0:
            found.add("differentiable")
        return frozenset(found)

    def normalize(self, t: Any) -> Callable[[Any], Any] | None:
        """Lazy negation (a view of a conjugate) is carried out before any kernel."""
        if not _is_traced(t) and t.is_neg():
            return lambda x: x.resolve_neg()
        return None

    def why_copy(self, spec: TensorSpec) -> str | None:
        """torch has no negative strides."""
        if spec.strides is not None and any(s < 0 for s in spec.strides):
            return "torch has no negative strides"
        return None

    def to_host(self, t: Any) -> Array:
        """The same memory as NumPy for CPU tensors; a copy from an accelerator.

        Raises:
            FamilyError: the tensor is part of a torch transformation and has no data to show.
        """
        import ml_dtypes

        if _is_traced(t):
            raise FamilyError(
                "a tensor inside of torch.func, torch.compile or a dispatch mode has no data yet; "
                "only the torch backend can take it"
            )
        if t.is_meta:
            raise FamilyError("is on the meta device and has no data; move it to a real device")
        host = t.detach().cpu().resolve_conj().resolve_neg()
        if host.dtype not in _STAND_IN:
            array: Array = host.numpy()
            return array
        via, name = _STAND_IN[host.dtype]
        named: Array = host.view(via).numpy().view(getattr(ml_dtypes, name))
        return named

    def from_host(self, array: Array, device: str) -> Any:
        """A tensor on the same memory where strides allow, moved when the device is not the CPU."""
        if any(s < 0 for s in array.strides) or not array.flags.aligned:
            array = array.copy()
        if not array.flags.writeable:
            # Kernels never write to their inputs, and a result has no other owner.
            array = writable(array)
        if array.dtype.name in _NUMPY_STAND_IN:
            dtype, via = _NUMPY_STAND_IN[array.dtype.name]
            tensor = torch.from_numpy(array.view(_numpy_name(via))).view(dtype)
        else:
            try:
                tensor = torch.from_numpy(array)
            except TypeError:  # C's "unsigned long long" where uint64 is "unsigned long"
                tensor = torch.from_numpy(array.view(array.dtype.name))
        return tensor if device == "cpu" else tensor.to(torch_device(device))

    def from_dlpack(self, array: Any) -> Any:
        """A tensor on another library's memory, on the same device and torch's current stream."""
        return torch.from_dlpack(array)


def is_transforming() -> bool:
    """Whether torch.func or forward-mode differentiation is at work."""
    return _functorch_level() is not None or forward_ad._current_level >= 0


def device_id(device: torch.device) -> str:
    """The id of a device in `portable`."""
    if device.type == "cpu":
        return "cpu"
    kind = "rocm" if device.type == "cuda" and torch.version.hip else device.type
    return f"{kind}:{device.index or 0}"


@functools.cache
def torch_device(key: str) -> torch.device:
    """torch's device of an id of `portable`."""
    return torch.device(key.replace("rocm", "cuda"))


def torch_dtype(name: str) -> torch.dtype:
    """torch's dtype of a canonical name."""
    found: torch.dtype = getattr(torch, name)
    return found


def _numpy_name(dtype: torch.dtype) -> str:
    return str(dtype).removeprefix("torch.")


def _is_traced(t: Any) -> bool:
    """Whether torch transforms or records what happens to the tensor."""
    if type(t) not in _PLAIN:
        return True
    return (_functorch_level(), _dispatch_modes()) != _NO_TRACE[:2] or _is_jit_tracing()


def _is_jit_tracing() -> bool:
    return bool(torch._C._get_tracing_state())


def _subclass_key(t: Any) -> Hashable:
    """Sizes as plain integers: a symbolic one is fixed to its value here, once per trace."""
    shape = tuple(int(n) for n in t.shape)
    return ("torch subclass", type(t), shape, t.dtype, str(t.device), t.requires_grad)


def _host_key(t: Any) -> Hashable:
    """Key of a plain tensor where torch knows no device but the CPU."""
    try:
        return (
            t.shape, t.is_contiguous() or t.stride(), t.dtype, t.requires_grad and _grad_enabled(),
            _functorch_level(), _dispatch_modes(), forward_ad._current_level,
        )  # fmt: skip
    except RuntimeError:  # sparse and nested tensors have no strides
        return _odd_key(t)


def _device_key(t: Any) -> Hashable:
    """Key of a plain tensor."""
    try:
        return (
            t.shape, t.is_contiguous() or t.stride(), t.dtype, t.is_cpu or t.device,
            t.requires_grad and _grad_enabled(),
            _functorch_level(), _dispatch_modes(), forward_ad._current_level,
        )  # fmt: skip
    except RuntimeError:
        return _odd_key(t)


def _odd_key(t: Any) -> Hashable:
    """Key of what has no strides or shape (sparse rows, nested): `spec` refuses all of them."""
    return ("torch without strides", t.layout, t.is_nested, t.dtype, str(t.device))


def _host_only() -> bool:
    """Whether this build of torch has no accelerator at all (meta tensors have no data anyway)."""
    built = torch.version.cuda or torch.version.hip or getattr(torch.version, "xpu", None)
    plugin = torch._C._get_privateuse1_backend_name() != "privateuseone"
    return not (built or plugin or torch.backends.mps.is_built())


def _refuse_layout(t: Any) -> None:
    if t.is_nested:
        raise FamilyError("is a nested tensor; pass its parts, or x.to_padded_tensor(0.0)")
    if t.layout != torch.strided:
        raise FamilyError(f"is a tensor of layout {t.layout}; takes dense ones: pass x.to_dense()")
    if t.is_meta and type(t) in _PLAIN:
        raise FamilyError("is on the meta device and has no data; move it to a real device")


def _dtype_name(t: Any) -> str:
    name = str(t.dtype).removeprefix("torch.")
    if name in dtypes.DTYPES:
        return name
    fix = "pass x.dequantize()" if t.is_quantized else "convert it, for example with x.float()"
    raise DTypeError(f"has dtype {t.dtype}; takes {', '.join(dtypes.DTYPES)}; {fix}")
