"""What a problem runs on: what the driver says, what the database says, and the two together."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from portable.errors import DTypeError


@dataclass(frozen=True, slots=True)
class DeviceInfo:
    """What a driver or the operating system says of one device: the input of `hwdb.find`.

    Attributes:
        name: the string the runtime reports ("NVIDIA H200", "AMD EPYC").
        vendor: vendor as reported; may be empty.
        kind: "cpu", "gpu" or "accelerator".
        architecture: "sm_90", "gfx942", "zen5"; empty when not reported.
        pci_id: "1002:74a1" (vendor:device, hex, lower case); empty when not reported.
        units: compute units seen at run time (SMs, CUs, physical cores); 0 when not reported.
        clock: highest compute clock [Hz]; 0.0 when not reported.
        memory_size: bytes; 0 when not reported.
        driver: driver or runtime version.
        features: instruction sets and extensions, lower case ("avx512f", "cl_khr_fp16").
        caches: bytes by level ("l1d", "l2", "l3"), as one compute unit sees them, except a
            shared last level, which is whole.
        extra: anything else worth keeping, as strings.
    """

    name: str
    vendor: str = ""
    kind: str = "gpu"
    architecture: str = ""
    pci_id: str = ""
    units: int = 0
    clock: float = 0.0
    memory_size: int = 0
    driver: str = ""
    features: frozenset[str] = frozenset()
    caches: Mapping[str, int] = field(default_factory=dict)
    extra: Mapping[str, str] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class DeviceSpec:
    """Facts of one kind of device, from the hardware database.

    Attributes:
        key: name of the entry ("nvidia-h200-sxm").
        name: name for people.
        vendor: maker.
        kind: "cpu", "gpu" or "accelerator".
        architecture: "sm_90", "gfx942", "zen5".
        peaks: dense peak [FLOP/s, OP/s] by "dtype/unit": "bfloat16/matrix", "float32/vector".
        bandwidth: peak memory bandwidth [B/s], decimal.
        memory_size: capacity [B].
        units: compute units (SMs, CUs, cores).
        clock: clock the vector peaks refer to [Hz].
        estimated: what is derived by rule instead of published: field names ("peaks",
            "bandwidth", ...) or one peak ("peaks.float16/vector").
        sources: where each group of numbers is from.
        confidence: "high", "medium" or "low".
        limits: occupancy limits of one unit ("registers", "shared_memory", "warps", "blocks",
            "warp_size", "threads_per_block", ...).
        caches: bytes by level of the whole device ("l2", "l3"); CPUs: as in DeviceInfo.
        notes: conflicts, traps, admitted exceptions.
        matrix_clock: clock the matrix peaks (float64 apart) refer to [Hz]; 0.0 when it is `clock`
            or not published. Vendors quote matrix peaks below the boost clock.
        accumulate: accumulate type behind the matrix peaks, in words.
        granularity: what one runtime device is (a die, a card, a core of a chip), in words.
        rates: dense FLOP (OP) per clock of one unit, keyed like `peaks`.
        measured: what others reached, "metric [unit]" to value; never mixed into `peaks`.
        interconnect: link rates [B/s] as published ("unidirectional", "bidirectional", ...).
        power: thermal design power [W]; 0.0 when unknown.
        year: year of launch; 0 when unknown.
    """

    key: str
    name: str
    vendor: str
    kind: str
    architecture: str
    peaks: Mapping[str, float]
    bandwidth: float
    memory_size: int = 0
    units: int = 0
    clock: float = 0.0
    estimated: frozenset[str] = frozenset()
    sources: Mapping[str, str] = field(default_factory=dict)
    confidence: str = "high"
    limits: Mapping[str, int] = field(default_factory=dict)
    caches: Mapping[str, int] = field(default_factory=dict)
    notes: tuple[str, ...] = ()
    matrix_clock: float = 0.0
    accumulate: str = ""
    granularity: str = ""
    rates: Mapping[str, float] = field(default_factory=dict)
    measured: Mapping[str, float] = field(default_factory=dict)
    interconnect: Mapping[str, float] = field(default_factory=dict)
    power: float = 0.0
    year: int = 0

    def peak(self, dtype: str, unit: str) -> float:
        """Dense peak [1/s] of a unit class for a dtype.

        `unit` is "matrix", "vector" or "special". The highest rate of all legal ways counts, so
        that work / peak stays a lower bound of time: a dtype may be widened (bfloat16 on the
        float32 pipes), a matrix product may run on the vector unit, packed float32 counts as
        vector. Special functions run at the vector rate: polynomials on the FMA pipes beat the
        special-function unit on recent parts, so its own rate would be no bound.

        Raises:
            DTypeError: neither the dtype nor one it is widened to has a peak here.
        """
        return self.peaks[self.way(dtype, unit)]

    def way(self, dtype: str, unit: str) -> str:
        """The entry of `peaks` that `peak` takes: "float32/vector". Raises as `peak` does."""
        known = [key for key in _ways(dtype, unit) if key in self.peaks]
        if known:
            return max(known, key=lambda key: self.peaks[key])
        raise DTypeError(
            f"{self.name} has no peak for {dtype} on its {unit} unit; known: {sorted(self.peaks)}"
        )


_WIDER = {
    "float16": ["float32"], "bfloat16": ["float32"], "tfloat32": ["float32"],
    "float8_e4m3fn": ["float16", "bfloat16", "float32"],
    "float8_e5m2": ["float16", "bfloat16", "float32"],
    # bfloat16 and float16 hold every int8; their products are exact in float32.
    "int8": ["int32", "float16", "bfloat16", "float32"],
    "uint8": ["int8", "int32", "float16", "bfloat16", "float32"],
    "int16": ["int32", "float32"], "uint16": ["int32", "float32"],
    "int32": ["float32"], "uint32": ["int32", "float32"],
    "int64": ["float64"], "uint64": ["float64"], "bool": ["int8", "int32", "float32"],
    "complex64": ["float32"], "complex128": ["float64"],
}  # fmt: skip
_UNITS = {
    "matrix": ["matrix", "vector", "vector_packed"],
    "vector": ["vector", "vector_packed"],
    "special": ["vector", "vector_packed"],
}


def _ways(dtype: str, unit: str) -> list[str]:
    if unit not in _UNITS:
        raise DTypeError(f"unknown unit class {unit!r}; allowed: {', '.join(_UNITS)}")
    return [f"{d}/{u}" for d in [dtype, *_WIDER.get(dtype, [])] for u in _UNITS[unit]]


@dataclass(frozen=True, slots=True)
class Device:
    """One device usable now, by one runtime.

    Attributes:
        id: the physical device, shared by all backends that can use it: "cpu", "cuda:0",
            "rocm:0", "tpu:0", "opencl:<platform>:<index>" where no other name is known.
        runtime: which of several drivers for the same device ("pocl", "intel"); "" if one.
        info: what the driver said.
    """

    id: str
    info: DeviceInfo
    runtime: str = ""
