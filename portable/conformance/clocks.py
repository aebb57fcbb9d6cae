"""Are clocks and checkers still those that were there when this module was imported?

A backend that replaces `time.perf_counter` would make itself look fast, one that replaces a checker
would make itself look right.
"""

from __future__ import annotations

import sys
import time

import numpy as np

from portable import check, measure
from portable.conformance.subject import Failed

_WATCHED = {
    time: ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns",
           "process_time", "process_time_ns", "sleep"),
    np: ("allclose", "array_equal", "isnan", "matmul", "sqrt"),
    check: ("check", "check_against", "compare"),
    measure: ("measure", "_clock"),
}  # fmt: skip
_ORIGINALS = {
    (module, name): getattr(module, name) for module, names in _WATCHED.items() for name in names
}
_TORCH: dict[str, object] = {}


def verify() -> None:
    """Raises Failed("timers") naming what was replaced."""
    replaced = [
        f"{module.__name__}.{name}"
        for (module, name), original in _ORIGINALS.items()
        if getattr(module, name) is not original
    ] + _torch_replaced()
    if replaced:
        raise Failed("timers", f"replaced while running: {', '.join(replaced)}")


def restore() -> None:
    """Put the originals back, so that the rest of a run can be trusted."""
    for (module, name), original in _ORIGINALS.items():
        setattr(module, name, original)


def _torch_replaced() -> list[str]:
    """torch's GPU synchronisation and events, compared with their first sight."""
    cuda = getattr(sys.modules.get("torch"), "cuda", None)
    if cuda is None:
        return []
    now = {"synchronize": cuda.synchronize, "Event": cuda.Event}
    known = {name: _TORCH.setdefault(name, value) for name, value in now.items()}
    return [f"torch.cuda.{name}" for name, value in now.items() if known[name] is not value]
