"""The records of a cross-compile run: target, unit, what was built, what it means."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from portable.backend import Missing
from portable.device import DeviceSpec
from portable.op import Problem

KINDS = (
    "fails", "hang", "crash", "cannot-launch", "spill", "stack", "no-matrix-unit", "slow-path",
    "widened", "older-instruction", "low-occupancy", "narrow-loads", "wave-quantisation",
    "tile-quantisation", "below-ridge", "refused",
)  # fmt: skip
"""Kinds of findings, as `--fail-on` names them."""


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture to build for, and the device of the database it is judged by.

    Attributes:
        name: as in tables: the architecture.
        architecture: "sm_90", "gfx942".
        spec: the database's entry of the representative device.
    """

    name: str
    architecture: str
    spec: DeviceSpec


@dataclass(frozen=True, slots=True)
class Unit:
    """One launch of one config of one problem on one target.

    Attributes:
        backend, op: where the kernel is from.
        label: the problem in few words.
        kernel: name of the device function.
        config: tuning parameters.
        index: number of the launch in the config's plan.
        grid: blocks.
        source_hash: hash of source, signature, constants and options.
        problem: None for third-party kernels.
        extent, tile: result of a product and what one block computes of it; empty otherwise.
        factor: dtype of the factors of a product; "" otherwise.
        source: for third-party kernels, what `source.py` needs to build it.
    """

    backend: str
    op: str
    label: str
    kernel: str
    config: Mapping[str, Any] = field(default_factory=dict)
    index: int = 0
    grid: int = 0
    source_hash: str = ""
    problem: Problem | None = None
    extent: tuple[int, ...] = ()
    tile: tuple[int, ...] = ()
    factor: str = ""
    source: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Skipped:
    """What could not be tried. `str()` is one line: "triton: not installed".

    Attributes:
        backend: name.
        reason: in words, with what helps.
        target, op, label: what it is about; "" where it is about all of them.
    """

    backend: str
    reason: str
    target: str = ""
    op: str = ""
    label: str = ""

    @classmethod
    def missing(cls, backend: str, why: Missing) -> Skipped:
        """A backend whose compiler is not here."""
        return cls(backend, f"{why.reason}. {why.install}".strip())

    def __str__(self) -> str:
        about = " ".join(filter(None, (self.backend, self.op, self.label, self.target)))
        return f"{about}: {self.reason}"


@dataclass(frozen=True, slots=True)
class Built:
    """What came of building a unit.

    Attributes:
        status: "ok", "error" (the compiler refused), "hang", "crash", "oom" or "refused".
        message: the compiler's own words, one line; log: all of them.
        seconds: compile time [s], of the run that filled the cache if `cached`.
        registers: per thread (VGPRs on AMD); accumulators: AGPRs; scalars: SGPRs.
        spill_bytes: spill stores plus loads of a thread [B]; spills: registers spilled (AMD).
        stack: private (local) memory of a thread [B].
        shared: shared memory (LDS) of a block [B].
        threads: of a block.
        matrix: matrix instructions by name with their count in the text.
        loads: global load instructions by width [bit] with their count in the text.
        binary_size: [B].
        compiler: name and version.
        cached: read from the cache.
    """

    status: str
    message: str = ""
    log: str = ""
    seconds: float = 0.0
    registers: int = 0
    accumulators: int = 0
    scalars: int = 0
    spill_bytes: int = 0
    spills: int = 0
    stack: int = 0
    shared: int = 0
    threads: int = 0
    matrix: Mapping[str, int] = field(default_factory=dict)
    loads: Mapping[str, int] = field(default_factory=dict)
    binary_size: int = 0
    compiler: str = ""
    cached: bool = False

    @property
    def ok(self) -> bool:
        """Whether it builds."""
        return self.status == "ok"

    @property
    def spilled(self) -> bool:
        """Whether registers went to memory."""
        return self.spill_bytes > 0 or self.spills > 0

    @property
    def spill_text(self) -> str:
        """ "12 registers" where the compiler counts them, "48 B a thread" elsewhere; "none"."""
        if not self.spilled:
            return "none"
        return f"{self.spills} registers" if self.spills else f"{self.spill_bytes} B a thread"


@dataclass(frozen=True, slots=True)
class Finding:
    """One fact worth acting on.

    Attributes:
        kind: one of KINDS.
        cost: estimated factor by which it slows the kernel (1 = not at all); orders findings.
        text: plain words.
    """

    kind: str
    cost: float
    text: str


@dataclass(frozen=True, slots=True)
class Row:
    """A unit, its build and the static judgement.

    Attributes:
        occupancy: share of the wave slots in use, or None when it cannot be said.
        limited_by: what limits it.
        roof_share: estimated share of the roof a perfect schedule of this code could reach.
        findings: most costly first.
    """

    unit: Unit
    target: Target
    built: Built
    occupancy: float | None = None
    limited_by: tuple[str, ...] = ()
    roof_share: float | None = None
    findings: tuple[Finding, ...] = ()

    def to_json(self) -> dict[str, Any]:
        """Plain data; the device is named by its key."""
        from portable.records.problem_json import problem_to_json

        data = asdict(self)
        problem = self.unit.problem
        data["unit"]["problem"] = problem_to_json(problem) if problem else None
        data["target"] = {
            "name": self.target.name,
            "architecture": self.target.architecture,
            "hardware": self.target.spec.key,
        }
        return data
