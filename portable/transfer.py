"""Host-device transfer: latency + n / bandwidth for n bytes, each way, through an array library.

What is timed is what a call with NumPy arrays on another device pays: `from_host` of pageable
memory until the device is done, and `to_host` of that very array (JAX keeps a host copy of an array
it has shown once, so every sample has an array of its own). The latency is the time of a tiny copy,
the bandwidth is what a large one reaches beyond it.
"""

from __future__ import annotations

import functools
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from typing import Any

from portable import machine, registry
from portable.backend import ArrayFamily
from portable.errors import PortableError
from portable.roofline import WAYS
from portable.stats import median

TINY = 64
"""Bytes of a copy that is all latency."""
FIRST, LARGEST = 1 << 20, 256 << 20
"""Bytes of a large copy: from the first in steps of four, until a round trip takes LONG."""
MEMORY_SHARE = 16
"""A large copy is at most this part of the memory of device and host: both hold several."""
LONG = 0.1
"""Seconds of a round trip that are enough for a rate."""
TINY_ROUNDS, LARGE_ROUNDS = 25, 3
"""Round trips: of tiny copies at most, of large ones at least."""
SECONDS = 0.25
"""Time box of either."""
_clock: Callable[[], int] = time.perf_counter_ns


@dataclass(slots=True)
class Reading:
    """Samples of one array library on one device.

    Attributes:
        rates: [B/s] by way ("to_device", "to_host").
        latencies: [s] of tiny copies by way.
        nbytes: size of the large copies.
    """

    rates: dict[str, list[float]] = field(default_factory=dict)
    latencies: dict[str, list[float]] = field(default_factory=dict)
    nbytes: int = 0


def libraries(
    physical: machine.PhysicalDevice,
) -> Iterator[tuple[ArrayFamily, Callable[[], None]]]:
    """Array families of the backends that drive a device, each with a way to wait for it.

    One that keeps its arrays in host memory is among them; `read` tells.
    """
    known = registry.families()
    seen: set[str] = set()
    for name, device in physical.routes:
        backend = registry.backend(name)
        for family in backend.families:
            if family in known and family not in seen:
                seen.add(family)
                yield known[family], functools.partial(backend.synchronize, device)


def read(family: ArrayFamily, device: str, wait: Callable[[], None]) -> Reading | None:
    """Time copies to a device and back; None where the library's arrays stay in host memory.

    Raises:
        PortableError: a large copy takes no longer than a tiny one: the memory is shared.
        Exception: whatever the library raises.
    """
    import numpy as np

    host = np.ones(TINY // 4, dtype=np.float32)
    if family.device(family.from_host(host, device)) != device:
        return None
    _round_trip(family, host, device, wait)
    tiny = _sample(family, host, device, wait, 5, TINY_ROUNDS)
    host = _large(family, device, wait)
    large = _sample(family, host, device, wait, LARGE_ROUNDS, 10 * LARGE_ROUNDS)
    found = Reading(nbytes=host.nbytes)
    for index, way in enumerate(WAYS):
        few, many = [t[index] for t in tiny], [t[index] for t in large]
        latency = median(few)
        if min(many) < 2 * latency:
            raise PortableError(
                f"{way}: {host.nbytes} B take {min(many):.3g} s and {TINY} B {latency:.3g} s: "
                "nothing is copied, or the latency hides it"
            )
        found.latencies[way] = few
        found.rates[way] = [(host.nbytes - TINY) / (t - latency) for t in many]
    return found


def _large(family: ArrayFamily, device: str, wait: Callable[[], None]) -> Any:
    """A host array whose round trip takes long enough, within the memory of both sides."""
    import numpy as np

    sizes = (machine.device(key).info.memory_size for key in (device, "cpu"))
    most = min(LARGEST, *(size // MEMORY_SHARE for size in sizes if size))
    nbytes = min(FIRST, most)
    while True:
        host = np.ones(max(nbytes // 4, 1), dtype=np.float32)
        if nbytes >= most or sum(_round_trip(family, host, device, wait)) >= LONG:
            return host
        nbytes = min(4 * nbytes, most)


def _sample(
    family: ArrayFamily, host: Any, device: str, wait: Callable[[], None], least: int, most: int
) -> list[tuple[float, float]]:
    """Round trips in a time box."""
    found: list[tuple[float, float]] = []
    until = _clock() + SECONDS * 1e9
    while len(found) < least or (len(found) < most and _clock() < until):
        found.append(_round_trip(family, host, device, wait))
    return found


def _round_trip(
    family: ArrayFamily, host: Any, device: str, wait: Callable[[], None]
) -> tuple[float, float]:
    """Seconds (to the device, back to the host)."""
    wait()
    start = _clock()
    held = family.from_host(host, device)
    getattr(held, "block_until_ready", wait)()  # JAX's copies have a queue of their own
    there = _clock()
    family.to_host(held)  # waits for the data
    return (there - start) * 1e-9, (_clock() - there) * 1e-9
