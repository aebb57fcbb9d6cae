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
        estimated: field names ("peaks", "bandwidth", ...) that are derived by rule, not published.
        sources: where each group of numbers is from.
        confidence: "high", "medium" or "low".
        limits: occupancy limits of one unit ("registers", "shared_memory", "warps", "blocks",
            "warp_size", "threads_per_block", ...).
        notes: conflicts, traps, admitted exceptions.
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

    def peak(self, dtype: str, unit: str) -> float:
        """Dense peak [1/s] of a unit class for a dtype.

        `unit` is "matrix", "vector" or "special". A matrix request on a device without a matrix
        unit for the dtype runs on the vector unit; f16/bf16 without a rate of their own run at
        the float32 vector rate (they are widened).

        Raises:
            DTypeError: neither the dtype nor one it is widened to has a peak here.
        """
        for key in _fallbacks(dtype, unit):
            if key in self.peaks:
                return self.peaks[key]
        raise DTypeError(
            f"{self.name} has no peak for {dtype} on its {unit} unit; known: {sorted(self.peaks)}"
        )


def _fallbacks(dtype: str, unit: str) -> list[str]:
    units = {"matrix": ["matrix", "vector"], "vector": ["vector"], "special": ["special", "vector"]}
    wider = {
        "float16": ["float32"], "bfloat16": ["float32"],
        "float8_e4m3fn": ["float16", "bfloat16", "float32"],
        "float8_e5m2": ["float16", "bfloat16", "float32"],
        "tfloat32": ["float32"],
        "int8": ["int32", "float32"], "uint8": ["int32", "float32"], "int16": ["int32", "float32"],
        "uint16": ["int32", "float32"], "int32": ["float32"], "uint32": ["int32", "float32"],
        "int64": ["float64"], "uint64": ["float64"], "bool": ["int32", "float32"],
        "complex64": ["float32"], "complex128": ["float64"],
    }  # fmt: skip
    return [f"{d}/{u}" for d in [dtype, *wider.get(dtype, [])] for u in units[unit]]


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
