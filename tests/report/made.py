"""Records made by hand: times follow a model, so that every figure is known beforehand."""

from __future__ import annotations

import random
from dataclasses import replace

from portable import registry
from portable.op import TensorSpec
from portable.records import DeviceKey, Record

CPU = DeviceKey("cpu", "AMD EPYC", "cpu-amd-zen5", "zen5", 2, "")
H100 = DeviceKey("cuda:0", "NVIDIA H100 80GB HBM3", "nvidia-h100-sxm", "sm_90", 132, "12.8")
MI300X = DeviceKey("rocm:0", "AMD Instinct MI300X", "amd-mi300x", "gfx942", 304, "6.4")
LABEL = "AMD Zen 5 (EPYC 9005 'Turin'), 2 cores"
ROOFS = {"float32/vector": 200e9, "float64/vector": 100e9, "dram": 30e9, "launch": 1e-6}
PATHS = {
    "numpy": "vendor library", "torch": "vendor library", "jax": "compiler",
    "opencl": "open standard", "cuda": "vendor language", "triton": "dsl",
}  # fmt: skip


def problem(name, dtype="float32", params=None, **shapes):
    """A problem of an op from shapes by operand."""
    op = registry.op(name)
    specs = {n: TensorSpec(tuple(shape), dtype) for n, shape in shapes.items()}
    return op.bind(specs, {**op.params, **(params or {})})


def matmul(m=64, k=512, n=512, dtype="float32"):
    """(m, k) by (k, n)."""
    return problem("matmul", dtype, a=(m, k), b=(k, n))


def record(what, backend="numpy", time=1e-3, device=CPU, noise=0.01, count=15, **more):
    """A correct, cold record with `count` samples around a time."""
    name, _, runtime = backend.partition("[")
    spread = [time * (1 + noise * (i - count // 2) / max(count // 2, 1)) for i in range(count)]
    values = {
        "problem": what, "backend": name, "runtime": runtime.rstrip("]"), "device": device,
        "implementation": f"portable.backends.{name}.{what.op}", "samples": tuple(spread),
        "cache": "cold", "machine": "a1b2c3d4e5f60718", "roofs": ROOFS if device is CPU else {},
        "details": {"path": PATHS.get(name, "dsl"), **more.pop("details", {})},
        "versions": {name: "1.0"}, "created": "2026-01-02T03:04:05+00:00",
    }  # fmt: skip
    if more.get("status", "ok") != "ok" and "samples" not in more:
        values["samples"] = ()
    return Record(**{**values, **more})


def several(seed=0):
    """A small report's worth: ops of a transformer on five candidates of one CPU, some failing."""
    rng = random.Random(seed)
    problems = [
        *(matmul(m, k, n, d) for m, k, n in ((1, 4096, 4096), (64, 768, 3072), (128, 768, 768))
          for d in ("float32", "bfloat16")),
        problem("softmax", x=(96, 512)), problem("softmax", x=(1536, 128)),
        problem("rms_norm", x=(64, 4096)), problem("layer_norm", x=(128, 768)),
        problem("swiglu", gate=(64, 4096), up=(64, 4096)), problem("gelu", x=(128, 3072)),
        problem("transpose", x=(512, 768)),
    ]  # fmt: skip
    found = []
    for what in problems:
        cost = registry.op(what.op).cost(what)
        ideal = max(cost.flops / 200e9, cost.bytes / 30e9) + 1e-6
        for backend in ("numpy", "torch", "jax", "opencl[pocl]", "opencl[intel]"):
            if backend.startswith("opencl") and what.dtype == "bfloat16":
                found.append(record(what, backend, status="incorrect", reason="off by 3 ulp"))
                continue
            time = ideal * rng.uniform(1.1, 6.0)
            details = {"copy_time": time * 0.05, "launch_time": min(time * 0.1, 5e-6)}
            found.append(
                record(what, backend, time, details=details, noise=rng.uniform(0.005, 0.08))
            )
    return found


def elsewhere(records, device, factor, machine="ffff000011112222"):
    """The records of another machine, as if measured there."""
    return [
        replace(
            r, device=device, machine=machine, roofs={},
            samples=tuple(s / factor for s in r.samples),
            details={k: v / factor if k.endswith("_time") else v for k, v in r.details.items()},
        )
        for r in records
    ]  # fmt: skip
