"""The worker threads of Intel's CPU runtime, freed of the core they are sometimes tied to.

Creating a context starts them, and in most processes ties each to one core while the caller's
thread stays free. When both meet on that core another one idles, and a kernel takes twice as long
(`python -m bench.worker_affinity`). A user who has set the runtime's own variables keeps them.
"""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from pathlib import Path

USER_SETTINGS = ("DPCPP_CPU_CU_AFFINITY", "DPCPP_CPU_PLACES")
_TASKS = Path("/proc/self/task")


@contextlib.contextmanager
def freed(runtime: str) -> Iterator[None]:
    """Threads that a runtime starts meanwhile may use the same cores as the caller."""
    if not _wanted(runtime):
        yield
        return
    before = _threads()
    try:
        yield
    finally:
        allowed = os.sched_getaffinity(0)
        for thread in _threads() - before:
            with contextlib.suppress(OSError):  # it has ended, or a sandbox forbids it
                os.sched_setaffinity(thread, allowed)


def _wanted(runtime: str) -> bool:
    able = hasattr(os, "sched_setaffinity") and _TASKS.is_dir()
    return runtime == "intel" and able and not any(os.environ.get(v) for v in USER_SETTINGS)


def _threads() -> set[int]:
    return {int(task.name) for task in _TASKS.iterdir()}
