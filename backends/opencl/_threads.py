"""The worker threads of Intel's CPU runtime, freed of the one core they are sometimes tied to.

It now and then ties a worker to a core and leaves the caller's thread free. When both meet on that
core, another one idles and a kernel takes twice as long (layer_norm of 384x768: 0.16 ms, and
0.09 ms once the worker was freed). Threads that appear during our first launches get the caller's
own cores. A user who has set the runtime's variables keeps them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

USER_SETTINGS = ("DPCPP_CPU_CU_AFFINITY", "DPCPP_CPU_PLACES")
SETTLING = 4
"""Calls of a kernel that are watched: threads come, and are tied, with the first ones."""

_TASKS = Path("/proc/self/task")
_workers: set[int] = set()


def wanted(runtime: str) -> bool:
    """Whether a runtime's threads are looked after."""
    able = hasattr(os, "sched_setaffinity") and _TASKS.is_dir()
    return runtime == "intel" and able and not any(os.environ.get(v) for v in USER_SETTINGS)


@contextlib.contextmanager
def watched() -> Iterator[None]:
    """Threads that appear meanwhile are the runtime's; none of them is left tied to fewer cores
    than the caller may use."""
    before = _threads()
    try:
        yield
    finally:
        _workers.update(_threads() - before)
        allowed = os.sched_getaffinity(0)
        for thread in list(_workers):
            _free(thread, allowed)


def _threads() -> set[int]:
    return {int(task.name) for task in _TASKS.iterdir()}


def _free(thread: int, allowed: set[int]) -> None:
    try:
        if os.sched_getaffinity(thread) < allowed:
            os.sched_setaffinity(thread, allowed)
    except OSError:  # it has ended, or a sandbox forbids it
        _workers.discard(thread)
