"""Evidence for estimates: records of this machine, and measured priors shipped with the package."""

from __future__ import annotations

import functools
import json
import math
import warnings
from dataclasses import replace
from importlib import resources
from importlib.resources.abc import Traversable
from typing import TYPE_CHECKING

from portable import estimate, machine, registry
from portable.backend import Config, Implementation
from portable.errors import PluginError, RecordError
from portable.op import Problem

if TYPE_CHECKING:
    from portable.arrays import Route
    from portable.records import Key, Record

KIN_DISTANCE = 2.0
"""Distance, in factors of two of shape, that a record of another machine counts as farther."""

Group = dict[str, list[estimate.Point]]
"""Config (as JSON) -> its points."""


def points(op: str, backend: str, runtime: str, dtype: str) -> Group:
    """Points of one candidate by config: this machine's records, then the priors."""
    return _all_points(op).get((backend, runtime, dtype), {})


@functools.lru_cache(maxsize=64)
def _all_points(op: str) -> dict[tuple[str, str, str], Group]:
    found: dict[tuple[str, str, str], Group] = {}
    for record, distance, source in _evidence(op):
        point = _point(record, distance, source)
        if point is None:
            continue
        key = (record.backend, record.runtime, record.problem.dtype)
        found.setdefault(key, {}).setdefault(config_key(record.config), []).append(point)
    return found


def config_key(config: Config) -> str:
    """A config as text that compares equal for equal configs."""
    return json.dumps(dict(config), sort_keys=True)


def _evidence(op: str) -> list[tuple[Record, float, str]]:
    local = [(r, 0.0, f"measured here {r.created[:10]}") for r in _local(op)]
    kin = [(r, f"prior: {r.device.name}, {r.device.units} units") for r in priors(op)]
    return local + [(r, KIN_DISTANCE, source) for r, source in kin]


def _local(op: str) -> list[Record]:
    from portable import records

    return [r for r in records.default_store().records(op=op) if r.ok and why_stale(r) is None]


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
    """Records of `folder/MACHINE/OP.jsonl`, machine by machine."""
    from portable import records

    found: list[Record] = []
    for machine_folder in sorted(folder.iterdir() if folder.is_dir() else (), key=lambda p: p.name):
        file = machine_folder / f"{op}.jsonl"
        if machine_folder.is_dir() and file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines()
            found += [records.Record.from_json(json.loads(line)) for line in lines if line]
    return found


def _point(record: Record, distance: float, source: str) -> estimate.Point | None:
    problem = record.problem
    model = _model_time(record, problem)
    if not record.time or not model:
        return None
    return estimate.Point(
        estimate.features(problem),
        estimate.traits(problem),
        math.log2(record.time / model),
        distance,
        source,
        problem,
        record.time,
        record.spread,
    )


def _model_time(record: Record, problem: Problem) -> float:
    """Roofline time on the machine of the measurement: its roofs travel with the record."""
    from portable import roofline

    cost = registry.op(problem.op).cost(problem)
    if record.roofs:
        return roofline.roof_time(cost, roofline.Roofs.from_flat(record.roofs))
    if record.device.id in machine.devices():
        return machine.device(record.device.id).model_time(cost)
    return 0.0


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
    """Extra time [s] over a call with NumPy arrays, which records are made with."""
    known = _conversions()

    def price(source: str) -> float:
        fixed = 0.0 if source == route.native else known.get(f"{source}>{route.native}", 5e-6)
        return arrays * fixed

    bandwidth = machine.model_bandwidth()
    return price(family) - price("numpy") + 2 * route.copied_bytes / bandwidth


def source_hash(implementation: Implementation | None) -> str:
    """Hash of an implementation's sources."""
    from portable import records

    return records.source_hash(implementation)


def forget() -> None:
    """New records, other backends: read the evidence again."""
    for cached in (_all_points, versions, _key_now, _conversions, priors):
        cached.cache_clear()
