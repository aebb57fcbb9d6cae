"""Which kernels would be built for an architecture: a few typical problems of every op, planned as
on a device but with a runtime that only takes notes."""

from __future__ import annotations

import importlib
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portable.backends.cuda._build import KernelVariant
from portable.backends.cuda._runtime import Collector
from portable.backends.cuda._targets import target
from portable.device import Device, DeviceInfo
from portable.op import Problem, TensorSpec


@dataclass(frozen=True)
class Typical:
    """A problem by shapes. In dtypes "" is the one of the row.

    Attributes:
        op: the op.
        note: what it stands for.
        dtypes: dtypes it is listed for.
        operands: shape, or (shape, dtype), by name.
        params: complete parameters.
        results: shape, or (shape, dtype).
        precision: as in a problem.
    """

    op: str
    note: str
    dtypes: tuple[str, ...]
    operands: Mapping[str, Any]
    results: Sequence[Any]
    params: Mapping[str, Any] = field(default_factory=dict)
    precision: str = "highest"

    def problem(self, dtype: str) -> Problem:
        """The problem for one dtype."""
        names = tuple(self.operands)
        return Problem(
            self.op,
            1,
            names,
            tuple(_spec(self.operands[name], dtype) for name in names),
            tuple(sorted(self.params.items())),
            tuple(_spec(result, dtype) for result in self.results),
            self.precision,
        )


def _spec(given: Any, dtype: str) -> TensorSpec:
    if given and isinstance(given[-1], str):
        return TensorSpec(tuple(given[0]), given[-1])
    return TensorSpec(tuple(given), dtype)


_HALVES = ("float16", "bfloat16")
_FLOATS = ("float32", "float64", *_HALVES)
_ROWS = (4096, 4096)
_LINEAR = {"x": (2048, 4096), "w": (4096, 4096), "bias": (4096,), "residual": (2048, 4096)}
_HEADS = (1, 32, 2048, 128)
_TOKEN = {"x": (1, 4096), "w": (4096, 14336)}


def _attention(note: str, dtypes: tuple[str, ...], s: int, t: int, d: int, **extra: Any) -> Typical:
    operands = {"q": (1, 32, s, d), "k": (1, 8, t, d), "v": (1, 8, t, d)} | extra.get("mask", {})
    params = {"causal": extra.get("causal", True), "scale": d**-0.5}
    return Typical("attention", note, dtypes, operands, [(1, 32, s, d)], params)


def _conv(note: str, dtypes: tuple[str, ...], x: Any, w: Any, stride: int, pad: int) -> Typical:
    size = (x[2] + 2 * pad - w[2]) // stride + 1
    params = {"stride": (stride,) * 2, "padding": (pad,) * 2, "dilation": (1, 1), "groups": 1}
    results = [(x[0], w[0], size, size)]
    return Typical("conv2d", note, dtypes, {"x": x, "w": w, "bias": w[:1]}, results, params)


def _quantized(note: str, m: int, block: int = 0) -> Iterator[Typical]:
    k, n = 4096, 4096
    a, b = ((m, k // block), (k // block, n // block)) if block else ((m, 1), (1, n))
    for dtype in ("int8", "float8_e4m3fn"):
        operands = {
            "a": ((m, k), dtype), "b": ((k, n), dtype),
            "scale_a": (a, "float32"), "scale_b": (b, "float32"),
        }  # fmt: skip
        yield Typical(
            "quantized_matmul", note, (dtype,), operands, [((m, n), "bfloat16")],
            {"out_dtype": "bfloat16", "block": block},
        )  # fmt: skip


def _reduction(op: str, dtype: str = "") -> Iterator[Typical]:
    for note, shape, axis, out in (
        ("rows", _ROWS, (1,), (4096,)), ("columns", _ROWS, (0,), (4096,)),
        ("all", (1 << 24,), (0,), ()),
    ):  # fmt: skip
        result: Any = (out, dtype) if dtype else out
        params = {"axis": axis[0] if op == "argmax" else axis, "keepdims": False}
        yield Typical(op, note, _FLOATS, {"x": shape}, [result], params)


TYPICAL: tuple[Typical, ...] = (
    Typical("matmul", "square", (*_FLOATS, "int32"),
            {"a": (4096, 4096), "b": (4096, 4096)}, [(4096, 4096)]),
    Typical("matmul", "square, tf32 allowed", ("float32",),
            {"a": (4096, 4096), "b": (4096, 4096)}, [(4096, 4096)], precision="high"),
    Typical("matmul", "one row", _FLOATS, {"a": (1, 4096), "b": (4096, 4096)}, [(1, 4096)]),
    Typical("matmul", "eight rows", _HALVES, {"a": (8, 4096), "b": (4096, 4096)}, [(8, 4096)]),
    Typical("matmul", "64 rows", _HALVES, {"a": (64, 4096), "b": (4096, 4096)}, [(64, 4096)]),
    Typical("matmul", "batch of small", ("float32", *_HALVES),
            {"a": (64, 128, 64), "b": (64, 64, 128)}, [(64, 128, 128)]),
    Typical("linear", "bias gelu residual", _FLOATS, _LINEAR, [(2048, 4096)],
            {"activation": "gelu"}),
    Typical("linear", "one token silu", _HALVES, _TOKEN, [(1, 14336)], {"activation": "silu"}),
    *(Typical(op, note, _FLOATS, {"x": shape}, [shape], {"axis": axis})
      for op in ("softmax", "log_softmax")
      for note, shape, axis in (("rows", _ROWS, 1), ("short rows", (4096, 512), 1),
                                ("long rows", (64, 131072), 1), ("columns", _ROWS, 0))),
    *(Typical("layer_norm", note, _FLOATS, {"x": shape, "weight": shape[1:], "bias": shape[1:]},
              [shape], {"eps": 1e-5})
      for note, shape in (("rows", _ROWS), ("short rows", (4096, 768)))),
    Typical("rms_norm", "rows", _FLOATS, {"x": _ROWS, "weight": (4096,)}, [_ROWS], {"eps": 1e-6}),
    Typical("add_rms_norm", "rows", _FLOATS,
            {"x": _ROWS, "residual": _ROWS, "weight": (4096,)}, [_ROWS, _ROWS], {"eps": 1e-6}),
    _attention("prefill d 128", _HALVES, 2048, 2048, 128),
    _attention("prefill d 64", _HALVES, 2048, 2048, 64),
    _attention("prefill d 256", _HALVES, 2048, 2048, 256),
    _attention("prefill d 64", ("float32", "float64"), 2048, 2048, 64),
    _attention("prefill d 128", ("float32",), 2048, 2048, 128),
    _attention("decode d 128", ("float32", *_HALVES), 1, 8192, 128),
    _attention("masked d 128", _HALVES, 512, 512, 128, causal=False,
               mask={"mask": ((512, 512), "bool")}),
    _attention("added mask d 256", _HALVES, 512, 512, 256, mask={"mask": (512, 512)}),
    Typical("rope", "rows", _FLOATS, {"x": _HEADS, "cos": (2048, 64), "sin": (2048, 64)}, [_HEADS],
            {"interleaved": False}),
    Typical("rope", "interleaved", _HALVES,
            {"x": _HEADS, "cos": ((2048, 64), "float32"), "sin": ((2048, 64), "float32")},
            [_HEADS], {"interleaved": True}),
    *(Typical("gelu", kind, _FLOATS, {"x": _ROWS}, [_ROWS], {"approximate": kind})
      for kind in ("none", "tanh")),
    Typical("swiglu", "", _FLOATS, {"gate": _ROWS, "up": _ROWS}, [_ROWS]),
    *(problem for op in ("sum", "max", "mean") for problem in _reduction(op)),
    *_reduction("argmax", "int64"),
    Typical("cumsum", "rows", _FLOATS, {"x": _ROWS}, [_ROWS], {"axis": 1}),
    Typical("cumsum", "one row", ("float32",), {"x": (1 << 24,)}, [(1 << 24,)], {"axis": 0}),
    Typical("cumsum", "columns", ("float32",), {"x": _ROWS}, [_ROWS], {"axis": 0}),
    Typical("transpose", "swap", _FLOATS, {"x": _ROWS}, [_ROWS], {"axes": (1, 0)}),
    Typical("transpose", "heads", _HALVES, {"x": (2048, 32, 128)}, [(32, 2048, 128)],
            {"axes": (1, 0, 2)}),
    Typical("embedding", "", _FLOATS, {"table": (32000, 4096), "indices": ((2048,), "int64")},
            [(2048, 4096)]),
    Typical("cross_entropy", "", _FLOATS, {"logits": (2048, 32000), "targets": ((2048,), "int64")},
            [()], {"reduction": "mean", "ignore_index": -100}),
    _conv("3x3", _FLOATS, (8, 128, 56, 56), (128, 128, 3, 3), 1, 1),
    _conv("7x7 stride 2", ("float32", *_HALVES), (8, 3, 224, 224), (64, 3, 7, 7), 2, 3),
    *_quantized("rows and columns", 4096),
    *_quantized("one token", 1),
    *_quantized("blocks of 128", 4096, 128),
)  # fmt: skip


def kernels(arch: str) -> list[KernelVariant]:
    """The distinct kernels of all typical problems, each op in the default config of every kind."""
    built_for = target(arch)
    device = Device("cuda:0", DeviceInfo(arch, architecture=arch))
    found: dict[tuple[str, str], KernelVariant] = {}
    for typical in TYPICAL:
        module: Any = importlib.import_module(f"{__package__}.{typical.op}")
        for dtype in typical.dtypes:
            problem = typical.problem(dtype)
            if module.why_not(problem, device):
                continue
            for config in _one_of_each_kind(module.configs(problem, device)):
                collector = Collector(built_for, typical.op, f"{dtype} {typical.note}".strip())
                module.build(problem, config, collector, True)
                for variant in collector.variants:
                    found.setdefault((variant.kernel, variant.source), variant)
    return list(found.values())


def _one_of_each_kind(configs: Sequence[Mapping[str, Any]]) -> Iterator[Mapping[str, Any]]:
    seen = set()
    for config in configs:
        if config.get("kind") not in seen:
            seen.add(config.get("kind"))
            yield config
