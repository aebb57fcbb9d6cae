"""The correctness gate: an implementation that fails its error bound is never timed or chosen.

The verdict is kept in the record store per implementation, op, dtype, layout class and versions,
so that each is checked once. Checks run in a thread of their own: tracing, gradient and dispatch
modes of the caller's thread do not reach it.

A verdict is a list of what is wrong, as text. What is no wrong result but a way to fail starts with
MARK and its status, so that it is filed as what it is.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import Any

from portable import registry
from portable.backend import Config, Implementation
from portable.device import Device
from portable.op import Case, Op, Problem

CASES = 3
"""Core cases run per verdict: enough to see a wrong axis, tail or stride, in milliseconds."""

MARK = "failed: "
"""Prefix of a finding that is a way to fail: "failed: oom: MemoryError"."""

SELF_CHECK_BYTES = 8 << 20
"""Where no case concerns the subject, a problem that moves fewer bytes is checked itself."""


@dataclass(frozen=True, slots=True)
class Subject:
    """What is checked: one implementation with one config on one device."""

    backend: str
    device: Device
    implementation: Implementation
    config: Config


def failures(op: Op, problem: Problem, subject: Subject, native: str) -> list[str]:
    """What is wrong with the subject's results for problems like this; empty when it passes."""
    found: list[str] = []
    thread = threading.Thread(target=lambda: found.extend(_run(op, problem, subject, native)))
    thread.start()
    thread.join()
    return found


def _run(op: Op, problem: Problem, subject: Subject, native: str) -> list[str]:
    from portable import cases

    checked = 0
    for case in _like(op, problem):
        arrays = cases.arrays(op, case, problem.dtype, seed=checked)
        small = cases.problem_of(op, arrays, case)
        small = replace(small, precision=problem.precision)
        if not _concerns(small, subject):
            continue
        wrong = run_and_check(op, small, arrays, subject, native)
        if wrong:
            return [_of_case(case.name, w) for w in wrong]
        checked += 1
        if checked == CASES:
            break
    if checked == 0 and op.cost(problem).bytes < SELF_CHECK_BYTES:
        return run_and_check(op, problem, cases.problem_arrays(problem), subject, native)
    return []


def _concerns(small: Problem, subject: Subject) -> bool:
    """Whether the subject takes the case, with a config of the same kind: sizes may differ, but
    what is named (a kernel, a layout) is only meant for the problems it is offered for."""
    implementation, device = subject.implementation, subject.device
    if implementation.why_not(small, device):
        return False
    offered = implementation.configs(small, device) or [{}]
    return any(_kind(config) == _kind(subject.config) for config in offered)


def _kind(config: Config) -> dict[str, object]:
    return {k: v for k, v in config.items() if isinstance(v, str | bool)}


def run_and_check(
    op: Op, problem: Problem, arrays: Sequence[Any], subject: Subject, native: str
) -> list[str]:
    """Compile for one problem, run on host arrays, compare with the reference."""
    from portable import check

    try:
        results = run_on_host(problem, arrays, subject, native)
    except Exception as error:
        return [failed(*_classified(error))]
    return check.check(op, problem, arrays, results)


def failed(status: str, reason: str) -> str:
    """A way to fail as the text of a finding."""
    return f"{MARK}{status}: {reason}"


def status_of(verdict: Sequence[str]) -> str:
    """The status of a record with this verdict: "ok", "incorrect", or the way to fail."""
    if not verdict:
        return "ok"
    found = verdict[0]
    return found.removeprefix(MARK).partition(":")[0] if found.startswith(MARK) else "incorrect"


def _classified(error: Exception) -> tuple[str, str]:
    from portable import measure
    from portable.errors import CompileError

    status, reason = measure.classify(error)
    return ("compile_error" if isinstance(error, CompileError) else status), reason


def _of_case(case: str, finding: str) -> str:
    if not finding.startswith(MARK):
        return f"{case}: {finding}"
    status, _, reason = finding.removeprefix(MARK).partition(": ")
    return failed(status, f"{case}: {reason}")


def run_on_host(
    problem: Problem, arrays: Sequence[Any], subject: Subject, native: str
) -> tuple[Any, ...]:
    """Results, as NumPy arrays, of a fresh kernel on NumPy arrays."""
    family = registry.families()[native]
    kernel = subject.implementation.compile(problem, subject.device, subject.config)
    given = [family.from_host(a, subject.device.id) for a in arrays]
    result = kernel(*given)
    results = result if isinstance(result, tuple) else (result,)
    return tuple(family.to_host(r) for r in results)


def _like(op: Op, problem: Problem) -> list[Case]:
    """Core and full cases, given the problem's layout classes: core first, then the likest."""
    from portable import cases

    layouts = {
        name: "sliced" if spec.layout == "strided" else spec.layout
        for name, spec in zip(problem.operands, problem.tensors, strict=True)
    }
    found = []
    for case in op.cases():
        if case.level == "hostile" or problem.dtype not in cases.dtypes_of(op, case):
            continue
        if any(o.size == 0 for o in map(_shape_only, case.operands.values())):
            continue
        operands = {
            name: replace(operand, layout=layouts.get(name, operand.layout))
            for name, operand in case.operands.items()
        }
        found.append(replace(case, operands=operands))
    wanted = dict(problem.params)

    def unlikeness(case: Case) -> tuple[bool, int]:
        params = sum(1 for k, v in case.params.items() if wanted.get(k) != v)
        operands = len(set(case.operands) ^ set(problem.operands))
        return case.level != "core", params + 4 * operands

    return sorted(found, key=unlikeness)


def _shape_only(operand: Any) -> Any:
    from portable.op import TensorSpec

    return TensorSpec(tuple(operand.shape), "float32")
