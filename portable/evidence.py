"""Evidence for estimates: records of this machine, and measured priors shipped with the package."""

from __future__ import annotations

import functools
import json
import math
from importlib import resources
from typing import TYPE_CHECKING, Any

from portable import estimate, machine, registry
from portable.backend import Backend, Config
from portable.op import Problem

if TYPE_CHECKING:
    from portable.records import Record

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
    shipped = [(r, KIN_DISTANCE, f"prior: {r.device_name}") for r in priors(op)]
    return local + shipped


def _local(op: str) -> list[Record]:
    from portable import records

    known = registry.registered()
    found = []
    for record in records.store().records(op=op):
        entry = known.get(record.backend)
        if record.status != "ok" or entry is None or entry.backend is None or not entry.usable:
            continue
        if record.fingerprint == _fingerprint(record.device) and _current(record, entry.backend):
            found.append(record)
    return found


def _fingerprint(device: str) -> str:
    return machine.fingerprint(device) if device in machine.devices() else ""


def _current(record: Record, backend: Backend) -> bool:
    """Whether the record was made by the versions and the op contract in use now."""
    if record.problem.version != registry.op(record.problem.op).version:
        return False
    return dict(record.versions) == dict(versions(backend.name))


@functools.cache
def versions(backend: str) -> dict[str, str]:
    """Versions that a backend's records depend on."""
    return dict(registry.backend(backend).versions())


@functools.cache
def priors(op: str) -> tuple[Record, ...]:
    """Records measured on named machines and shipped with the package (`portable/hwdb/priors`)."""
    from portable import records

    folder = resources.files("portable.hwdb") / "priors"
    if not folder.is_dir():
        return ()
    found: list[Any] = []
    for machine_folder in sorted(folder.iterdir(), key=lambda p: p.name):
        file = machine_folder / f"{op}.jsonl"
        if file.is_file():
            lines = file.read_text(encoding="utf-8").splitlines()
            found += [records.Record.from_json(json.loads(line)) for line in lines if line]
    return tuple(found)


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
    if record.roofs is not None:
        return roofline.roof_time(cost, record.roofs)
    if record.device in machine.devices():
        return machine.device(record.device).model_time(cost)
    return 0.0


def forget() -> None:
    """New records, other backends: read the evidence again."""
    _all_points.cache_clear()
    versions.cache_clear()
