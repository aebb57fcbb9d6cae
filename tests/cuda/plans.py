"""Cases of the ops on emulated devices: which are run by default, and how one is run."""

from __future__ import annotations

import importlib
from collections.abc import Iterator
from typing import Any

from portable import cases, check
from portable.backends.cuda import backend
from portable.backends.cuda._plan import guarded
from portable.backends.cuda._targets import Target, target
from portable.device import Device, DeviceInfo
from portable.op import Case, Op, Problem

UNITS = 4  # a small device, so that small problems are split over blocks too


def small(arch: str) -> Target:
    """An architecture's target with few multiprocessors."""
    full = target(arch)
    return Target(full.arch, full.warp, full.shared, UNITS)


def device(arch: str) -> Device:
    """As the driver would describe it."""
    built_for = small(arch)
    extra = {"warp_size": str(built_for.warp), "shared_per_block": str(built_for.shared)}
    info = DeviceInfo(arch, architecture=arch, units=UNITS, extra=extra)
    return Device("cuda:0", info)


def op_of(name: str) -> Op:
    return importlib.import_module(f"portable.ops.{name}").OP


def module_of(name: str) -> Any:
    return importlib.import_module(f"portable.backends.cuda.{name}")


OPS = tuple(backend.ops())


def every(op: Op) -> Iterator[tuple[Case, str]]:
    """All cases in all their dtypes."""
    for case in op.cases():
        for dtype in cases.dtypes_of(op, case):
            yield case, dtype


def some(op: Op, dtypes_each: int = 1) -> Iterator[tuple[Case, str]]:
    """All cases, each in one of its dtypes, in turn: every dtype meets every kind of case."""
    for number, case in enumerate(op.cases()):
        allowed = cases.dtypes_of(op, case)
        for i in range(min(dtypes_each, len(allowed))):
            yield case, allowed[(number + i) % len(allowed)]


def run(
    runtime: Any, op: Op, case: Case, dtype: str, *, every_config: bool = False
) -> list[str]:
    """What is wrong with the results of a case; refusals are checked to be expected elsewhere."""
    arrays = cases.arrays(op, case, dtype)
    problem = cases.problem_of(op, arrays, case)
    wrong = []
    for config in chosen(problem, runtime.target, every_config):
        kernel = guarded(module_of(op.name).build, problem, config, runtime)
        before = [array.copy() for array in arrays]
        found = check.check(op, problem, arrays, kernel(*arrays))
        same = all(a.tobytes() == b.tobytes() for a, b in zip(arrays, before, strict=True))
        found += [] if same else ["an operand was changed"]
        wrong += [f"{case.name} {dtype} {dict(config)}: {line}" for line in found]
    return wrong


def chosen(problem: Problem, built_for: Target, every_config: bool) -> list[Any]:
    """The default config, or all; none when the problem is refused."""
    where = device(built_for.arch)
    module = module_of(problem.op)
    if module.why_not(problem, where):
        return []
    found = list(module.configs(problem, where))
    return found if every_config else found[:1]


def refused(op: Op, arch: str) -> dict[str, int]:
    """Reasons for refusing cases, with their number."""
    found: dict[str, int] = {}
    for case, dtype in every(op):
        problem = cases.problem_of(op, cases.arrays(op, case, dtype), case)
        for reason in module_of(op.name).why_not(problem, device(arch)):
            found[reason] = found.get(reason, 0) + 1
    return found
