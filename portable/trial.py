"""First runs of untrusted code: in a child process with a watchdog, so that a crash costs a record.

Untrusted is a backend that another distribution brings, until its implementation has passed the
gate for an op, dtype and layout class here; the verdict is kept, so each is tried once. A trial
starts an interpreter and imports the plugin's library there: seconds, once. Backends of this
distribution, and those registered by hand in the running program, are checked in the process
itself. `PORTABLE_ISOLATE` is "plugins" (default), "all" or "off".

A trial runs the gate's small cases and then the very problem, so what depends on the shape shows
as well. It may take MEMORY_SHARE of the memory that is free when it starts, or
`PORTABLE_TRIAL_GIB`. A plugin that dies while it is *imported* is beyond this: entry points are
loaded in the process that asks for them.
"""

from __future__ import annotations

import os
from typing import TYPE_CHECKING, Any

from portable import gate, isolate, registry
from portable.errors import PortableError
from portable.op import Problem
from portable.records import problem_from_json, problem_to_json

if TYPE_CHECKING:
    from portable.selector import Candidate

ENVIRONMENT = "PORTABLE_ISOLATE"
TIMEOUT_ENVIRONMENT = "PORTABLE_TRIAL_SECONDS"
TIMEOUT = 120.0
"""Seconds after which a trial counts as a hang: imports, compilation and all cases together."""

MEMORY_ENVIRONMENT = "PORTABLE_TRIAL_GIB"
MEMORY_SHARE = 0.8

OURS = ("portable-kernels:", "register(")


def needed(backend: str) -> bool:
    """Whether a backend's code is tried in a child process first."""
    mode = os.environ.get(ENVIRONMENT, "plugins")
    if mode in ("all", "off"):
        return mode == "all"
    entry = registry.registered().get(backend)
    return entry is not None and not entry.origin.startswith(OURS)


def run(problem: Problem, candidate: Candidate) -> list[str]:
    """What is wrong with a candidate on a problem, as a verdict of the gate; empty: it passes."""
    assert candidate.route is not None
    outcome = isolate.run(
        "portable.trial:child",
        problem_to_json(problem),
        candidate.backend,
        [candidate.device.id, candidate.device.runtime],
        dict(candidate.config),
        candidate.route.native,
        timeout=_number(TIMEOUT_ENVIRONMENT, TIMEOUT),
        resident=_memory(),
    )
    if not outcome.ok:
        return [gate.failed(outcome.status, f"in a trial: {outcome.reason}")]
    return [str(w) for w in outcome.value]


def _memory() -> int | None:
    """Most resident memory of a trial [B]; None where the system does not tell what is free."""
    given = _number(MEMORY_ENVIRONMENT, 0.0)
    if given:
        return int(given * (1 << 30))
    free = isolate.free_memory()
    return None if free is None else int(MEMORY_SHARE * free)


def _number(variable: str, default: float) -> float:
    text = os.environ.get(variable, "")
    try:
        value = float(text) if text else default
    except ValueError:
        value = -1.0
    if value < 0:
        raise PortableError(f"{variable} is {text!r} (a number, zero or more, is needed)")
    return value


def child(
    problem: dict[str, Any], backend: str, device: list[str], config: dict[str, Any], native: str
) -> list[str]:
    """What is wrong with an implementation; runs in the child process."""
    from portable import cases

    os.environ[ENVIRONMENT] = "off"
    posed = problem_from_json(problem)
    op = registry.op(posed.op)
    entry = registry.registered()[backend]
    found = registry.backend(backend)
    place = next(d for d in found.devices() if [d.id, d.runtime] == device)
    implementation = registry.implementation(entry, posed.op)
    assert implementation is not None
    subject = gate.Subject(backend, place, implementation, config)
    wrong = gate.failures(op, posed, subject, native)
    if wrong:
        return wrong
    arrays = cases.problem_arrays(posed)
    if op.cost(posed).flops > 1e9:  # too long for the reference: that it runs must do
        gate.run_on_host(posed, arrays, subject, native)
        return []
    return gate.run_and_check(op, posed, arrays, subject, native)


__all__ = ["child", "needed", "run"]
