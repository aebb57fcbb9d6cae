"""A record of a candidate with its circumstances: what any measurement or failure is filed with."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from portable import evidence, machine, registry
from portable._about import VERSION
from portable.backend import trait
from portable.op import Problem
from portable.records import DeviceKey, Record, source_hash
from portable.records import machine as machine_id

if TYPE_CHECKING:
    from portable.selector import Candidate


def blank(problem: Problem, candidate: Candidate, status: str, reason: str = "") -> Record:
    """A record without samples; a candidate that could not even be imported has no circumstances
    but the machine."""
    implementation = candidate.implementation
    if implementation is None or candidate.broken:
        return Record(
            problem=problem,
            backend=candidate.backend,
            implementation="",
            device=DeviceKey.of(candidate.device, ""),
            runtime=candidate.device.runtime,
            versions={"portable": VERSION},
            status=status,
            reason=reason[:2000],
            machine=machine_id(),
        )
    physical = machine.device(candidate.device.id)
    roofs = physical.roofs
    return Record(
        problem=problem,
        backend=candidate.backend,
        implementation=getattr(implementation, "__name__", type(implementation).__name__),
        device=DeviceKey.of(candidate.device, physical.spec.key if physical.spec else ""),
        runtime=candidate.device.runtime,
        config=dict(candidate.config),
        versions={**evidence.versions(candidate.backend), "portable": VERSION},
        source_hash=source_hash(implementation),
        status=status,
        reason=reason[:2000],
        machine=machine_id(),
        roofs=roofs.flat() if roofs is not None else {},
        details=_about(candidate),
    )


def _about(candidate: Candidate) -> dict[str, Any]:
    """What a report needs that another machine cannot know: the porting path, the clock seen."""
    path = registry.backend(candidate.backend).path
    if candidate.implementation is not None:
        path = trait(candidate.implementation, "PATH", path)
    return {"path": path, "device_clock": machine.device(candidate.device.id).info.clock}
