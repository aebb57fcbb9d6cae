"""Speed of light, measured roofs, and the scores that compare times with them.

    T_SOL  = max over units(FLOPs / peak, bytes / bandwidth)          datasheet roof
    T_roof = max over units(FLOPs / rate, bytes / bandwidth, launch)  measured roof of this device

The two roofs are never mixed. A correct time below T_SOL means that a number behind the bound (or
the timer) is wrong: it gets the status "bound_violated" and no score. Functions here return None
with a reason where a figure has no meaning, and never a number outside of its range.
"""

from __future__ import annotations

import math
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from portable import plain
from portable.device import DeviceSpec
from portable.errors import DTypeError, RecordError
from portable.op import Cost
from portable.stats import harmonic_mean
from portable.text import rate_text, time_text

# --- the two roofs -----------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class SpeedOfLight:
    """The least time by a roof.

    Attributes:
        time: [s].
        bound_by: "compute", "memory", "launch", or "nothing" when there is no work at all.
        compute_time: [s] of the slowest unit.
        memory_time: [s] of the compulsory traffic.
        intensity: FLOPs of all units per byte.
        ridge: intensity at which compute and memory take equally long [FLOP/B], peak / bandwidth
            for work of one unit: below it the problem is memory-bound. Infinite without work.
        unit: unit class that sets `compute_time`; "" without work.
        dtype: the type it works in.
        estimated: a peak or bandwidth behind the number is derived, not published.
        way: the entry of the peaks that was used ("float32/vector").
    """

    time: float
    bound_by: str
    compute_time: float
    memory_time: float
    intensity: float
    ridge: float
    unit: str
    dtype: str
    estimated: bool = False
    way: str = ""


def speed_of_light(cost: Cost, spec: DeviceSpec) -> SpeedOfLight:
    """T_SOL = max over units(FLOPs / peak, bytes / bandwidth) by the datasheet.

    Work of one unit class and dtype adds up; different ones may overlap in time, so their maximum
    is the bound. A device whose bandwidth is unknown (0) has no memory bound.

    Raises:
        DTypeError: the device has no peak for a dtype of the work.
    """
    compute, unit, dtype, way = 0.0, "", "", ""
    for (work_unit, work_dtype), flops in _grouped(cost).items():
        used = spec.way(work_dtype, work_unit)
        seconds = flops / spec.peaks[used]
        if seconds > compute or not unit:
            compute, unit, dtype, way = seconds, work_unit, work_dtype, used
    memory = cost.bytes / spec.bandwidth if spec.bandwidth > 0 else 0.0
    time = max(compute, memory)
    bound_by = "nothing" if time == 0 else "compute" if compute > memory else "memory"
    # Over all FLOPs, so that intensity against ridge says what bound_by says.
    bounded = compute > 0 and spec.bandwidth > 0
    ridge = cost.flops / compute / spec.bandwidth if bounded else math.inf
    guessed = {"bandwidth"} if bound_by == "memory" else {"peaks", f"peaks.{way}"}
    return SpeedOfLight(
        time, bound_by, compute, memory, cost.intensity, ridge, unit, dtype,
        bool(guessed & spec.estimated), way,
    )  # fmt: skip


def _grouped(cost: Cost) -> dict[tuple[str, str], float]:
    groups: dict[tuple[str, str], float] = {}
    for work in cost.work:
        if work.flops > 0:
            key = (work.unit, work.dtype)
            groups[key] = groups.get(key, 0.0) + work.flops
    return groups


TO_DEVICE, TO_HOST = WAYS = ("to_device", "to_host")
"""The ways of a transfer."""
_LATENCY = "_latency"


@dataclass(frozen=True, slots=True)
class Transfer:
    """Moving n bytes between host and device memory takes latency + n / bandwidth.

    Attributes:
        bandwidth: [B/s] of a large copy; decimal.
        latency: [s] of a tiny one.

    Raises:
        RecordError: a rate that is not > 0, or a latency that is not >= 0.
    """

    bandwidth: float
    latency: float = 0.0

    def __post_init__(self) -> None:
        if not (math.isfinite(self.bandwidth) and self.bandwidth > 0):
            raise RecordError(f"transfer is {self.bandwidth!r} (a finite rate > 0 is needed)")
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise RecordError(
                f"transfer latency is {self.latency!r} (a finite time >= 0 is needed)"
            )

    def time(self, nbytes: int) -> float:
        """Seconds for one array."""
        return self.latency + nbytes / self.bandwidth

    def __str__(self) -> str:
        return f"{rate_text(self.bandwidth, 'B/s')} after {time_text(self.latency)}"


@dataclass(frozen=True, slots=True)
class Roofs:
    """What this very device was seen to reach.

    Attributes:
        compute: [FLOP/s] by "dtype/unit": the best micro-kernel or matmul.
        bandwidth: [B/s] by level: "dram" always, "l2", "l3" where measured; decimal.
        latency: [s] of the least launch: the floor under any time.
        spread: relative noise of each number, by the same names and "latency".
        method: how each was measured.
        device: fingerprint or name of the device.
        created: UTC, ISO 8601.
        versions: of what measured.
        transfers: between NumPy arrays and the device's memory, by "to_device" and "to_host";
            empty where that is the same memory, or was not measured.
    """

    compute: Mapping[str, float]
    bandwidth: Mapping[str, float]
    latency: float = 0.0
    spread: Mapping[str, float] = field(default_factory=dict)
    method: Mapping[str, str] = field(default_factory=dict)
    device: str = ""
    created: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    transfers: Mapping[str, Transfer] = field(default_factory=dict)

    def __post_init__(self) -> None:
        if odd := sorted(set(self.transfers) - set(WAYS)):
            raise RecordError(f"transfers are {odd} ({TO_DEVICE!r} and {TO_HOST!r} are known)")
        rates = {**self.compute, **self.bandwidth}
        for name, value in rates.items():
            if not (math.isfinite(value) and value > 0):
                raise RecordError(f"roof {name} is {value!r} (a finite rate > 0 is needed)")
        if "dram" not in self.bandwidth:
            raise RecordError(
                f"roofs have bandwidth of {sorted(self.bandwidth)} ('dram' is needed)"
            )
        if not (math.isfinite(self.latency) and self.latency >= 0):
            raise RecordError(f"launch latency is {self.latency!r} (a finite time >= 0 is needed)")

    @property
    def dram(self) -> float:
        """Memory bandwidth [B/s]."""
        return self.bandwidth["dram"]

    def __str__(self) -> str:
        rates = [f"{k} {rate_text(v, 'FLOP/s')}" for k, v in self.compute.items()]
        levels = [f"{k} {rate_text(v, 'B/s')}" for k, v in self.bandwidth.items()]
        ways = [f"{k.replace('_', ' ')} {v}" for k, v in self.transfers.items()]
        return ", ".join([*rates, *levels, f"launch {time_text(self.latency)}", *ways])

    def to_json(self) -> dict[str, Any]:
        """Plain JSON data."""
        return {
            "compute": dict(self.compute),
            "bandwidth": dict(self.bandwidth),
            "latency": self.latency,
            "spread": dict(self.spread),
            "method": dict(self.method),
            "device": self.device,
            "created": self.created,
            "versions": dict(self.versions),
            "transfers": {
                way: {"bandwidth": t.bandwidth, "latency": t.latency}
                for way, t in self.transfers.items()
            },
        }

    def flat(self) -> dict[str, float]:
        """The numbers alone, as a record carries them: "float32/vector", "dram", "launch", and
        "to_device", "to_device_latency" where transfers were measured."""
        found = {**self.compute, **self.bandwidth, "launch": self.latency}
        for way, transfer in self.transfers.items():
            found |= {way: transfer.bandwidth, way + _LATENCY: transfer.latency}
        return found

    @classmethod
    def from_flat(cls, numbers: Mapping[str, float]) -> Roofs:
        """The inverse of `flat`.

        Raises:
            RecordError: a rate is not > 0, or "dram" is missing.
        """
        ways = [way for way in WAYS if way in numbers]
        others = {"launch", *WAYS, *(way + _LATENCY for way in WAYS)}
        rates = {k: v for k, v in numbers.items() if k not in others}
        return cls(
            compute={k: v for k, v in rates.items() if "/" in k},
            bandwidth={k: v for k, v in rates.items() if "/" not in k},
            latency=numbers.get("launch", 0.0),
            transfers={w: Transfer(numbers[w], numbers.get(w + _LATENCY, 0.0)) for w in ways},
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Roofs:
        """The inverse of `to_json`, on data that is not trusted.

        Raises:
            RecordError: a field is missing, unknown or of the wrong type, or a rate is not > 0.
        """
        plain.unknown(data, "roofs", frozenset(cls.__slots__))
        return cls(
            compute=plain.numbers(data, "compute"),
            bandwidth=plain.numbers(data, "bandwidth"),
            latency=plain.number(data.get("latency", 0.0), "latency"),
            spread=plain.numbers(data, "spread"),
            method=plain.texts(data, "method"),
            device=plain.text(data, "device", ""),
            created=plain.text(data, "created", ""),
            versions=plain.texts(data, "versions"),
            transfers={
                way: _transfer(plain.numbers({way: value}, way))
                for way, value in plain.mapping(data, "transfers").items()
            },
        )


def _transfer(numbers: Mapping[str, float]) -> Transfer:
    plain.unknown(numbers, "transfer", frozenset(Transfer.__slots__))
    return Transfer(numbers.get("bandwidth", 0.0), numbers.get("latency", 0.0))


def roof(cost: Cost, roofs: Roofs, level: str = "dram") -> SpeedOfLight:
    """T_roof = max over units(FLOPs / rate, bytes / bandwidth, launch latency), measured.

    Work in a dtype whose rate was not measured (directly or by a wider one) adds no bound.

    Args:
        cost: compulsory work.
        roofs: what the device reached.
        level: which bandwidth: "dram", or the cache level that holds a warm problem.
    """
    if level not in roofs.bandwidth:
        raise RecordError(f"no bandwidth of {level!r} measured; known: {sorted(roofs.bandwidth)}")
    spec = DeviceSpec("", "", "", "", "", roofs.compute, roofs.bandwidth[level])
    known = tuple(work for work in cost.work if _measured(spec, work.dtype, work.unit))
    found = speed_of_light(Cost(known, cost.bytes_read, cost.bytes_written), spec)
    if found.time >= roofs.latency:
        return found
    values = {name: getattr(found, name) for name in SpeedOfLight.__slots__}
    return SpeedOfLight(**{**values, "time": roofs.latency, "bound_by": "launch"})


def roof_time(cost: Cost, roofs: Roofs, level: str = "dram") -> float:
    """T_roof [s]; see `roof`."""
    return roof(cost, roofs, level).time


def _measured(spec: DeviceSpec, dtype: str, unit: str) -> bool:
    try:
        spec.way(dtype, unit)
    except DTypeError:
        return False
    return True


# --- scores of one time ------------------------------------------------------------------------


@dataclass(frozen=True, slots=True)
class Score:
    """A figure, or why there is none.

    Attributes:
        value: the figure; None unless the status is "ok" or "incorrect".
        status: "ok", "incorrect" (value 0), "bound_violated" or "invalid".
        reason: why it is not "ok".
    """

    value: float | None
    status: str = "ok"
    reason: str = ""


def sol_score(time: float, baseline: float, sol: float, *, correct: bool = True) -> Score:
    """S = (T_b - T_SOL) / (T_b + T - 2 T_SOL): 1 at the bound, 0.5 at the baseline, in (0, 1].

    An incorrect result scores 0. There is no score where a time is below the bound, or where the
    baseline is not above it.

    Args:
        time: measured [s].
        baseline: T_b, the best vendor-native time [s].
        sol: T_SOL [s].
        correct: whether the results were within the op's error bound.
    """
    if not correct:
        return Score(0.0, "incorrect", "the results are outside of the op's error bound")
    if why := _no_times(time=time, baseline=baseline):
        return Score(None, "invalid", why)
    if not (math.isfinite(sol) and sol >= 0):
        return Score(None, "invalid", f"sol is {sol!r} (a finite time >= 0 is needed)")
    if time < sol:
        return Score(None, "bound_violated", f"time {time:g} s is below T_SOL {sol:g} s")
    if baseline <= sol:
        return Score(
            None, "bound_violated", f"baseline {baseline:g} s is not above T_SOL {sol:g} s"
        )
    return Score((baseline - sol) / ((baseline - sol) + (time - sol)))


def fraction(bound: float, time: float) -> Score:
    """bound / time, in [0, 1]: the SOL fraction for T_SOL, the roof fraction for T_roof.

    This is the *architectural* efficiency.
    """
    if why := _no_times(time=time):
        return Score(None, "invalid", why)
    if not (math.isfinite(bound) and bound >= 0):
        return Score(None, "invalid", f"the bound is {bound!r} (a finite time >= 0 is needed)")
    if time < bound:
        return Score(None, "bound_violated", f"time {time:g} s is below the bound {bound:g} s")
    return Score(bound / time)


def headroom_reclaimed(time: float, baseline: float, sol: float) -> Score:
    """(T_b - T) / (T_b - T_SOL): share of what was left to gain; negative when slower than T_b."""
    score = sol_score(time, baseline, sol)
    if score.value is None:
        return score
    return Score((baseline - time) / (baseline - sol))


def mfu(flops: float, time: float, peak: float) -> Score:
    """Model FLOPs utilisation: FLOPs the model needs / time / peak [FLOP/s], in [0, 1]."""
    if not (math.isfinite(peak) and peak > 0):
        return Score(None, "invalid", f"the peak is {peak!r} (a finite rate > 0 is needed)")
    if not (math.isfinite(flops) and flops >= 0):
        return Score(None, "invalid", f"flops is {flops!r} (a finite count >= 0 is needed)")
    return fraction(flops / peak, time)


def _no_times(**times: float) -> str:
    for name, value in times.items():
        if not (math.isfinite(value) and value > 0):
            return f"{name} is {value!r} (a finite time > 0 is needed)"
    return ""


# --- comparing over platforms ------------------------------------------------------------------


def application_efficiencies(times: Mapping[str, float | None]) -> dict[str, float | None]:
    """Best time over own time, for implementations of one problem on one platform.

    A time that is None, NaN, infinite or not above zero means "did not run": it is no candidate
    for the best, and its efficiency is None. Goes stale when a faster result appears.
    """
    ran = {name: t for name, t in times.items() if t is not None and math.isfinite(t) and t > 0}
    best = min(ran.values(), default=math.inf)
    return {name: best / ran[name] if name in ran else None for name in times}


@dataclass(frozen=True, slots=True)
class Portability:
    """Performance portability of one application on one problem over declared platforms.

    Attributes:
        value: PP, the harmonic mean of the efficiencies; 0 when a platform is missing; None when
            there is no platform or an efficiency breaks its bound.
        coverage: share of the platforms it ran on.
        subset: harmonic mean over the platforms it ran on: not PP, and never called so.
        missing: platforms without a correct result.
        reason: why the value is 0 or None.
        efficiencies: as used, by platform.
    """

    value: float | None
    coverage: float
    subset: float | None
    missing: tuple[str, ...]
    reason: str
    efficiencies: Mapping[str, float]


def performance_portability(
    efficiencies: Mapping[str, float | None], platforms: Sequence[str]
) -> Portability:
    """PP = |H| / sum over i in H of 1 / e_i; 0 when one of H is not supported.

    Source: Pennycook, Sewall, Lee, "A Metric for Performance Portability" (2016).

    Args:
        efficiencies: e_i in [0, 1] by platform; None, NaN or 0 means "did not run correctly".
        platforms: H, declared beforehand. Platforms outside of it are not looked at.

    Raises:
        ValueError: a platform is declared twice.
    """
    if len(set(platforms)) != len(platforms):
        raise ValueError(f"platforms declared twice in {list(platforms)}")
    given = {p: efficiencies.get(p) for p in platforms}
    ran = {p: e for p, e in given.items() if e is not None and math.isfinite(e) and e > 0}
    missing = tuple(p for p in platforms if p not in ran)
    coverage = len(ran) / len(platforms) if platforms else 0.0
    broken = [p for p, e in given.items() if e is not None and (e < 0 or e > 1)]
    if not platforms or broken:
        reason = (
            f"efficiency outside of [0, 1] on {', '.join(broken)}" if broken else "no platforms"
        )
        return Portability(None, coverage, None, missing, reason, ran)
    subset = harmonic_mean(ran.values()) if ran else None
    if missing:
        return Portability(
            0.0, coverage, subset, missing, f"no correct result on {', '.join(missing)}", ran
        )
    return Portability(subset, coverage, subset, (), "", ran)


def portability_table(
    rows: Iterable[tuple[str, str, str, float | None]], platforms: Sequence[str]
) -> dict[tuple[str, str], Portability]:
    """PP by (application, problem) from rows (application, problem, platform, efficiency).

    Every problem has a PP of its own: efficiencies of different problems are never mixed. Of
    several rows for one cell the best counts.
    """
    cells: dict[tuple[str, str], dict[str, float | None]] = {}
    for application, problem, platform, efficiency in rows:
        found = cells.setdefault((application, problem), {})
        found[platform] = _better(found.get(platform), efficiency)
    return {cell: performance_portability(found, platforms) for cell, found in cells.items()}


def _better(a: float | None, b: float | None) -> float | None:
    known = [e for e in (a, b) if e is not None and math.isfinite(e)]
    return max(known, default=None)


def cascade(
    efficiencies: Mapping[str, float | None], platforms: Sequence[str]
) -> list[tuple[str, float, float]]:
    """(platform, efficiency, PP of it and all before), the most efficient platform first.

    The list ends where the next platform is not supported. Equal efficiencies keep H's order.
    """
    ran = performance_portability(efficiencies, platforms).efficiencies
    order = sorted(ran, key=lambda p: -ran[p])
    return [
        (platform, ran[platform], harmonic_mean(ran[p] for p in order[: i + 1]))
        for i, platform in enumerate(order)
    ]


def code_divergence(sources: Mapping[str, Collection[Any]]) -> float:
    """Mean over platform pairs of 1 - |A and B| / |A or B|, for the sets of lines each uses.

    0: one source for all. 1: nothing shared. Source: Harrell and Kitson, "Effective Performance
    Portability" (2018). Fewer than two platforms diverge by 0.
    """
    sets = [set(lines) for lines in sources.values()]
    pairs = [(a, b) for i, a in enumerate(sets) for b in sets[i + 1 :]]
    distances = [1 - len(a & b) / len(a | b) if a | b else 0.0 for a, b in pairs]
    return sum(distances) / len(distances) if distances else 0.0


def regret(chosen: float, best: float) -> float:
    """(t(chosen) - t(best)) / t(best); 0 when the choice was the best or beat it."""
    return max(0.0, (chosen - best) / best)
