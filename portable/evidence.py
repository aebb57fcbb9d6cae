"""Evidence for estimates: records of this machine, and measured priors shipped with the package."""

from __future__ import annotations

import functools
import json
import math
import warnings
from dataclasses import dataclass, replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING, Any

from portable import estimate, machine, registry, roofline
from portable.backend import Config, Implementation
from portable.errors import PluginError, RecordError
from portable.op import Cost, Problem
from portable.text import time_text

if TYPE_CHECKING:
    from portable.arrays import Move, Route
    from portable.records import Key, Record

STALE_DISTANCE, SAME_KIND_DISTANCE, KIN_DISTANCE = 0.7, 1.0, 2.0
"""How much farther, in factors of two of shape, a record counts that is of other versions or
sources here; of another machine with the same processor; of any other machine."""

TWO_SPEEDS, ENOUGH = 2.0, 3
"""How many times the fastest record the usual one must take for there to be two speeds; samples of
a record that can tell."""

LEVEL_SHRINKAGE = 4.0
"""Local records that the common offset of an op needs before it counts half."""


@dataclass(frozen=True, slots=True)
class Known:
    """What is known of one candidate on one op: surfaces by config (as JSON), for one dtype.

    Attributes:
        configs: evidence by config.
        pooled: of all configs together, for a config nobody measured.
        others: of its other dtypes.
    """

    configs: dict[str, estimate.Surface]
    pooled: estimate.Surface
    others: estimate.Surface


def known(op: str, backend: str, runtime: str, dtype: str) -> Known:
    """Evidence of one candidate: this machine's records, stale ones, then other machines'."""
    found = _known(op)
    return found.get((backend, runtime, dtype)) or _nothing(op, backend, runtime)


@functools.lru_cache(maxsize=64)
def _known(op: str) -> dict[tuple[str, str, str], Known]:
    groups = _all_points(op)
    offset = _common_offset(groups)
    found = {}
    for (backend, runtime, dtype), group in groups.items():
        pooled = [p for points in group.values() for p in points]
        found[backend, runtime, dtype] = Known(
            {config: estimate.Surface(points, offset) for config, points in group.items()},
            estimate.Surface(pooled, offset),
            estimate.Surface(()),
        )
    return found


@functools.lru_cache(maxsize=256)
def _nothing(op: str, backend: str, runtime: str) -> Known:
    """For a dtype without evidence: what the candidate does with others."""
    points = [
        p
        for (b, r, _), group in _all_points(op).items()
        if (b, r) == (backend, runtime)
        for own in group.values()
        for p in own
    ]
    return Known({}, estimate.Surface(()), estimate.Surface(points))


def _common_offset(groups: dict[tuple[str, str, str], Group]) -> float:
    """log2 by which local records differ from what kin says of them, over all candidates."""
    surfaces = [estimate.Surface(points) for group in groups.values() for points in group.values()]
    own = [
        (p.trust, residual)
        for surface in surfaces
        for p, residual in zip(surface.local, surface.residuals, strict=False)
    ]
    return sum(t * r for t, r in own) / (sum(t for t, _ in own) + LEVEL_SHRINKAGE)


Group = dict[str, list[estimate.Point]]
"""Config (as JSON) -> its points."""


@functools.lru_cache(maxsize=64)
def _all_points(op: str) -> dict[tuple[str, str, str], Group]:
    """Points by (backend, runtime, dtype) and config, one per problem."""
    found: dict[tuple[str, str, str], dict[str, dict[Problem, list[estimate.Point]]]] = {}
    for record, distance, source in _evidence(op):
        new = point(record, distance, source)
        if new is None:
            continue
        key = (record.backend, record.runtime, record.problem.dtype)
        group = found.setdefault(key, {}).setdefault(config_key(record.config), {})
        group.setdefault(new.problem, []).append(new)
    return {
        key: {config: [joined(p) for p in by.values()] for config, by in group.items()}
        for key, group in found.items()
    }


def joined(points: list[estimate.Point]) -> estimate.Point:
    """Of several points of a problem the fastest of those that count nearest.

    Where that is far from what they mostly say, as of a library whose large results take fresh
    pages or used ones, by chance, it has two speeds here and nothing tells which one a call gets:
    the geometric mean of both counts.
    """
    nearest = min(p.distance for p in points)
    near = [p for p in points if p.distance == nearest]
    best = min(near, key=lambda p: p.time)
    times = sorted(p.time for p in near if p is best or p.samples >= ENOUGH)
    usual = times[len(times) // 2]
    if usual < TWO_SPEEDS * best.time:
        return best
    time = math.sqrt(best.time * usual)
    both = f"{best.source}, at two speeds: {time_text(best.time)} and {time_text(usual)}"
    slower = math.log2(time / best.time)
    return replace(best, time=time, slowdown=best.slowdown + slower, source=both)


def config_key(config: Config) -> str:
    """A config as text that compares equal for equal configs."""
    return json.dumps(dict(config), sort_keys=True)


def _evidence(op: str) -> list[tuple[Record, float, str]]:
    from portable import records

    found = [_placed(r) for r in records.default_store().records(op=op) if r.ok]
    return found + [(r, _machine_distance(r), f"prior: {_machine_name(r)}") for r in priors(op)]


def _placed(record: Record) -> tuple[Record, float, str]:
    """A stored record with how far away it counts, and its source in words."""
    day, stale = record.created[:10], why_stale(record)
    if stale is None:
        return record, 0.0, f"measured here {day}"
    if record.device.name == machine.device_name(record.device.id):
        return record, STALE_DISTANCE, f"measured here {day}, stale: {stale}"
    return record, _machine_distance(record), f"{_machine_name(record)}, {day}"


def _machine_name(record: Record) -> str:
    return f"{record.device.name}, {record.device.units} units"


def _machine_distance(record: Record) -> float:
    """How far away the machine of a foreign record is."""
    here = machine.devices().get(record.device.id)
    same = here is not None and here.spec is not None and here.spec.key == record.device.hardware
    return SAME_KIND_DISTANCE if same else KIN_DISTANCE


def why_stale(record: Record) -> str | None:
    """Why a record says nothing about this machine as it is now, or None when it holds."""
    key = _key_now(record.problem.op, record.backend, record.runtime, record.device.id)
    if isinstance(key, str):
        return key
    contract = registry.op(record.problem.op).version
    problem = replace(record.problem, version=contract)
    return record.mismatch(replace(key, problem=problem))


@functools.cache
def _key_now(op: str, backend: str, runtime: str, device: str) -> Key | str:
    """What a record must match to be evidence (but for its problem), or why none can."""
    from portable import records

    entry = registry.registered().get(backend)
    if entry is None or not entry.usable or entry.backend is None:
        return f"backend {backend!r} is not usable here"
    found = [d for d in entry.backend.devices() if (d.id, d.runtime) == (device, runtime)]
    if not found:
        return f"{backend} drives no device {device} by {runtime or 'its'} runtime here"
    try:
        implementation = registry.implementation(entry, op)
    except PluginError as error:
        return str(error)
    if implementation is None:
        return f"backend {backend!r} has no {op} now"
    return records.Key(
        _ANY_PROBLEM,
        device=records.DeviceKey.of(found[0]),
        backend=backend,
        runtime=runtime,
        versions=versions(backend),
        source_hash=records.source_hash(implementation),
    )


_ANY_PROBLEM = Problem("", 0, (), (), (), ())


@functools.cache
def versions(backend: str) -> dict[str, str]:
    """Versions that a backend's records depend on."""
    return dict(registry.backend(backend).versions())


@functools.cache
def priors(op: str) -> tuple[Record, ...]:
    """Records measured on named machines: shipped with the package (`portable/hwdb/priors`), and
    those that usable plugins bring for themselves (`Backend.priors`)."""
    found = _records_of(resources.files("portable.hwdb") / "priors", op)
    for entry in registry.usable():
        folder = getattr(entry.backend, "priors", lambda: None)()
        if folder is not None:
            found += _of_plugin(entry, folder, op)
    return tuple(found)


def _of_plugin(entry: registry.Registered, folder: Traversable, op: str) -> list[Record]:
    """A plugin speaks for itself only; what it ships broken is left out with a warning."""
    try:
        records = _records_of(folder, op)
        foreign = sorted({r.backend for r in records} - {entry.name})
        if foreign:
            raise RecordError(f"records of other backends: {', '.join(foreign)}")
    except Exception as error:
        warnings.warn(
            f"priors of {op} of backend {entry.name!r} ({entry.origin}) are left out: {error}",
            RuntimeWarning,
            stacklevel=2,
        )
        return []
    return records


def _records_of(folder: Traversable, op: str) -> list[Record]:
    """Records of `folder/MACHINE/OP.jsonl`; the roofs are those of `machine.json` beside them,
    measured once, where a record has none of its own."""
    from portable import records

    found: list[Record] = []
    for machine_folder in sorted(folder.iterdir() if folder.is_dir() else (), key=lambda p: p.name):
        file = machine_folder / f"{op}.jsonl"
        if machine_folder.is_dir() and file.is_file():
            roofs = _about(machine_folder).get("roofs", {})
            lines = file.read_text(encoding="utf-8").splitlines()
            own = [records.Record.from_json(json.loads(line)) for line in lines if line]
            found += [r if r.roofs else replace(r, roofs=roofs) for r in own]
    return found


def _about(machine_folder: Traversable) -> dict[str, Any]:
    file = machine_folder / "machine.json"
    return json.loads(file.read_text(encoding="utf-8")) if file.is_file() else {}


def model_time(device: str, cost: Cost) -> float:
    """Roofline time [s] here: measured roofs, else those of a prior machine with this processor
    and as many cores, else the datasheet."""
    physical = machine.device(device)
    roofs = None if physical.roofs is not None else _roofs_of_kin(device)
    return physical.model_time(cost) if roofs is None else roofline.roof_time(cost, roofs)


@functools.cache
def _roofs_of_kin(device: str) -> roofline.Roofs | None:
    physical, folder = machine.device(device), resources.files("portable.hwdb") / "priors"
    if physical.spec is None or not folder.is_dir():
        return None
    wanted = (physical.spec.key, physical.info.units)
    for about in (_about(f) for f in folder.iterdir() if f.is_dir()):
        if (about.get("hardware"), about.get("units")) == wanted and about.get("roofs"):
            return roofline.Roofs.from_flat(about["roofs"])
    return None


def point(record: Record, distance: float, source: str) -> estimate.Point | None:
    """A record as evidence; None when it was not timed, or nothing is known of its machine."""
    problem = record.problem
    model = _model_time(record, problem)
    # What disturbs a machine only ever adds time, and hits candidates with more threads harder:
    # the fastest sample says more about the next call than the median does on a busy machine.
    time = min(record.samples, default=0.0)
    if not time or not model:
        return None
    return estimate.Point(
        estimate.features(problem),
        estimate.traits(problem),
        math.log2(time / model),
        distance,
        source,
        problem,
        time,
        record.spread,
        len(record.samples),
    )


def _model_time(record: Record, problem: Problem) -> float:
    """Roofline time on the machine of the measurement: its roofs travel with the record."""
    cost = registry.op(problem.op).cost(problem)
    if record.roofs:
        return roofline.roof_time(cost, roofline.Roofs.from_flat(record.roofs))
    if record.device.name == machine.device_name(record.device.id):
        return model_time(record.device.id, cost)
    return 0.0  # nothing is known of the machine's roofs: no evidence


@functools.cache
def _conversions() -> dict[str, float]:
    """Fixed price [s] of taking one array from a family to another: measured here, else shipped."""
    from portable import records

    here = records.default_store().fact("conversions", machine.fingerprint("cpu"))
    if isinstance(here, dict):
        return here
    file = resources.files("portable.hwdb") / "priors" / "conversions.json"
    if not file.is_file():
        return {}
    return dict(json.loads(file.read_text(encoding="utf-8"))["seconds"])


def conversion_time(family: str, route: Route, arrays: int) -> float:
    """Extra time [s] over a call with NumPy arrays, which records are made with.

    A move between host and device costs the transfers that `portable calibrate` measured; other
    copies, and moves that nobody measured, what reading and writing memory does.
    """
    known = _conversions()

    def price(source: str) -> float:
        fixed = 0.0 if source == route.native else known.get(f"{source}>{route.native}", 5e-6)
        return arrays * fixed

    moved = move_time(route.move) if route.move is not None else None
    if moved is None:
        moved = 2 * route.copied_bytes / machine.model_bandwidth()
    return price(family) - price("numpy") + moved


def move_time(move: Move) -> float | None:
    """Measured time [s] of moving operands to another device and results back, by way of the host;
    None where a transfer on the way was not measured."""
    total = 0.0
    for source, target, sizes in (
        (move.source, move.target, move.taken),
        (move.target, move.source, move.given),
    ):
        for device, way in ((source, roofline.TO_HOST), (target, roofline.TO_DEVICE)):
            if device == "cpu":
                continue
            roofs = machine.measured_roofs(device) if device in machine.devices() else None
            transfer = roofs.transfers.get(way) if roofs is not None else None
            if transfer is None:
                return None
            total += sum(map(transfer.time, sizes))
    return total


def source_hash(implementation: Implementation | None) -> str:
    """Hash of an implementation's sources."""
    from portable import records

    return records.source_hash(implementation)


def forget_records() -> None:
    """New records: read the evidence again."""
    for cached in (_known, _nothing, _all_points):
        cached.cache_clear()


def forget() -> None:
    """Other records, backends, roofs or prices: read everything again."""
    forget_records()
    for cached in (versions, _key_now, _conversions, _roofs_of_kin, priors):
        cached.cache_clear()
