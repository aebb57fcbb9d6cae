"""What an aten call of PyTorch is in our ops, or nothing.

Only shapes, dtypes and strides are read. Every function takes the call's arguments by position and
returns (op, operands, params, approx); None means that there is no op of ours for it.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from portable import dtypes
from portable.errors import DTypeError
from portable.op import TensorSpec

Mapped = tuple[str, dict[str, TensorSpec], dict[str, Any], str]

FREE = frozenset({
    "_unsafe_view", "_local_scalar_dense", "_to_copy_view", "empty", "empty_like", "empty_strided",
    "new_empty", "new_empty_strided", "new_zeros", "new_ones", "new_full", "zeros", "zeros_like",
    "ones", "ones_like", "full", "full_like", "scalar_tensor", "arange", "rand", "rand_like",
    "randn", "randn_like", "randint", "randperm", "bernoulli_", "bernoulli", "uniform_", "normal_",
    "zero_", "fill_", "lift_fresh", "resize_", "set_", "eye", "linspace",
})  # fmt: skip
"""Calls that make or shape tensors: no work that a kernel library would do."""


def spec_of(tensor: Any) -> TensorSpec:
    """The spec of a torch tensor. Raises DTypeError for dtypes we do not know."""
    dtype = dtypes.canonical(str(tensor.dtype))
    shape = tuple(int(n) for n in tensor.shape)
    strides = None if tensor.is_contiguous() else tuple(int(s) for s in tensor.stride())
    return TensorSpec(shape, dtype, strides)


def map_call(name: str, args: Sequence[Any], kwargs: Mapping[str, Any]) -> Mapped | None:
    """The call of aten op `name` ("addmm") in our ops, or None."""
    found = _CALLS.get(name)
    if found is None:
        return None
    try:
        return found(*args, **kwargs)
    except (DTypeError, TypeError):  # a dtype or an overload that is not ours
        return None


def _mm(a: Any, b: Any, **_: Any) -> Mapped:
    return "matmul", {"a": spec_of(a), "b": spec_of(b)}, {}, ""


def _addmm(bias: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, **_: Any) -> Mapped | None:
    if beta != 1 or alpha != 1:
        return None
    operands = {"x": spec_of(a), "w": spec_of(b)}
    if tuple(bias.shape) == (b.shape[1],):
        return "linear", {**operands, "bias": spec_of(bias)}, {}, ""
    if tuple(bias.shape) == (a.shape[0], b.shape[1]):
        return "linear", {**operands, "residual": spec_of(bias)}, {}, ""
    return None


def _baddbmm(c: Any, a: Any, b: Any, *, beta: Any = 1, alpha: Any = 1, **_: Any) -> Mapped:
    approx = "without the added matrix" if beta != 0 else ""
    return "matmul", {"a": spec_of(a), "b": spec_of(b)}, {}, approx


def _attention(
    q: Any, k: Any, v: Any, *args: Any, causal: bool, mask: Any, scale: float | None, dropout: float
) -> Mapped:
    operands = {"q": spec_of(q), "k": spec_of(k), "v": spec_of(v)}
    params: dict[str, Any] = {"causal": True} if causal else {}
    if scale is not None:
        params["scale"] = float(scale)
    notes = []
    if mask is not None:
        operands["mask"] = spec_of(mask)
    if causal and q.shape[-2] != k.shape[-2]:
        notes.append("causal mask aligned to the start")
    if dropout:
        notes.append("without dropout")
    return "attention", operands, params, "; ".join(notes)


def _flash_cpu(
    q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False, *,
    attn_mask: Any = None, scale: float | None = None,
) -> Mapped:  # fmt: skip
    return _attention(q, k, v, causal=causal, mask=attn_mask, scale=scale, dropout=dropout)


def _flash(
    q: Any, k: Any, v: Any, dropout: float = 0.0, causal: bool = False,
    return_debug_mask: bool = False, *, scale: float | None = None,
) -> Mapped:  # fmt: skip
    return _attention(q, k, v, causal=causal, mask=None, scale=scale, dropout=dropout)


def _biased(
    q: Any, k: Any, v: Any, mask: Any, compute_log_sumexp: bool, dropout: float = 0.0,
    causal: bool = False, *rest: Any, scale: float | None = None,
) -> Mapped:  # fmt: skip
    return _attention(q, k, v, causal=causal, mask=mask, scale=scale, dropout=dropout)


def _layer_norm(x: Any, shape: Sequence[int], weight: Any, bias: Any, eps: float) -> Mapped | None:
    if len(shape) != 1:
        return None
    given = {"x": x, "weight": weight, "bias": bias}
    operands = {name: spec_of(t) for name, t in given.items() if t is not None}
    return "layer_norm", operands, {"eps": float(eps)}, ""


def _rms_norm(x: Any, shape: Sequence[int], weight: Any, eps: float | None) -> Mapped | None:
    if len(shape) != 1:
        return None
    given = {"x": x, "weight": weight}
    operands = {name: spec_of(t) for name, t in given.items() if t is not None}
    return "rms_norm", operands, {} if eps is None else {"eps": float(eps)}, ""


def _softmax(op: str) -> Callable[..., Mapped]:
    def convert(x: Any, axis: int, *_: Any, **__: Any) -> Mapped:
        return op, {"x": spec_of(x)}, {"axis": int(axis)}, ""

    return convert


def _gelu(x: Any, *, approximate: str = "none") -> Mapped:
    params = {"approximate": approximate} if approximate != "none" else {}
    return "gelu", {"x": spec_of(x)}, params, ""


def _reduction(op: str) -> Callable[..., Mapped]:
    def convert(x: Any, axes: Any = None, keepdims: bool = False, **_: Any) -> Mapped:
        params: dict[str, Any] = {"keepdims": True} if keepdims else {}
        listed = [axes] if isinstance(axes, int) else list(axes or [])
        if listed:
            params["axis"] = [int(a) for a in listed]
        return op, {"x": spec_of(x)}, params, ""

    return convert


def _argmax(x: Any, axis: int | None = None, keepdims: bool = False) -> Mapped:
    params: dict[str, Any] = {"keepdims": True} if keepdims else {}
    if axis is not None:
        params["axis"] = int(axis)
    return "argmax", {"x": spec_of(x)}, params, ""


def _cumsum(x: Any, axis: int, **_: Any) -> Mapped:
    return "cumsum", {"x": spec_of(x)}, {"axis": int(axis)}, ""


def _embedding(table: Any, indices: Any, *_: Any, **__: Any) -> Mapped:
    return "embedding", {"table": spec_of(table), "indices": spec_of(indices)}, {}, ""


def _convolution(
    x: Any, w: Any, bias: Any, stride: Sequence[int], padding: Sequence[int],
    dilation: Sequence[int], transposed: bool, output_padding: Sequence[int], groups: int,
) -> Mapped | None:  # fmt: skip
    if transposed or x.dim() != 4:
        return None
    given = {"x": x, "w": w, "bias": bias}
    operands = {name: spec_of(t) for name, t in given.items() if t is not None}
    params: dict[str, Any] = {
        "stride": [int(n) for n in stride],
        "padding": [int(n) for n in padding],
        "dilation": [int(n) for n in dilation],
        "groups": int(groups),
    }
    return "conv2d", operands, params, ""


_CALLS: dict[str, Callable[..., Mapped | None]] = {
    "mm": _mm, "bmm": _mm, "addmm": _addmm, "baddbmm": _baddbmm,
    "_scaled_dot_product_flash_attention_for_cpu": _flash_cpu,
    "_scaled_dot_product_flash_attention": _flash,
    "_scaled_dot_product_efficient_attention": _biased,
    "_scaled_dot_product_cudnn_attention": _biased,
    "native_layer_norm": _layer_norm, "_fused_rms_norm": _rms_norm,
    "_softmax": _softmax("softmax"), "_safe_softmax": _softmax("softmax"),
    "_log_softmax": _softmax("log_softmax"), "gelu": _gelu, "sum": _reduction("sum"),
    "mean": _reduction("mean"), "amax": _reduction("max"), "argmax": _argmax, "cumsum": _cumsum,
    "embedding": _embedding, "convolution": _convolution,
}  # fmt: skip
