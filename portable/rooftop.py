"""Roofs of a device, measured in rounds that are spread out in time.

A roof is the best sample that anything reached: the backends' own micro-kernels (FMA, stream), a
matrix product through whatever library is fastest, a copy through NumPy. On a shared machine one
good moment is not to be had on demand, so the micro-kernels run in several rounds, with other work
between them. A roof that two rounds reach alike is settled; one that only a single round reached,
or that was measured while other processes used the processors, is "disturbed" and said to be.
"""

from __future__ import annotations

import contextlib
import os
import time
from collections.abc import Callable, Collection, Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from portable import contest, machine, measure, registry, transfer
from portable.device import Device
from portable.errors import DTypeError
from portable.op import Problem, TensorSpec
from portable.records.record import utc_now
from portable.roofline import Roofs, Transfer
from portable.stats import median, relative_spread

ROOF_DTYPES = ("float32", "float64", "float16", "bfloat16")
MATMUL_SIZES = (768, 1536)
"""Edges of the square products that compete with the micro-kernels for the compute roof."""
MATMUL_SECONDS = 0.35
"""Time box of one product."""
STREAM_BYTES = 128 << 20
"""Bytes of one array of the stream kernels at least; four last-level caches where that is more."""
ROUNDS = 3
"""Rounds of all micro-kernels; those of disturbed roofs run more often."""
AGREE = 0.05
"""Two rounds confirm a roof when their best samples differ by less than this share."""
BUSY = 0.1
"""Share of the processors that others may use before everything measured counts as disturbed."""

Readings = list[list[float]]
"""Samples of one measurer, a list for each round."""


@dataclass(slots=True)
class Survey:
    """What was measured of one device so far.

    Attributes:
        compute: samples [FLOP/s] by "dtype/unit", by who measured.
        bandwidth: samples [B/s] by level, by who measured.
        latency: samples [s] by who measured.
        transfers: samples [B/s] by way ("to_device", "to_host"), by array library.
        transfer_latency: samples [s] likewise.
        failed: what could not be measured, with the reason.
        others: share of the processors that other processes used in each round, where known.
        seconds: how long the last round took.
    """

    physical: machine.PhysicalDevice
    compute: dict[str, dict[str, Readings]] = field(default_factory=dict)
    bandwidth: dict[str, dict[str, Readings]] = field(default_factory=dict)
    latency: dict[str, list[float]] = field(default_factory=dict)
    transfers: dict[str, dict[str, Readings]] = field(default_factory=dict)
    transfer_latency: dict[str, dict[str, list[float]]] = field(default_factory=dict)
    failed: dict[str, str] = field(default_factory=dict)
    others: list[float] = field(default_factory=list)
    seconds: float = 0.0

    def round(self, only: Collection[str] = ()) -> None:
        """The micro-kernels of every backend that brings some, once; or those of some roofs."""
        start, neighbours = time.monotonic(), Neighbours()
        for name, hook, device in hooks(self.physical):
            label = f"{name}[{device.runtime}]" if device.runtime else name
            for dtype in ROOF_DTYPES:
                if only and f"{dtype}/vector" not in only:
                    continue
                with contextlib.suppress(DTypeError):  # the device has no arithmetic in it
                    samples = hook.compute_roof(device, dtype)
                    _keep(self.compute, f"{dtype}/vector", f"{label} FMA", samples)
            for level, kind, nbytes in _streams(self.physical):
                if not only or level in only:
                    samples = hook.stream(device, kind, nbytes)
                    _keep(self.bandwidth, level, f"{label} {kind}", samples)
        if not only or self.transfers.keys() & set(only):
            self._transfers()
        if not only:
            _keep(self.bandwidth, "dram", "NumPy copy", _numpy_copy(self.physical))
        if self.physical.id == "cpu" and (share := neighbours.share()) is not None:
            self.others.append(share)
        self.seconds = time.monotonic() - start

    def _transfers(self) -> None:
        """Copies from NumPy arrays to the device's memory and back, by every array library."""
        if self.physical.id == "cpu":
            return
        for family, wait in transfer.libraries(self.physical):
            try:
                found = transfer.read(family, self.physical.id, wait)
            except Exception as error:  # another library may do it; the reason is told
                self.failed[f"transfer by {family.name}"] = f"{type(error).__name__}: {error}"
                continue
            if found is None:
                continue
            who = f"{family.name} copy"
            for way, rates in found.rates.items():
                _keep(self.transfers, way, who, rates)
                times = self.transfer_latency.setdefault(way, {}).setdefault(who, [])
                times += found.latencies[way]

    def again(self) -> bool:
        """One more round of the roofs that are disturbed; whether there were any."""
        wanted = self.disturbed().keys()
        if wanted:
            self.round(() if "machine" in wanted else wanted)
        return bool(wanted)

    def products(self) -> None:
        """FLOP/s of square products by the best candidate: a roof that a library really reaches."""
        for problem in products():
            result = contest.contest(
                problem, device=self.physical.id, budget=MATMUL_SECONDS, slowest=5.0
            )
            best = result.best()
            if best is not None:
                n = problem.tensors[0].shape[0]
                rates = [2.0 * n**3 / t for t in best.samples]
                who = f"{contest.candidate_name(best)} matmul {n}"
                _keep(self.compute, f"{problem.dtype}/matrix", who, rates)

    def large(self) -> None:
        """B/s of ops that only stream, on large arrays: the memory roof where no backend brings
        kernels of its own for it."""
        for problem in streaming():
            moved = registry.op(problem.op).cost(problem).bytes
            best = contest.contest(problem, device=self.physical.id, budget=MATMUL_SECONDS).best()
            if best is not None:
                who = f"{contest.candidate_name(best)} {problem.op}"
                _keep(self.bandwidth, "dram", who, [moved / t for t in best.samples])

    def launches(self) -> None:
        """Least time [s] of a call on almost no data, by candidate."""
        params = {"axis": None, "keepdims": False}
        problem = registry.op("sum").bind({"x": TensorSpec((8,), "float32")}, params)
        result = contest.contest(problem, device=self.physical.id, budget=0.5)
        for record in result.records:
            if record.ok:
                self.latency[f"{record.backend} sum of 8"] = list(record.samples)

    def disturbed(self) -> dict[str, str]:
        """Roofs that no second round confirmed, with what the rounds reached; and, under "machine",
        that others were at work."""
        found = {}
        for unit, table in (
            ("FLOP/s", self.compute), ("B/s", self.bandwidth), ("B/s", self.transfers)
        ):  # fmt: skip
            for name, measurers in table.items():
                tops = sorted(map(max, _best(measurers)[1]), reverse=True)
                if len(tops) > 1 and tops[1] < (1 - AGREE) * tops[0]:
                    seen = ", ".join(f"{top / 1e9:.4g}" for top in tops[:4])
                    found[name] = (
                        f"the best of {len(tops)} rounds reached {seen} G{unit}: the first counts"
                    )
        if self.others and min(self.others) > BUSY:
            found["machine"] = (
                f"other processes used {min(self.others):.0%} of the processors or more in every "
                "round: all roofs may be too low"
            )
        return found

    def roofs(self) -> Roofs:
        """The best of everything."""
        rates, spread, method = {}, {}, {}
        tables = (self.compute, self.bandwidth, self.transfers)
        for name, measurers in (item for table in tables for item in table.items()):
            who, rounds = _best(measurers)
            samples = [s for one in rounds for s in one]
            rates[name], method[name] = max(samples), who
            spread[name] = relative_spread(samples)
        _vector_under_matrix(rates, spread, method)
        nobody: tuple[str, list[float]] = ("", [0.0])
        who, times = min(self.latency.items(), key=lambda item: median(item[1]), default=nobody)
        spread["latency"], method["latency"] = relative_spread(times), who
        ways = {}
        for way, libraries in self.transfer_latency.items():
            who, few = min(libraries.items(), key=lambda item: median(item[1]))
            ways[way] = Transfer(rates[way], median(few))
            spread[f"{way} latency"], method[f"{way} latency"] = relative_spread(few), who
        return Roofs(
            compute={k: rates[k] for k in rates if "/" in k},
            bandwidth={k: rates[k] for k in self.bandwidth},
            latency=median(times),
            spread=spread,
            method=method,
            device=machine.fingerprint(self.physical.id),
            created=utc_now(),
            transfers=ways,
        )


def _keep(table: dict[str, dict[str, Readings]], roof: str, who: str, samples: list[float]) -> None:
    if samples:
        table.setdefault(roof, {}).setdefault(who, []).append(samples)


def _best(measurers: dict[str, Readings]) -> tuple[str, Readings]:
    """Who reached most, and the rounds of that one."""
    return max(measurers.items(), key=lambda item: max(map(max, item[1])))


def _vector_under_matrix(
    rates: dict[str, float], spread: dict[str, float], method: dict[str, str]
) -> None:
    """A matrix product may use the vector unit: its roof is at least that of the vector unit."""
    for name in [n for n in rates if n.endswith("/vector")]:
        matrix = name.replace("/vector", "/matrix")
        if rates[name] > rates.get(matrix, 0.0):
            rates[matrix], spread[matrix] = rates[name], spread[name]
            method[matrix] = method[name]


def hooks(physical: machine.PhysicalDevice) -> Iterator[tuple[str, Any, Device]]:
    """Backends that bring micro-kernels for roofs: an attribute `roofs` with two functions."""
    for name, device in physical.routes:
        hook = getattr(registry.backend(name), "roofs", None)
        if hook is not None:
            yield name, hook, device


def products() -> list[Problem]:
    """The square products."""
    return [square(n, dtype) for dtype in ROOF_DTYPES for n in MATMUL_SIZES]


def square(n: int, dtype: str) -> Problem:
    """An n x n x n matrix product."""
    op = registry.op("matmul")
    spec = TensorSpec((n, n), dtype)
    return op.bind({"a": spec, "b": spec}, {})


def streaming() -> list[Problem]:
    """A sum and a product of large arrays: read alone, and two reads for a write."""
    large = TensorSpec((STREAM_BYTES >> 14, 1 << 12), "float32")
    return [
        registry.op("sum").bind({"x": large}, {"axis": None, "keepdims": False}),
        registry.op("swiglu").bind({"gate": large, "up": large}, {}),
    ]


def _streams(physical: machine.PhysicalDevice) -> list[tuple[str, str, int]]:
    """(level, kind, bytes per array): memory by three kernels, each cache level by reading."""
    nbytes = max(STREAM_BYTES, 4 * machine.last_level_cache(physical.id))
    # What is passed over again is never less than eight last-level caches.
    found = [("dram", "read", 2 * nbytes), ("dram", "write", 2 * nbytes), ("dram", "triad", nbytes)]
    caches = physical.info.caches
    units = max(physical.info.units, 1)
    for level, share in (("l2", units), ("l3", 1)):
        size = caches.get(level, 0) * share
        if size:
            found.append((level, "read", max(size // 2, 1 << 14)))
    return found


def _numpy_copy(physical: machine.PhysicalDevice) -> list[float]:
    """Copy bandwidth [B/s] through NumPy, in one thread: a floor under the kernels' figures."""
    if physical.id != "cpu":
        return []
    import numpy as np

    source = np.ones(STREAM_BYTES // 8)
    target = np.ones_like(source)
    copy: Callable[[], None] = lambda: np.copyto(target, source)  # noqa: E731
    timed = measure.measure({"copy": copy}, budget=0.1)["copy"]
    return [2 * source.nbytes / t for t in timed.times]


class Neighbours:
    """How much of the processors other processes, or other virtual machines, use meanwhile.

    Busy time of the system, stolen time included, without that of this process, since it was made.
    """

    def __init__(self) -> None:
        self._start, self._time = _others(), time.monotonic()

    def share(self) -> float | None:
        """Share of all processors, 0 to 1; None where the system does not count."""
        now, passed = _others(), time.monotonic() - self._time
        if self._start is None or now is None or passed <= 0:
            return None
        return min(max(0.0, (now - self._start) / passed / (os.cpu_count() or 1)), 1.0)


def _others() -> float | None:
    """Processor time [s] used by others since the system started, as Linux counts it."""
    try:
        fields = Path("/proc/stat").read_text().split(maxsplit=9)[1:9]
        ticks = [int(value) for value in fields]
    except (OSError, ValueError):
        return None
    idle = ticks[3] + ticks[4]
    own = os.times()
    return (sum(ticks) - idle) / os.sysconf("SC_CLK_TCK") - own.user - own.system
