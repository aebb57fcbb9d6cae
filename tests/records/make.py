"""Records for tests."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

from portable.op import Problem, TensorSpec
from portable.records import DeviceKey, Record

CPU = DeviceKey("cpu", "AMD EPYC 9005", "amd-epyc-9005", "zen5", 2, "6.1")


def problem(n: int = 8, op: str = "matmul", dtype: str = "float32") -> Problem:
    return Problem(
        op,
        1,
        ("a", "b"),
        (TensorSpec((n, 8), dtype), TensorSpec((8, 8), dtype, (1, 8))),
        (("activation", None), ("axis", (0, -1)), ("eps", 1e-5), ("flag", True), ("mode", "x")),
        (TensorSpec((n, 8), dtype),),
    )


def record(n: int = 8, **changes: Any) -> Record:
    base = Record(
        problem(n),
        "numpy",
        "portable.backends.numpy.matmul",
        CPU,
        config={"block_m": 64, "fast": True, "kind": "x", "scale": 0.5},
        versions={"numpy": "2.0", "portable": "0.1"},
        source_hash="abc",
        samples=(3e-6, 1e-6, 2e-6),
        machine="m",
        created="2026-01-02T03:04:05+00:00",
        roofs={"compute": {"float32/vector": 1e11}, "bandwidth": {"dram": 2e10}, "latency": 0.0},
        details={"compile_time": 0.5, "inner": 3},
    )
    return replace(base, **changes)
