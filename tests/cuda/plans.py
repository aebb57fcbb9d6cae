"""Cases of the ops on emulated devices: which are run by default, and how one is run."""

from __future__ import annotations

import importlib
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

from portable import cases, check
from portable.backends.cuda import backend
from portable.backends.cuda._plan import guarded
from portable.backends.cuda._runtime import Collector
from portable.backends.cuda._targets import Target, target
from portable.device import Device, DeviceInfo
from portable.op import Case, Op, Problem
from tests.cuda.emulation import EmulatedRuntime

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


@dataclass
class Planned:
    """A case in one dtype and config, ready to be run."""

    case: Case
    problem: Problem
    arrays: list[Any]
    config: Any

    def __str__(self) -> str:
        return f"{self.case.name} {self.problem.dtype} {dict(self.config)}"


def planned(
    op: Op, selection: Iterable[tuple[Case, str]], built_for: Target, every_config: bool = False
) -> Iterator[Planned]:
    """Problems of a selection that are not refused."""
    for case, dtype in selection:
        arrays = cases.arrays(op, case, dtype)
        problem = cases.problem_of(op, arrays, case)
        for config in chosen(problem, built_for, every_config):
            yield Planned(case, problem, arrays, config)


def run(
    runtime: EmulatedRuntime,
    op: Op,
    selection: Iterable[tuple[Case, str]],
    *,
    every_config: bool = False,
) -> list[str]:
    """What is wrong with the results. Kernels are built first, many at a time."""
    work = list(planned(op, selection, runtime.target, every_config))
    build = module_of(op.name).build
    notes = Collector(runtime.target)
    for plan in work:
        aligned = all(runtime.pointer(array) % 16 == 0 for array in plan.arrays)
        build(plan.problem, plan.config, notes, aligned)
    runtime.prebuild(notes.variants)
    wrong = []
    for plan in work:
        kernel = guarded(build, plan.problem, plan.config, runtime)
        before = [array.tobytes() for array in plan.arrays]
        found = check.check(op, plan.problem, plan.arrays, kernel(*plan.arrays))
        if before != [array.tobytes() for array in plan.arrays]:
            found.append("an operand was changed")
        wrong += [f"{plan}: {line}" for line in found]
    return wrong


def chosen(problem: Problem, built_for: Target, every_config: bool = False) -> list[Any]:
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
