"""ONNX's node tests as calls of portable: one adapter per operator.

An adapter uses `portable` for the operator's work and NumPy for what ONNX adds around it (axes of
another form, padding, scaling by constants). What portable cannot express raises Gap.
"""

from __future__ import annotations

import functools
import warnings
from collections.abc import Callable
from typing import Any

import numpy as np

import portable
from tests.suites.onnx_attention import Array, Attributes, Gap, attention, heads


@functools.cache
def cases() -> dict[str, list[Any]]:
    """ONNX's single-node tests by operator, for the operators with an adapter."""
    from onnx.backend.test.loader import load_model_tests

    with warnings.catch_warnings():
        warnings.simplefilter("ignore")  # their reference code divides by zero on purpose
        tests = load_model_tests(kind="node")
    found: dict[str, list[Any]] = {}
    for test in tests:
        nodes = test.model.graph.node
        if len(nodes) == 1 and nodes[0].op_type in ADAPTERS:
            found.setdefault(nodes[0].op_type, []).append(test)
    return found


def run(test: Any) -> None:
    """Raises Gap, an error of portable, or AssertionError when the result is not ONNX's."""
    import onnx

    (node,) = test.model.graph.node
    attributes = {a.name: onnx.helper.get_attribute_value(a) for a in node.attribute}
    attributes["results"] = len(node.output)
    for inputs, outputs in test.data_sets:
        given = iter(inputs)
        operands = [np.asarray(next(given)) if name else None for name in node.input]
        results = ADAPTERS[node.op_type](attributes, *operands)
        results = results if isinstance(results, tuple) else (results,)
        wanted = iter(outputs)
        for name, result in zip(node.output, results, strict=False):
            if not name:
                continue
            expected = next(wanted)
            got = np.asarray(result)
            assert got.dtype == expected.dtype, f"{name}: {got.dtype}, not {expected.dtype}"
            np.testing.assert_allclose(
                got.astype(np.float64), expected.astype(np.float64), test.rtol, test.atol
            )


def matmul(_: Attributes, a: Array, b: Array) -> Array:
    return portable.matmul(a, b)


def gemm(at: Attributes, a: Array, b: Array, c: Array = None) -> Array:
    a = a.T if at.get("transA") else a
    b = b.T if at.get("transB") else b
    alpha, beta = a.dtype.type(at.get("alpha", 1.0)), a.dtype.type(at.get("beta", 1.0))
    if alpha == beta == 1 and c is not None and c.shape == (b.shape[1],):
        return portable.linear(a, b, c)
    y = alpha * portable.matmul(a, b)
    return y if c is None else y + beta * c


def softmax(at: Attributes, x: Array) -> Array:
    return portable.softmax(x, axis=at.get("axis", -1))


def log_softmax(at: Attributes, x: Array) -> Array:
    return portable.log_softmax(x, axis=at.get("axis", -1))


def _rows(x: Array, axis: int) -> tuple[Array, int]:
    axis = axis % x.ndim
    n = int(np.prod(x.shape[axis:]))
    return x.reshape(-1, n), n


def layer_norm(at: Attributes, x: Array, scale: Array, bias: Array = None) -> Array:
    rows, n = _rows(x, at.get("axis", -1))
    given = [p.reshape(n) if p is not None else None for p in (scale, bias)]
    return portable.layer_norm(rows, *given, eps=at.get("epsilon", 1e-5)).reshape(x.shape)


def rms_norm(at: Attributes, x: Array, scale: Array) -> Array:
    rows, n = _rows(x, at.get("axis", -1))
    return portable.rms_norm(rows, scale.reshape(n), eps=at.get("epsilon", 1e-5)).reshape(x.shape)


def rotary(at: Attributes, x: Array, cos: Array, sin: Array, ids: Array = None) -> Array:
    flat = x.ndim == 3
    if flat:
        x = heads(x, at["num_heads"])
    width = at.get("rotary_embedding_dim") or x.shape[-1]
    if ids is not None:
        cos, sin = cos[ids], sin[ids]
    half = width // 2
    tables = [np.ascontiguousarray(c[:, None, :, :half]) for c in (cos, sin)]
    turned = portable.rope(
        np.ascontiguousarray(x[..., :width]), *tables, interleaved=bool(at.get("interleaved"))
    )
    y = np.concatenate((turned, x[..., width:]), axis=-1)
    return y.transpose(0, 2, 1, 3).reshape(x.shape[0], x.shape[2], -1) if flat else y


def gelu(at: Attributes, x: Array) -> Array:
    return portable.gelu(x, approximate=at.get("approximate", b"none").decode())


def conv(at: Attributes, x: Array, w: Array, bias: Array = None) -> Array:
    if x.ndim != 4:
        raise Gap(f"{x.ndim - 2} spatial axes")
    stride = tuple(at.get("strides", (1, 1)))
    dilation = tuple(at.get("dilations", (1, 1)))
    before_after = _pads(at, x.shape[2:], w.shape[2:], stride, dilation)
    if any(a != b for a, b in before_after):
        x = np.pad(x, ((0, 0), (0, 0), *before_after))
        before_after = [(0, 0), (0, 0)]
    return portable.conv2d(
        x, w, bias, stride=stride, padding=tuple(a for a, _ in before_after), dilation=dilation,
        groups=at.get("group", 1),
    )  # fmt: skip


def _pads(
    at: Attributes, size: Any, window: Any, stride: Any, dilation: Any
) -> list[tuple[int, int]]:
    auto = at.get("auto_pad", b"NOTSET").decode()
    if auto in ("NOTSET", "VALID"):
        flat = at.get("pads", (0, 0, 0, 0))
        return [(flat[0], flat[2]), (flat[1], flat[3])]
    found = []
    for n, k, s, d in zip(size, window, stride, dilation, strict=True):
        total = max((-(-n // s) - 1) * s + (k - 1) * d + 1 - n, 0)
        small, large = total // 2, total - total // 2
        found.append((small, large) if auto == "SAME_UPPER" else (large, small))
    return found


def _reduced(
    function: Callable[..., Array],
    before: Callable[[Array], Array] = lambda x: x,
    after: Callable[[Array], Array] = lambda y: y,
) -> Callable[..., Array]:
    def run(at: Attributes, x: Array, axes: Array = None) -> Array:
        chosen = at.get("axes") if axes is None else tuple(int(a) for a in axes)
        keepdims = bool(at.get("keepdims", 1))
        if not chosen:
            chosen = () if at.get("noop_with_empty_axes") else None
        if chosen == ():
            return after(before(x)) if function is not portable.max else x
        with np.errstate(all="ignore"):
            y = function(before(x), axis=chosen, keepdims=keepdims)
            return np.asarray(after(y), x.dtype)

    return run


def _turned(x: Array) -> Array:
    """The order reversed; unsigned integers and bools have no negative."""
    return np.invert(x) if x.dtype.kind in "ub" else -x


def argmax(at: Attributes, x: Array) -> Array:
    axis, keepdims = at.get("axis", 0), bool(at.get("keepdims", 1))
    if not at.get("select_last_index"):
        return portable.argmax(x, axis=axis, keepdims=keepdims)
    backwards = portable.argmax(np.flip(x, axis), axis=axis, keepdims=keepdims)
    return x.shape[axis] - 1 - backwards


def cumsum(at: Attributes, x: Array, axis: Array) -> Array:
    along = int(axis)
    source = np.flip(x, along) if at.get("reverse") else x
    y = portable.cumsum(source, axis=along)
    if at.get("exclusive"):
        y = np.delete(np.insert(y, 0, 0, axis=along), -1, axis=along)
    return np.flip(y, along) if at.get("reverse") else y


def transpose(at: Attributes, x: Array) -> Array:
    return portable.transpose(x, at.get("perm"))


def gather(at: Attributes, data: Array, indices: Array) -> Array:
    axis = at.get("axis", 0)
    first = np.moveaxis(data, axis, 0)
    n = first.shape[0]
    table = np.ascontiguousarray(first).reshape(n, -1)
    y = portable.embedding(table, np.where(indices < 0, indices + n, indices))
    y = y.reshape(*indices.shape, *first.shape[1:])
    return np.moveaxis(y, tuple(range(indices.ndim)), tuple(range(axis, axis + indices.ndim)))


def cross_entropy(at: Attributes, scores: Array, labels: Array, weights: Array = None) -> Any:
    rows = np.ascontiguousarray(np.moveaxis(scores, 1, -1)).reshape(-1, scores.shape[1])
    reduction, ignored = at.get("reduction", b"mean").decode(), at.get("ignore_index")
    flat = labels.reshape(-1)
    log = portable.log_softmax(scores, axis=1)
    if weights is None:
        loss = portable.cross_entropy(rows, flat, reduction=reduction, ignore_index=ignored)
        return (loss.reshape(labels.shape) if reduction == "none" else loss), log
    each = portable.cross_entropy(rows, flat, reduction="none", ignore_index=ignored)
    weight = np.where(flat == ignored, 0, weights[np.where(flat == ignored, 0, flat)])
    each = (each * weight).astype(scores.dtype)
    if reduction == "none":
        return each.reshape(labels.shape), log
    total = portable.sum(each)
    return (total if reduction == "sum" else np.asarray(total / weight.sum(), scores.dtype)), log


ADAPTERS: dict[str, Callable[..., Any]] = {
    "MatMul": matmul, "Gemm": gemm, "Softmax": softmax, "LogSoftmax": log_softmax,
    "LayerNormalization": layer_norm, "RMSNormalization": rms_norm, "Attention": attention,
    "RotaryEmbedding": rotary, "Gelu": gelu, "Conv": conv, "ArgMax": argmax, "CumSum": cumsum,
    "Transpose": transpose, "Gather": gather, "SoftmaxCrossEntropyLoss": cross_entropy,
    "ReduceSum": _reduced(portable.sum), "ReduceMean": _reduced(portable.mean),
    "ReduceMax": _reduced(portable.max),
    "ReduceMin": _reduced(portable.max, _turned, _turned),
    "ReduceSumSquare": _reduced(portable.sum, np.square),
    "ReduceL1": _reduced(portable.sum, np.abs),
    "ReduceL2": _reduced(portable.sum, np.square, np.sqrt),
    "ReduceLogSum": _reduced(portable.sum, after=np.log),
    "ReduceLogSumExp": _reduced(portable.sum, np.exp, np.log),
}  # fmt: skip
