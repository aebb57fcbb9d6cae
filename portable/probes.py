"""The probe set: what `portable calibrate` times, as data.

Rows: op, shapes in operand order, dtype, parameters, operand stored transposed ("" for none).
Shapes are chosen to stand at the corners of what applications call: tiny, square, decode (one
row), tall, wide, and beyond the cache; half types beside float32, because libraries differ most
there.
"""

from __future__ import annotations

from typing import Any

Probe = tuple[str, tuple[tuple[int, ...], ...], str, dict[str, Any], str]

_F, _H, _B, _D = "float32", "float16", "bfloat16", "float64"


def _mm(m: int, k: int, n: int, dtype: str, transposed: str = "") -> Probe:
    return ("matmul", ((m, k), (k, n)), dtype, {}, transposed)


def _linear(m: int, k: int, n: int, dtype: str, activation: str | None) -> Probe:
    return ("linear", ((m, k), (k, n), (n,)), dtype, {"activation": activation}, "w")


def _row(op: str, rows: int, columns: int, dtype: str, **params: Any) -> Probe:
    weight: tuple[tuple[int, ...], ...] = ((columns,),) if "norm" in op else ()
    second: tuple[tuple[int, ...], ...] = ()
    if op in ("swiglu", "add_rms_norm"):
        second = ((rows, columns),)
    return (op, ((rows, columns), *second, *weight), dtype, params, "")


def _attention(h: int, hk: int, s: int, t: int, d: int, dtype: str, *, causal: bool) -> Probe:
    shapes = ((1, h, s, d), (1, hk, t, d), (1, hk, t, d))
    return ("attention", shapes, dtype, {"causal": causal}, "")


_MATMULS = [
    probe
    for dtype in (_F, _B, _H)
    for probe in (
        _mm(512, 512, 512, dtype),
        _mm(1, 2048, 2048, dtype, "b"),
        _mm(1, 4096, 4096, dtype),
        _mm(128, 1024, 1024, dtype, "b"),
        _mm(16, 2048, 1024, dtype, "b"),
        _mm(64, 64, 64, dtype),
        _mm(8, 8, 8, dtype),
    )
]
_ROWS = [
    probe
    for dtype in (_F, _B)
    for rows, columns in ((1, 4096), (256, 4096), (4096, 1024))
    for probe in (
        _row("rms_norm", rows, columns, dtype),
        _row("layer_norm", rows, columns, dtype),
        _row("add_rms_norm", rows, columns, dtype),
        _row("swiglu", rows, columns, dtype),
        _row("gelu", rows, columns, dtype),
        _row("softmax", rows, columns, dtype, axis=-1),
        _row("sum", rows, columns, dtype, axis=-1),
    )
]
_ATTENTION = [
    probe
    for dtype in (_F, _B)
    for probe in (
        _attention(12, 12, 128, 128, 64, dtype, causal=False),
        _attention(8, 2, 256, 256, 128, dtype, causal=True),
        _attention(32, 8, 1, 512, 128, dtype, causal=True),
    )
]
_LINEARS = [_linear(128, 768, 1024, dtype, "gelu") for dtype in (_F, _B)] + [
    _linear(128, 768, 768, dtype, None) for dtype in (_F, _B)
]
_MORE = [
    probe
    for dtype in (_F, _B)
    for probe in (
        _row("log_softmax", 64, 32000, dtype, axis=-1),
        _row("max", 256, 4096, dtype, axis=-1),
        _row("mean", 256, 4096, dtype, axis=-1),
        _row("argmax", 64, 32000, dtype, axis=-1),
        _row("cumsum", 64, 4096, dtype, axis=-1),
        ("rope", ((1, 8, 256, 128), (256, 64), (256, 64)), dtype, {}, ""),
        ("transpose", ((1024, 1024),), dtype, {}, ""),
        ("embedding", ((32000, 1024), (256,)), dtype, {}, ""),
        ("cross_entropy", ((256, 8192), (256,)), dtype, {}, ""),
        ("conv2d", ((1, 64, 28, 28), (64, 64, 3, 3)), dtype, {"padding": 1}, ""),
    )
]
_DOUBLE = [_mm(512, 512, 512, _D), _mm(1, 2048, 2048, _D), _mm(64, 64, 64, _D)]
_LARGE = [_mm(1024, 1024, 1024, dtype) for dtype in (_F, _B, _H)]


def _breadth_first(probes: list[Probe]) -> tuple[Probe, ...]:
    """One probe of every (op, dtype) first, then the second of each: a short budget cuts depth."""
    groups: dict[tuple[str, str], list[Probe]] = {}
    for probe in probes:
        groups.setdefault((probe[0], probe[2]), []).append(probe)
    depth = max(map(len, groups.values()))
    return tuple(g[i] for i in range(depth) for g in groups.values() if i < len(g))


PROBES = _breadth_first([*_MATMULS, *_LINEARS, *_ATTENTION, *_ROWS, *_MORE, *_DOUBLE, *_LARGE])
