"""The problems that shipped priors are measured on: a grid over ops, dtypes and shape classes.

Shapes are generic corners of shape space (decode, tall, wide, square, tiny, beyond the cache), not
those of any workload in `bench/suites`: the choices there are judged on shapes the priors have not
seen. What matters most comes first.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from portable import cases, registry
from portable.calibrate import probe_problems
from portable.op import Problem

Row = tuple[str, tuple[tuple[int, ...], ...], str, dict[str, Any], str]
"""Op, shapes in operand order, dtype, parameters, operand stored transposed."""

F32, BF16, F16, F64 = "float32", "bfloat16", "float16", "float64"

# m, k, n, operand stored transposed ("b": a weight kept as (n, k))
MATMULS = [
    (2, 3072, 8192, "b"), (4, 8192, 2048, "b"), (1, 768, 3072, "b"), (1, 1024, 32000, "b"),
    (8, 1536, 4096, "b"), (1, 4096, 1024, ""), (32, 1024, 4096, "b"), (256, 1024, 2048, "b"),
    (1024, 768, 3072, "b"), (1024, 768, 3072, ""), (1280, 2048, 1024, "b"), (2048, 512, 512, ""),
    (4096, 640, 640, "b"), (64, 4096, 64, ""), (192, 192, 192, ""), (256, 256, 256, "b"),
    (16, 64, 64, ""), (4096, 64, 256, ""), (768, 2304, 1024, "a"), (2304, 2048, 1024, ""),
]  # fmt: skip
BATCHED = [(12, 256, 64, 256), (48, 128, 64, 128), (256, 64, 64, 64), (8, 512, 512, 64)]
LINEARS = [  # m, k, n, activation, residual, w stored transposed
    (384, 1024, 1024, None, True, True), (1024, 512, 2048, "gelu", False, True),
    (2, 2048, 6144, None, False, True), (1, 1024, 4096, "gelu", False, True),
    (256, 2048, 2048, None, False, False), (1536, 1280, 1280, None, False, True),
    (200, 768, 3072, "gelu", False, True), (32, 768, 768, "silu", False, True),
    (4096, 512, 1024, None, False, True), (64, 256, 256, "relu", False, True),
]  # fmt: skip
ATTENTIONS = [  # batch, h, hk, s, t, d, causal
    (1, 12, 12, 320, 320, 64, False), (1, 8, 1, 768, 768, 128, True),
    (8, 16, 4, 1, 700, 128, False), (1, 16, 8, 1, 2048, 128, False), (1, 8, 8, 1, 1024, 64, False),
    (4, 12, 12, 64, 64, 64, False), (1, 16, 16, 200, 200, 64, False),
    (1, 4, 1, 32, 1024, 128, True),
]  # fmt: skip
CONVS = [  # batch, c, h, w, o, kernel, stride, padding, groups
    (1, 256, 14, 14, 512, 1, 1, 0, 1), (1, 512, 7, 7, 512, 3, 1, 1, 1),
    (8, 64, 56, 56, 64, 3, 1, 1, 1), (4, 128, 28, 28, 256, 3, 2, 1, 1),
    (1, 3, 224, 224, 64, 7, 2, 3, 1), (16, 64, 56, 56, 256, 1, 1, 0, 1),
    (16, 96, 28, 28, 96, 5, 1, 2, 96), (4, 32, 112, 112, 32, 3, 1, 1, 32),
    (2, 128, 40, 80, 128, 3, 1, 1, 1), (2, 64, 80, 160, 128, 5, 2, 1, 1),
    (1, 48, 128, 192, 48, 3, 1, 1, 1), (8, 256, 14, 14, 256, 3, 1, 1, 1),
    (1, 24, 256, 256, 72, 1, 1, 0, 1), (2, 128, 56, 56, 64, 1, 1, 0, 1),
    (1, 320, 28, 28, 96, 1, 1, 0, 1), (1, 192, 14, 14, 192, 3, 1, 1, 192),
]  # fmt: skip
QUANTIZED = [  # m, k, n, block (0: a scale per row and column)
    (1, 4096, 8192, 0), (4, 2048, 6144, 0), (512, 1024, 2048, 0), (1280, 2048, 1024, 0),
    (1, 4096, 2048, 128), (512, 2048, 1024, 128), (1536, 1024, 1536, 128), (32, 1024, 1024, 128),
]  # fmt: skip
ROWS = [(1, 1024), (8, 4096), (64, 768), (384, 1024), (2048, 512), (4096, 2048)]
ROW_OPS = {
    "rms_norm": {}, "layer_norm": {}, "add_rms_norm": {}, "swiglu": {},
    "gelu": {"approximate": "none"}, "softmax": {"axis": -1}, "sum": {"axis": -1},
}  # fmt: skip
OTHERS: list[Row] = [
    row
    for dtype in (F32, BF16, F16)
    for row in (
        ("sum", ((2048, 1024),), dtype, {"axis": 0}, ""),
        ("softmax", ((48, 256, 256),), dtype, {"axis": -1}, ""),
        ("gelu", ((512, 4096),), dtype, {"approximate": "tanh"}, ""),
        ("transpose", ((64, 256, 64),), dtype, {"axes": (1, 0, 2)}, ""),
        ("rope", ((1, 32, 1, 128), (1, 64), (1, 64)), dtype, {}, ""),
        ("embedding", ((8192, 512), (16,)), dtype, {}, ""),
        ("cross_entropy", ((64, 32000), (64,)), dtype, {}, ""),
        ("mean", ((512, 1024),), dtype, {"axis": -1}, ""),
        ("max", ((2048, 256),), dtype, {"axis": -1}, ""),
        ("cumsum", ((256, 8192),), dtype, {"axis": 1}, ""),
        ("log_softmax", ((32, 8192),), dtype, {"axis": -1}, ""),
        ("argmax", ((1, 50000),), dtype, {"axis": 1}, ""),
        ("argmax", ((16, 32000),), dtype, {"axis": 1}, ""),
        ("softmax", ((1, 100000),), dtype, {"axis": -1}, ""),
    )
]


def _rows() -> Iterator[Row]:
    for dtype in (BF16, F16, F32):
        for m, k, n, transposed in MATMULS:
            yield ("matmul", ((m, k), (k, n)), dtype, {}, transposed)
        for batch, m, k, n in BATCHED:
            yield ("matmul", ((batch, m, k), (batch, k, n)), dtype, {}, "")
        for m, k, n, activation, residual, transposed in LINEARS:
            shapes = ((m, k), (k, n), (n,), *(((m, n),) if residual else ()))
            yield ("linear", shapes, dtype, {"activation": activation}, "w" if transposed else "")
        for b, h, hk, s, t, d, causal in ATTENTIONS:
            shapes = ((b, h, s, d), (b, hk, t, d), (b, hk, t, d))
            yield ("attention", shapes, dtype, {"causal": causal}, "")
        for b, c, height, width, o, size, stride, padding, groups in CONVS:
            shapes = ((b, c, height, width), (o, c // groups, size, size))
            params = {"stride": stride, "padding": padding, "groups": groups}
            yield ("conv2d", shapes, dtype, params, "")
    for dtype in ("int8", "float8_e4m3fn"):
        for m, k, n, block in QUANTIZED:
            scales = (
                ((m, -(-k // block)), (-(-k // block), -(-n // block)))
                if block
                else ((m, 1), (1, n))
            )
            params = {"block": block, "out_dtype": BF16}
            yield ("quantized_matmul", ((m, k), (k, n), *scales), dtype, params, "b")
    for dtype in (BF16, F16, F32):
        for op, params in ROW_OPS.items():
            for rows, columns in ROWS:
                second = ((rows, columns),) if op in ("swiglu", "add_rms_norm") else ()
                weight = ((columns,),) if op.endswith("norm") else ()
                bias = ((columns,),) if op == "layer_norm" else ()
                yield (op, ((rows, columns), *second, *weight, *bias), dtype, params, "")
    yield from OTHERS


def problems() -> list[Problem]:
    """The probe set of `portable calibrate`, then the grid; each problem once."""
    from portable.calibrate import with_transposed

    found = dict.fromkeys(probe_problems())
    for name, shapes, dtype, params, transposed in _rows():
        problem = cases.problem_of_shapes(registry.op(name), shapes, dtype, params)
        found.setdefault(with_transposed(problem, transposed) if transposed else problem)
    return list(found)
