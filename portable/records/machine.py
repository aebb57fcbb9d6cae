"""A fingerprint of the machine that measured: stable, and without names of people or hosts."""

from __future__ import annotations

import functools
import hashlib
import os
import platform
from pathlib import Path


@functools.cache
def machine() -> str:
    """16 hex digits over processor, usable cores, memory, system and the machine's id.

    The id (where the system has one) is only ever used inside of the hash.
    """
    parts = [platform.system(), platform.machine(), _processor(), str(_cores()), _machine_id()]
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:16]


def _processor() -> str:
    for line in _read("/proc/cpuinfo").splitlines():
        if line.startswith("model name"):
            return line.partition(":")[2].strip()
    return platform.processor()


def _cores() -> int:
    if hasattr(os, "sched_getaffinity"):
        return len(os.sched_getaffinity(0))
    return os.cpu_count() or 0


def _machine_id() -> str:
    return _read("/etc/machine-id").strip() or platform.node()


def _read(path: str) -> str:
    try:
        return Path(path).read_text(encoding="utf-8", errors="replace")
    except OSError:
        return ""
