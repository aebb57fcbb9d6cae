"""One measurement with its circumstances, and the key that decides whether it still holds."""

from __future__ import annotations

import datetime
import functools
import hashlib
import math
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from portable import plain
from portable.device import Device
from portable.errors import RecordError
from portable.op import Problem
from portable.plain import Scalar
from portable.records.problem_json import problem_from_json, problem_to_json
from portable.stats import median, relative_spread

FORMAT = 1
"""Version of the JSON form of a record."""

STATUSES = (
    "ok", "incorrect", "exception", "crash", "hang", "oom", "compile_error", "unsupported",
    "bound_violated", "skipped",
)  # fmt: skip
"""ok: correct and timed. incorrect: outside of the op's error bound. exception, crash, hang, oom,
compile_error: it failed so. unsupported: `why_not` refused. bound_violated: correct, but faster
than the speed of light, so a number behind the bound (or the timer) is wrong. skipped: untried."""

CACHES = ("cold", "warm")


@dataclass(frozen=True, slots=True)
class DeviceKey:
    """What a record says of its device.

    Attributes:
        id: where it was on its machine ("cuda:0"); no part of the key.
        name: what the driver calls it: the SKU, not only the architecture.
        hardware: key of its entry in the hardware database; "" when unknown.
        architecture: "sm_90", "gfx942", "zen5"; "" when not reported.
        units: compute units in use (a partition or a container has fewer).
        driver: driver or runtime version.
    """

    id: str
    name: str
    hardware: str = ""
    architecture: str = ""
    units: int = 0
    driver: str = ""

    @classmethod
    def of(cls, device: Device, hardware: str = "") -> DeviceKey:
        """The key of a device usable now.

        Array libraries do not know which processor they run on: for "cpu", its model and the
        cores that this process may use are taken from the system.
        """
        info = device.info
        if device.id == "cpu":
            name, architecture, units = _processor()
            return cls("cpu", name, hardware, architecture, units, info.driver)
        return cls(device.id, info.name, hardware, info.architecture, info.units, info.driver)

    def mismatch(self, now: DeviceKey) -> str | None:
        """Why this is not the device `now`, or None. `hardware` alone may be unknown to one."""
        for name in ("name", "architecture", "units", "driver"):
            mine, theirs = getattr(self, name), getattr(now, name)
            if mine != theirs:
                return f"device {name} is {mine!r} (now {theirs!r})"
        return None


@functools.cache
def _processor() -> tuple[str, str, int]:
    from portable.hwdb import detect

    info = detect.cpu_info()
    allowed = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else info.units
    return info.name, info.architecture, min(info.units, allowed) or allowed


@dataclass(frozen=True, slots=True)
class Key:
    """Everything a record depends on. Empty fields of a key that is looked for match anything.

    Attributes:
        problem: op, contract version, shapes, dtypes, strides, parameters, precision.
        device: the device and its driver.
        backend, runtime, implementation: what ran; the implementation is a module name.
        config: its tuning parameters; None matches any.
        versions: of libraries, compilers and drivers; all named ones must be equal.
        source_hash: of the implementation's sources.
        cache: "cold" or "warm".
        method: name of the timing method.
    """

    problem: Problem
    device: DeviceKey | None = None
    backend: str = ""
    runtime: str = ""
    implementation: str = ""
    config: Mapping[str, Scalar] | None = None
    versions: Mapping[str, str] = field(default_factory=dict)
    source_hash: str = ""
    cache: str = ""
    method: str = ""


@dataclass(frozen=True, slots=True)
class Record:
    """One implementation measured on one problem and device, or the way it failed.

    Attributes:
        problem: what was computed.
        backend, runtime, implementation: who computed it; the implementation is a module name.
        device: on what.
        config: tuning parameters.
        versions: of library, compiler, driver and portable.
        source_hash: hash of the implementation's sources.
        cache: "cold" (inputs beyond the last-level cache) or "warm".
        method: how it was timed: "wall", "event", ...
        samples: [s] per call, in the order taken; empty unless timed.
        status: one of STATUSES.
        reason: why the status is not "ok".
        machine: fingerprint of the machine.
        created: UTC, ISO 8601.
        roofs: the calibrated roofs of that time (`roofline.Roofs.flat()`): with them a report
            can be recomputed from the record file alone.
        details: anything else worth keeping ("compile_time", "copy_time", "clock").
    """

    problem: Problem
    backend: str
    implementation: str
    device: DeviceKey
    runtime: str = ""
    config: Mapping[str, Scalar] = field(default_factory=dict)
    versions: Mapping[str, str] = field(default_factory=dict)
    source_hash: str = ""
    cache: str = "warm"
    method: str = "wall"
    samples: tuple[float, ...] = ()
    status: str = "ok"
    reason: str = ""
    machine: str = ""
    created: str = field(default_factory=lambda: utc_now())
    roofs: Mapping[str, Any] = field(default_factory=dict)
    details: Mapping[str, Scalar] = field(default_factory=dict)

    def __post_init__(self) -> None:
        plain.one_of(self.status, "status", STATUSES)
        plain.one_of(self.cache, "cache", CACHES)
        if self.status == "ok" and not self.samples:
            raise RecordError("a record with status 'ok' needs samples")
        for sample in self.samples:
            if not (math.isfinite(sample) and sample >= 0):
                raise RecordError(f"sample {sample!r} (a finite time >= 0 in seconds is needed)")

    @property
    def ok(self) -> bool:
        """Whether it is a time to rely on."""
        return self.status == "ok"

    @property
    def time(self) -> float:
        """Median of the samples [s]; infinite when there are none."""
        return median(self.samples) if self.samples else math.inf

    @property
    def spread(self) -> float:
        """Relative noise: half the interquartile range over the median; 0 for one sample."""
        return relative_spread(self.samples)

    @property
    def key(self) -> Key:
        """What the record depends on."""
        return Key(
            self.problem, self.device, self.backend, self.runtime, self.implementation,
            self.config, self.versions, self.source_hash, self.cache, self.method,
        )  # fmt: skip

    @property
    def digest(self) -> str:
        """SHA-256 of the canonical JSON: equal records have equal digests."""
        return hashlib.sha256(plain.dump(self.to_json()).encode()).hexdigest()

    def mismatch(self, key: Key) -> str | None:
        """Why the record says nothing about `key`, or None when it matches.

        The version of `portable` itself is kept but not compared: contract version, source hash
        and method stand for what matters in it.
        """
        for name in ("backend", "runtime", "implementation", "cache", "method"):
            mine, wanted = getattr(self, name), getattr(key, name)
            if wanted and mine != wanted:
                return f"{name} is {mine!r} (now {wanted!r})"
        if key.device is not None and (why := self.device.mismatch(key.device)):
            return why
        if why := _problem_mismatch(self.problem, key.problem):
            return why
        if key.config is not None and dict(self.config) != dict(key.config):
            return f"config is {dict(self.config)} (now {dict(key.config)})"
        if key.source_hash and self.source_hash != key.source_hash:
            return "the implementation's source has changed since"
        for name, version in key.versions.items():
            if name != "portable" and self.versions.get(name) != version:
                return f"{name} was {self.versions.get(name, 'unknown')} (now {version})"
        return None

    def to_json(self) -> dict[str, Any]:
        """The record as plain JSON data."""
        device = self.device
        return {
            "format": FORMAT,
            "problem": problem_to_json(self.problem),
            "backend": self.backend,
            "runtime": self.runtime,
            "implementation": self.implementation,
            "config": dict(self.config),
            "device": {name: getattr(device, name) for name in DeviceKey.__slots__},
            "versions": dict(self.versions),
            "source_hash": self.source_hash,
            "cache": self.cache,
            "method": self.method,
            "samples": list(self.samples),
            "status": self.status,
            "reason": self.reason,
            "machine": self.machine,
            "created": self.created,
            "roofs": dict(self.roofs),
            "details": dict(self.details),
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """The inverse of `to_json`, on data that is not trusted.

        Raises:
            RecordError: a field is missing, unknown, of the wrong type or too large.
        """
        plain.unknown(data, "record", _RECORD_FIELDS)
        version = plain.integer(data, "format", FORMAT)
        if version > FORMAT:
            raise RecordError(f"format is {version} (this version of portable reads {FORMAT})")
        device = plain.mapping(data, "device")
        plain.unknown(device, "device", frozenset(DeviceKey.__slots__))
        samples = plain.sequence(data, "samples", plain.MAX_SAMPLES)
        return cls(
            problem=problem_from_json(plain.mapping(data, "problem")),
            backend=plain.text(data, "backend"),
            runtime=plain.text(data, "runtime", ""),
            implementation=plain.text(data, "implementation"),
            config=plain.scalars(data, "config"),
            device=DeviceKey(
                **{n: plain.text(device, n, "") for n in ("hardware", "architecture", "driver")},
                id=plain.text(device, "id"),
                name=plain.text(device, "name"),
                units=plain.integer(device, "units", 0),
            ),
            versions=plain.texts(data, "versions"),
            source_hash=plain.text(data, "source_hash", ""),
            cache=plain.text(data, "cache", "warm"),
            method=plain.text(data, "method", "wall"),
            samples=tuple(plain.number(sample, "sample") for sample in samples),
            status=plain.text(data, "status", "ok"),
            reason=plain.text(data, "reason", ""),
            machine=plain.text(data, "machine", ""),
            created=_timestamp(plain.text(data, "created")),
            roofs=plain.nested(data, "roofs"),
            details=plain.scalars(data, "details"),
        )


_RECORD_FIELDS = frozenset(Record.__slots__) | {"format"}


def utc_now() -> str:
    """Now, as ISO 8601 in UTC with seconds."""
    return datetime.datetime.now(datetime.UTC).isoformat(timespec="seconds")


def _timestamp(value: str) -> str:
    try:
        datetime.datetime.fromisoformat(value)
    except ValueError:
        raise RecordError(f"created is {value!r} (an ISO 8601 time is needed)") from None
    return value


def _problem_mismatch(mine: Problem, now: Problem) -> str | None:
    if mine == now:
        return None
    if mine.op != now.op:
        return f"op is {mine.op!r} (now {now.op!r})"
    if mine.version != now.version:
        return f"contract version of {mine.op} is {mine.version} (now {now.version})"
    if mine.precision != now.precision:
        return f"precision is {mine.precision!r} (now {now.precision!r})"
    return f"problem is {mine} (now {now})"
