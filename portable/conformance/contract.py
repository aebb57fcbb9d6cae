"""Does a backend keep the protocol of `portable.backend`, before anything is run?"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from portable import registry
from portable.backend import API_VERSION, PATHS, Backend
from portable.conformance.result import FAILED, PASSED, Outcome
from portable.device import Device


@dataclass(frozen=True, slots=True)
class Contract:
    """The backend's own attributes."""

    backend: Backend

    name = "contract"
    level = "core"

    def run(self) -> Outcome:
        """One outcome for the whole backend."""
        wrong = tuple(_violations(self.backend))
        return Outcome(
            "-", self.name, "-", self.backend.name, FAILED if wrong else PASSED,
            "contract" if wrong else "", wrong, self.level,
        )  # fmt: skip


def _violations(backend: Backend) -> Iterator[str]:
    if backend.path not in PATHS:
        yield f"path is {backend.path!r} (one of {', '.join(PATHS)})"
    if backend.api_version != API_VERSION:
        yield f"api_version is {backend.api_version} (this portable has {API_VERSION})"
    known = registry.families()
    unknown = [f for f in backend.families if f not in known]
    if unknown or not backend.families:
        yield f"families are {backend.families!r} (known here: {', '.join(sorted(known))})"
    devices = list(backend.devices())
    if not devices:
        yield "devices() is empty: why_missing() must say why"
    if not all(isinstance(d, Device) and d.id for d in devices):
        yield "devices() holds something that is no portable.device.Device with an id"
    twice = {(d.id, d.runtime) for d in devices}
    if len(twice) != len(devices):
        yield "devices() lists one (id, runtime) twice"
    if not all(isinstance(v, str) and v for v in backend.versions().values()):
        yield "versions() must map names to version strings"
    ops = list(backend.ops())
    if not ops:
        yield "ops() is empty"
    if unknown_ops := sorted(set(ops) - set(registry.op_names())):
        yield f"ops() lists {', '.join(unknown_ops)}: no such op of portable"
