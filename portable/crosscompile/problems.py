"""The problems whose kernels are built when none are named: one or a few per op and dtype.

Sizes are of Llama-3.1-8B layers (4096 wide, 32 query and 8 key heads of 128, 14336 in the MLP) and
of ResNet-50's 3x3 convolutions; a tile's code depends on dtype, layout and tails, hardly on size.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from portable.op import Problem

Shapes = tuple[tuple[int, ...], ...]
HALF, FLOATS = ("bfloat16",), ("float32", "bfloat16")

_SQUARE: Shapes = ((4096, 4096), (4096, 4096))
_ROWS: Shapes = ((4096, 4096),)
_HEADS: Shapes = ((1, 32, 2048, 128), (1, 8, 2048, 128), (1, 8, 2048, 128))
_DECODE: Shapes = ((8, 32, 1, 128), (8, 8, 4096, 128), (8, 8, 4096, 128))
_BLOCKS: Shapes = ((4096, 4096), (4096, 4096), (4096, 32), (32, 32))

# op -> (label, shapes, dtypes, parameters)
REPRESENTATIVE: Mapping[str, tuple[tuple[str, Shapes, tuple[str, ...], dict[str, Any]], ...]] = {
    "matmul": (
        ("square", _SQUARE, ("float64", "float32", "float16", "bfloat16"), {}),
        ("odd sizes", ((1000, 1003), (1003, 997)), FLOATS, {}),
        ("decode 16 rows", ((16, 4096), (4096, 4096)), HALF, {}),
        ("decode 1 row", ((1, 4096), (4096, 4096)), FLOATS, {}),
        ("batched", ((32, 512, 64), (32, 64, 512)), HALF, {}),
    ),
    "linear": (
        ("MLP", ((2048, 4096), (4096, 14336), (14336,)), FLOATS, {"activation": "silu"}),
        ("gelu, residual", ((2048, 4096), (4096, 4096), (4096,), (2048, 4096)), HALF,
         {"activation": "gelu"}),
    ),
    "softmax": (("rows", _ROWS, FLOATS, {"axis": -1}), ("columns", _ROWS, HALF, {"axis": 0}),
                ("vocabulary", ((128, 128256),), HALF, {"axis": -1})),
    "log_softmax": (("vocabulary", ((128, 128256),), FLOATS, {"axis": -1}),),
    "layer_norm": (("rows", (*_ROWS, (4096,), (4096,)), FLOATS, {}),),
    "rms_norm": (("rows", (*_ROWS, (4096,)), FLOATS, {}),),
    "add_rms_norm": (("rows", (*_ROWS, *_ROWS, (4096,)), FLOATS, {}),),
    "attention": (
        ("prefill", _HEADS, ("float32", "float16", "bfloat16"), {}),
        ("prefill causal", _HEADS, HALF, {"causal": True}),
        ("decode", _DECODE, FLOATS, {"causal": True}),
        ("head 64", ((1, 16, 512, 64),) * 3, HALF, {}),
        ("head 256", ((1, 8, 1024, 256),) * 3, HALF, {"causal": True}),
    ),
    "rope": (("heads", ((1, 32, 2048, 128), (2048, 64), (2048, 64)), FLOATS, {}),
             ("interleaved", ((1, 32, 2048, 128), (2048, 64), (2048, 64)), HALF,
              {"interleaved": True})),
    "gelu": (("elements", _ROWS, FLOATS, {}), ("tanh", _ROWS, HALF, {"approximate": "tanh"})),
    "swiglu": (("MLP", ((2048, 14336),) * 2, FLOATS, {}),),
    "sum": (("all", _ROWS, FLOATS, {}), ("columns", _ROWS, HALF, {"axis": 0})),
    "mean": (("rows", _ROWS, FLOATS, {"axis": -1}),),
    "max": (("rows", _ROWS, FLOATS, {"axis": -1}),),
    "argmax": (("vocabulary", ((128, 128256),), FLOATS, {"axis": -1}),),
    "cumsum": (("rows", _ROWS, FLOATS, {"axis": -1}), ("long", ((1 << 24,),), HALF, {"axis": 0})),
    "transpose": (("matrix", _ROWS, FLOATS, {"axes": (1, 0)}),),
    "embedding": (("tokens", ((128256, 4096), (2048,)), FLOATS, {}),),
    "cross_entropy": (("vocabulary", ((2048, 128256), (2048,)), FLOATS, {}),),
    "conv2d": (
        ("3x3", ((8, 128, 28, 28), (128, 128, 3, 3), (128,)), FLOATS, {"padding": 1}),
        ("1x1", ((8, 256, 56, 56), (64, 256, 1, 1)), HALF, {}),
        ("depthwise", ((8, 144, 56, 56), (144, 1, 3, 3)), HALF, {"padding": 1, "groups": 144}),
    ),
    "quantized_matmul": (
        ("per row", ((4096, 4096), (4096, 4096), (4096, 1), (1, 4096)),
         ("int8", "float8_e4m3fn"), {"out_dtype": "bfloat16"}),
        ("per block", _BLOCKS, ("int8", "float8_e4m3fn"), {"out_dtype": "bfloat16"}),
    ),
}  # fmt: skip


def representative(ops: Iterable[str]) -> Iterator[tuple[str, Problem]]:
    """(label, problem) of the ops, in order; ops without an entry give none."""
    from portable import dtypes, registry
    from portable.cases import problem_of_shapes

    for name in ops:
        for label, shapes, kinds, params in REPRESENTATIVE.get(name, ()):
            for dtype in kinds:
                problem = problem_of_shapes(registry.op(name), shapes, dtype, params)
                yield f"{dtypes.short(dtype)} {label}", problem
