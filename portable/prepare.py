"""Gates ahead of time: everything that compiles and checks, before anything is timed.

The first contest of an op and dtype spends its time in compilers. Where nothing is being timed the
runtimes need not wait for each other: each checks its candidates in a thread of its own.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

from portable import contest, registry, selector
from portable.errors import PortableError
from portable.op import Problem
from portable.selector import Candidate

Job = tuple[Problem, Candidate]


def prepare(
    problems: Sequence[Problem],
    *,
    device: str = "cpu",
    slowest: float = math.inf,
    deadline: float = math.inf,
) -> None:
    """Pass the gates of everyone whom contests of the problems would let in.

    Args:
        problems: what will be timed.
        device: where the arrays will live.
        slowest: as in `contest.contest`.
        deadline: `time.monotonic()` after which no further gate is begun.
    """
    jobs: dict[str, list[Job]] = {}
    for problem in problems:
        for job in contest.unchecked(problem, device=device, slowest=slowest):
            jobs.setdefault(job[1].name, []).append(job)
    if jobs:
        with ThreadPoolExecutor(len(jobs)) as pool:
            list(pool.map(lambda own: _pass(own, deadline), jobs.values()))


def _pass(jobs: Sequence[Job], deadline: float) -> None:
    for problem, candidate in jobs:
        if time.monotonic() >= deadline:
            return
        if not selector.gated(problem, candidate):  # two problems may share a gate
            with contextlib.suppress(PortableError):  # kept as a verdict, or met again and told
                selector.pass_gate(registry.op(problem.op), problem, candidate)
