"""Roofs of this machine, the price of array conversions, and a small probe set: in a minute.

A roof is the best sample that anything reached here: the backends' own micro-kernels (FMA,
stream), a matmul through whatever library is fastest, a copy through NumPy. Every number keeps
its spread and who reached it.
"""

from __future__ import annotations

import contextlib
import math
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from typing import Any

from portable import arrays, cases, contest, engine, machine, measure, records, registry
from portable.device import Device
from portable.errors import DTypeError
from portable.op import Problem, TensorSpec
from portable.records.record import utc_now
from portable.roofline import Roofs
from portable.stats import median, relative_spread
from portable.text import table, time_text

Progress = Callable[[int, int, str], None]

ROOF_DTYPES = ("float32", "float64", "float16", "bfloat16")
MATMUL_SIZES = (768, 1536)
"""Edges of the square products that compete with the micro-kernels for the compute roof."""
STREAM_BYTES = 256 << 20
"""Bytes of one array of the stream kernels: well beyond any last-level cache met so far."""


@dataclass(slots=True)
class Calibration:
    """What `portable calibrate` found.

    Attributes:
        device: id of the device.
        roofs: the measured roofs.
        contradictions: measured roofs above the datasheet's, in words.
        conversions: fixed price [s] of taking one small array from a family to another.
        probes: number of probe records kept.
        seconds: how long it took.
    """

    device: str
    roofs: Roofs
    contradictions: list[str] = field(default_factory=list)
    conversions: dict[str, float] = field(default_factory=dict)
    probes: int = 0
    seconds: float = 0.0

    def __str__(self) -> str:
        found = self.roofs
        rows = [
            [name, f"{value / 1e9:.4g} {unit}", f"{found.spread.get(name, 0.0):.1%}",
             found.method.get(name, "")]
            for unit, rates in (("GFLOP/s", found.compute), ("GB/s", found.bandwidth))
            for name, value in rates.items()
        ]  # fmt: skip
        latency = [time_text(found.latency), f"{found.spread.get('latency', 0.0):.1%}"]
        rows.append(["launch latency", *latency, found.method.get("latency", "")])
        lines = table(["roof", "measured", "spread", "reached by"], rows)
        lines += [f"contradiction: {text}" for text in self.contradictions]
        lines.append(
            f"{self.device}: {self.probes} probe records, {len(self.conversions)} conversion "
            f"prices, {self.seconds:.0f} s; kept for later choices"
        )
        return "\n".join(lines)


def calibrate(
    device: str = "cpu",
    *,
    probes: bool = True,
    budget: float = 40.0,
    progress: Progress | None = None,
) -> Calibration:
    """Measure roofs, conversions and the probe set of a device, and remember them.

    Args:
        device: id of the device.
        probes: also time the probe set: exact records and neighbours for later choices.
        budget: [s] for the probe set.
        progress: called with (steps done, steps in all, what is next).

    Raises:
        UnknownNameError: no such device.
    """
    start = time.monotonic()
    say = progress or (lambda done, total, what: None)
    physical = machine.device(device)
    say(0, 4, "compute and bandwidth")
    roofs = _measure_roofs(physical, say)
    key = machine.fingerprint(device)
    records.default_store().put_fact("roofs", key, roofs.to_json())
    machine.measured_roofs.cache_clear()
    say(2, 4, "conversions")
    conversions = _conversions() if device == "cpu" else {}
    if conversions:
        records.default_store().put_fact("conversions", key, conversions)
    engine.refresh()
    done = Calibration(device, roofs, _contradictions(physical, roofs), conversions)
    if probes:
        done.probes = _probe(device, budget, say)
        engine.refresh()
    done.seconds = time.monotonic() - start
    return done


def _contradictions(physical: machine.PhysicalDevice, roofs: Roofs) -> list[str]:
    """Measured roofs above the datasheet's: one of the two is wrong, and both are shown."""
    spec = physical.spec
    if spec is None:
        return [f"{physical.info.name} is not in the hardware database: nothing to compare with"]
    found = []
    for name, rate in roofs.compute.items():
        dtype, unit = name.split("/")
        peak = spec.peak(dtype, unit)
        if rate > peak:
            found.append(f"{name}: measured {rate:.4g} FLOP/s, {spec.name} has {peak:.4g}")
    if roofs.dram > spec.bandwidth:
        found.append(f"dram: measured {roofs.dram:.4g} B/s, {spec.name} has {spec.bandwidth:.4g}")
    return found


# --- roofs -------------------------------------------------------------------------------------

Reading = tuple[str, list[float]]
"""Who measured, and the samples."""


def _measure_roofs(physical: machine.PhysicalDevice, say: Progress) -> Roofs:
    compute: dict[str, list[Reading]] = {}
    bandwidth: dict[str, list[Reading]] = {}
    latency: list[Reading] = []
    for name, hook, device in _hooks(physical):
        label = f"{name}[{device.runtime}]" if device.runtime else name
        for dtype in ROOF_DTYPES:
            with contextlib.suppress(DTypeError):  # the device has no arithmetic in it
                samples = hook.compute_roof(device, dtype)
                compute.setdefault(f"{dtype}/vector", []).append((f"{label} FMA", samples))
        for level, kind, nbytes in _streams(physical):
            samples = hook.stream(device, kind, nbytes)
            if samples:
                bandwidth.setdefault(level, []).append((f"{label} {kind}", samples))
    say(1, 4, "matrix products")
    for dtype in ROOF_DTYPES:
        compute[f"{dtype}/matrix"] = _matmul_readings(physical.id, dtype)
    bandwidth.setdefault("dram", []).extend(_library_streams(physical.id))
    latency.extend(_latency_readings(physical.id))
    return _best(compute, bandwidth, latency, machine.fingerprint(physical.id))


def _hooks(physical: machine.PhysicalDevice) -> Iterator[tuple[str, Any, Device]]:
    """Backends that bring micro-kernels for roofs: an attribute `roofs` with three functions."""
    for name, device in physical.routes:
        hook = getattr(registry.backend(name), "roofs", None)
        if hook is not None:
            yield name, hook, device


def _streams(physical: machine.PhysicalDevice) -> list[tuple[str, str, int]]:
    """(level, kind, bytes per array): memory by three kernels, each cache level by reading."""
    found = [("dram", kind, STREAM_BYTES) for kind in ("read", "write", "triad")]
    caches = physical.info.caches
    units = max(physical.info.units, 1)
    for level, share in (("l2", units), ("l3", 1)):
        size = caches.get(level, 0) * share
        if size:
            found.append((level, "read", max(size // 2, 1 << 14)))
    return found


def _matmul_readings(device: str, dtype: str) -> list[Reading]:
    """FLOP/s of the best candidate for square products: a roof that a library really reaches."""
    found = []
    for n in MATMUL_SIZES:
        problem = square(n, dtype)
        result = contest.contest(problem, device=device, budget=1.0, slowest=5.0)
        best = result.best()
        if best is not None:
            flops = 2.0 * n**3
            who = best.backend + (f"[{best.runtime}]" if best.runtime else "")
            found.append((f"{who} matmul {n}", [flops / t for t in best.samples]))
    return found


def square(n: int, dtype: str) -> Problem:
    """An n x n x n matrix product."""
    op = registry.op("matmul")
    spec = TensorSpec((n, n), dtype)
    return op.bind({"a": spec, "b": spec}, {})


def _library_streams(device: str) -> list[Reading]:
    """Copy bandwidth [B/s] through NumPy, in one thread: a floor under the kernels' figures."""
    if device != "cpu":
        return []
    import numpy as np

    source = np.ones(STREAM_BYTES // 8)
    target = np.empty_like(source)
    timed = measure.measure({"copy": lambda: np.copyto(target, source)}, budget=0.5)["copy"]
    return [("NumPy copy", [2 * STREAM_BYTES / t for t in timed.times])]


def _latency_readings(device: str) -> list[Reading]:
    """Least time [s] of a call on almost no data, by candidate."""
    params = {"axis": None, "keepdims": False}
    problem = registry.op("sum").bind({"x": TensorSpec((8,), "float32")}, params)
    result = contest.contest(problem, device=device, budget=0.5)
    return [(f"{r.backend} sum of 8", list(r.samples)) for r in result.records if r.ok]


def _best(
    compute: dict[str, list[Reading]],
    bandwidth: dict[str, list[Reading]],
    latency: list[Reading],
    device: str,
) -> Roofs:
    rates, spread, method = {}, {}, {}
    for name, readings in (*compute.items(), *bandwidth.items()):
        measured = [r for r in readings if r[1]]
        if measured:
            who, samples = max(measured, key=lambda r: max(r[1]))
            rates[name] = max(samples)
            spread[name], method[name] = relative_spread(tuple(samples)), who
    who, samples = min(latency, key=lambda r: median(r[1]), default=("", [0.0]))
    spread["latency"], method["latency"] = relative_spread(tuple(samples)), who
    _vector_under_matrix(rates, spread, method)
    return Roofs(
        compute={k: v for k, v in rates.items() if "/" in k},
        bandwidth={k: v for k, v in rates.items() if k in bandwidth},
        latency=median(samples),
        spread=spread,
        method=method,
        device=device,
        created=utc_now(),
    )


def _vector_under_matrix(
    rates: dict[str, float], spread: dict[str, float], method: dict[str, str]
) -> None:
    """A matrix product may use the vector unit: its roof is at least that of the vector unit."""
    for name in [n for n in rates if n.endswith("/vector")]:
        matrix = name.replace("/vector", "/matrix")
        if rates[name] > rates.get(matrix, 0.0):
            rates[matrix], spread[matrix] = rates[name], spread[name]
            method[matrix] = method[name]


# --- conversions -------------------------------------------------------------------------------


def _conversions() -> dict[str, float]:
    """Fixed price [s] of one small host array from each family to each other one."""
    import numpy as np

    known = registry.families()
    small = np.ones(16, dtype=np.float32)
    held = {}
    for name, family in known.items():
        try:
            held[name] = family.from_host(small, "cpu")
        except Exception:  # a family without host arrays has no price on the CPU
            continue
    steps = {
        f"{a}>{b}": (lambda a=a, b=b: known[b].from_host(known[a].to_host(held[a]), "cpu"))
        for a in held
        for b in held
        if a != b
    }
    timed = measure.measure(steps, budget=1.5, max_samples=25)
    return {name: s.time for name, s in timed.items() if math.isfinite(s.time)}


# --- probes ------------------------------------------------------------------------------------


def probe_problems() -> list[Problem]:
    """A small set over ops, dtypes and shape classes: neighbours for most of what comes later."""
    from portable.probes import PROBES

    found = []
    for op_name, shapes, dtype, params, transposed in PROBES:
        op = registry.op(op_name)
        problem = cases.problem_of_shapes(op, shapes, dtype, params)
        found.append(with_transposed(problem, transposed) if transposed else problem)
    return found


def with_transposed(problem: Problem, operand: str) -> Problem:
    """The same problem with one operand stored transposed (a weight kept as (n, k))."""
    index = problem.operands.index(operand)
    spec = problem.tensors[index]
    flipped = TensorSpec(spec.shape, spec.dtype, (1, spec.shape[0]))
    tensors = (*problem.tensors[:index], flipped, *problem.tensors[index + 1 :])
    return replace(problem, tensors=tensors)


def _probe(device: str, budget: float, say: Progress) -> int:
    problems = probe_problems()
    deadline = time.monotonic() + budget
    kept = 0
    for index, problem in enumerate(problems):
        left = deadline - time.monotonic()
        if left <= 0:
            break
        say(index, len(problems), str(problem))
        share = left / (len(problems) - index)
        result = contest.contest(problem, device=device, budget=share * 0.6, slowest=12.0)
        records.default_store().add(result.records)
        kept += len(result.records)
    return kept


__all__ = ["Calibration", "arrays", "calibrate", "probe_problems"]
