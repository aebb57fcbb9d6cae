"""Runs an op's cases on one backend, straight through its implementation."""

from __future__ import annotations

import random
from collections.abc import Iterator

import numpy as np

from portable import cases, check, registry


def runs(backend: str, op_name: str, share: float = 1.0, levels=("core", "full", "hostile")):
    """(label, problem, arrays, results) of every case that is not refused."""
    return list(_runs(backend, op_name, share, levels))


def failures(backend: str, op_name: str, share: float = 1.0) -> tuple[int, list[str]]:
    """How many cases ran, and what was wrong with them."""
    op, found, count = registry.op(op_name), [], 0
    for label, problem, arrays, results in _runs(backend, op_name, share):
        count += 1
        found += [f"{label}: {line}" for line in check.check(op, problem, arrays, results)]
        if any(r.size and np.shares_memory(r, a) for r in results for a in arrays):
            found.append(f"{label}: a result shares memory with an input")
    return count, found


def _runs(
    name: str, op_name: str, share: float, levels=("core", "full", "hostile")
) -> Iterator[tuple]:
    op, backend = registry.op(op_name), registry.backend(name)
    implementation, family = backend.implementation(op_name), backend.array_families()[0]
    device, draw = backend.devices()[0], random.Random(op_name)
    for case in op.cases():
        for dtype in cases.dtypes_of(op, case):
            if case.level not in levels or draw.random() > share:
                continue
            arrays = cases.arrays(op, case, dtype)
            problem = cases.problem_of(op, arrays, case)
            if implementation.why_not(problem, device):
                continue
            for config in implementation.configs(problem, device):
                kernel = implementation.compile(problem, device, config)
                result = kernel(*[family.from_host(a, device.id) for a in arrays])
                results = result if isinstance(result, tuple) else (result,)
                label = f"{case.name} {dtype} {dict(config)}"
                yield label, problem, arrays, tuple(family.to_host(r) for r in results)
