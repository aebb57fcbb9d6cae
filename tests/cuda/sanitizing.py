"""Small launches of the kernels that share memory between threads, for the sanitizers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portable import cases, check
from portable.op import Case, Operand
from tests.cuda import plans
from tests.cuda.sanitized import SanitizedRuntime


@dataclass(frozen=True)
class Small:
    """A case small enough for OS threads, with a config of its own or the default."""

    op: str
    operands: Mapping[str, Operand]
    dtype: str = "float32"
    params: Mapping[str, Any] = field(default_factory=dict)
    config: Mapping[str, Any] | None = None


_MMA = {"kind": "mma", "bm": 16, "bn": 64, "bk": 64, "warps_m": 1, "warps_n": 4, "stages": 4}
_HEADS = {"q": Operand((1, 2, 5, 16)), "k": Operand((1, 1, 70, 16)), "v": Operand((1, 1, 70, 16))}
FIRST = (
    Small("matmul", {"a": Operand((20, 72)), "b": Operand((72, 24))}, "float16",
          config={**_MMA, "split": 1}),
    Small("softmax", {"x": Operand((3, 203))}, params={"axis": -1},
          config={"group": 128, "rows": 1}),
    Small("attention", _HEADS, "float16", {"causal": True},
          {"kind": "mma", "warps": 1, "bn": 32, "split": 2}),
)  # fmt: skip
OTHERS = (
    Small("matmul", {"a": Operand((20, 71)), "b": Operand((71, 23))}, "bfloat16",
          config={**_MMA, "split": 2}),
    Small("matmul", {"a": Operand((33, 40)), "b": Operand((40, 35))},
          config={"kind": "simt", "bm": 32, "bn": 32, "bk": 16, "tm": 4, "tn": 4}),
    Small("matmul", {"a": Operand((65, 35)), "b": Operand((35, 20))}, "float64",
          config={"kind": "wide", "bm": 64, "bn": 64, "bk": 16, "warps_m": 2, "warps_n": 2}),
    Small("matmul", {"a": Operand((2, 600)), "b": Operand((600, 40))},
          config={"kind": "gemv", "split": 2}),
    Small("layer_norm", {"x": Operand((3, 5000)), "weight": Operand((5000,)),
                         "bias": Operand((5000,))}, config={"group": 128, "rows": 1}),
    Small("rms_norm", {"x": Operand((5, 300)), "weight": Operand((300,))}, "float16"),
    Small("sum", {"x": Operand((40000,))}, params={"axis": 0}),
    Small("argmax", {"x": Operand((70, 40))}, params={"axis": 0}),
    Small("cumsum", {"x": Operand((2, 9000))}, params={"axis": 1}),
    Small("transpose", {"x": Operand((40, 50))}, params={"axes": (1, 0)}),
    Small("cross_entropy", {"logits": Operand((5, 300)),
                            "targets": Operand((5,), "int64", "index:300")},
          params={"reduction": "mean"}),
    Small("attention", _HEADS, params={"causal": True},
          config={"kind": "simt", "rm": 1, "rn": 1, "split": 2}),
    Small("quantized_matmul",
          {"a": Operand((17, 140)), "b": Operand((140, 33)),
           "scale_a": Operand((17, 1), "float32", "positive"),
           "scale_b": Operand((1, 33), "float32", "positive")}, "int8",
          {"out_dtype": "float32"}),
    Small("conv2d", {"x": Operand((1, 5, 9, 8)), "w": Operand((6, 5, 3, 3))}, "float16",
          {"padding": 1}),
    Small("conv2d", {"x": Operand((1, 5, 9, 8)), "w": Operand((6, 5, 3, 3))},
          params={"padding": 1}),
)  # fmt: skip


def run(small: Small, cache: Path, sanitizer: str, prologue: str = "") -> list[str]:
    """What is wrong with the result; what the sanitizer finds is raised."""
    op, arch = plans.op_of(small.op), "sm_80"
    case = Case("small", small.operands, {**op.params, **small.params})
    arrays = cases.arrays(op, case, small.dtype)
    problem = cases.problem_of(op, arrays, case)
    module = plans.module_of(small.op)
    config = small.config or module.configs(problem, plans.device(arch))[0]
    runtime = SanitizedRuntime(plans.small(arch), cache, sanitizer, prologue)
    out = module.build(problem, config, runtime, True)(*arrays)
    assert runtime.launched
    return check.check(op, problem, arrays, out)


def everything(cache: Path, sanitizer: str) -> int:
    """All of them, with a line each; 1 when something is found."""
    failures = 0
    for small in (*FIRST, *OTHERS):
        try:
            wrong = run(small, cache, sanitizer)
        except AssertionError as error:
            wrong = [str(error)]
        failures += bool(wrong)
        print(small.op, small.dtype, dict(small.config or {}), wrong or "clean", flush=True)
    return int(failures > 0)
