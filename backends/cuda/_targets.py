"""What a kernel is built for: an instruction set and the limits that decide its configuration."""

from __future__ import annotations

from dataclasses import dataclass

from portable.device import Device

# Largest dynamic shared memory of one block [B] by compute capability.
# Source: CUDA C++ Programming Guide, table "Technical Specifications per Compute Capability".
_SHARED_KIB = {75: 64, 80: 163, 86: 99, 87: 163, 89: 99, 90: 227, 100: 227, 103: 227, 120: 99}
_LDS_KIB = 64  # one workgroup on CDNA 1-3 and RDNA; source: AMD ISA documents, "LDS"


@dataclass(frozen=True, slots=True)
class Target:
    """An architecture with the limits of one block.

    Attributes:
        arch: "sm_90a" or "gfx942".
        warp: threads of a warp (wavefront).
        shared: largest shared memory of one block [B].
        units: multiprocessors, 0 when not known; only used to choose how far to split.
    """

    arch: str
    warp: int = 32
    shared: int = 48 << 10
    units: int = 0

    @property
    def nvidia(self) -> bool:
        """Whether PTX (tensor cores, cp.async) can be used."""
        return self.arch.startswith("sm_")

    @property
    def capability(self) -> int:
        """90 for sm_90a; 0 for AMD."""
        return int("".join(c for c in self.arch[3:] if c.isdigit())) if self.nvidia else 0

    @property
    def parallel(self) -> int:
        """Blocks it takes to fill the device once."""
        return self.units or 108


def target(arch: str) -> Target:
    """Limits of an architecture when no device is there to be asked."""
    if not arch.startswith("sm_"):
        warp = 64 if arch.startswith("gfx9") else 32
        return Target(arch, warp, _LDS_KIB << 10)
    number = Target(arch).capability
    known = max((c for c in _SHARED_KIB if c <= number), default=75)
    return Target(arch, 32, _SHARED_KIB[known] << 10)


def of_device(device: Device) -> Target:
    """Limits as the driver reports them."""
    base = target(device.info.architecture)
    extra = device.info.extra
    return Target(
        base.arch,
        int(extra.get("warp_size", base.warp)),
        int(extra.get("shared_per_block", base.shared)),
        device.info.units,
    )
