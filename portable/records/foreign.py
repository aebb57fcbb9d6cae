"""What other tools' files do not say of a measurement, given by the person who imports them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from portable.op import Problem, TensorSpec
from portable.records.record import DeviceKey

UNITS = {"s": 1.0, "ms": 1e-3, "us": 1e-6, "ns": 1e-9}
"""Names of time units with their length [s]."""


@dataclass(frozen=True, slots=True)
class Context:
    """Circumstances of imported measurements.

    Attributes:
        problem: what was computed; None takes the file's own words as the name of a problem.
        device: on what, as the driver names it; "" takes the file's words.
        backend: how.
        implementation: which program.
        versions: of libraries and compilers.
        unit: of times that the file gives without one.
    """

    problem: Problem | None = None
    device: str = ""
    backend: str = "imported"
    implementation: str = ""
    versions: Mapping[str, str] = field(default_factory=dict)
    unit: str = "s"

    def device_key(self, name: str = "") -> DeviceKey:
        """The device as far as it is known."""
        return DeviceKey("imported", self.device or name or "unknown device")


def named_problem(tool: str, name: str) -> Problem:
    """A problem of which only the name is known: op "<tool>", no sizes. It matches no call."""
    spec = TensorSpec((), "float32")
    return Problem(tool, 0, ("unknown",), (spec,), (("name", name),), (spec,))
