"""What a kernel is compiled for, and the limits that tile sizes must respect."""

from __future__ import annotations

from dataclasses import dataclass

from portable.device import Device

_SHARED = {
    75: 65_536, 80: 166_912, 86: 101_376, 87: 166_912, 89: 101_376, 90: 232_448, 100: 232_448,
    103: 232_448, 110: 232_448, 120: 101_376, 121: 101_376,
}  # fmt: skip
"""Largest dynamic shared memory of one block [B] (CUDA programming guide, table of technical
specifications per compute capability: shared memory per block minus 1 KiB of the system)."""
_LDS = {"gfx950": 163_840}
"""LDS of one workgroup [B] where it is not 64 KiB (CDNA 4: 160 KiB)."""


@dataclass(frozen=True, slots=True)
class Target:
    """Where a kernel will run.

    Attributes:
        backend: "cuda", "hip" or "interpreter".
        arch: 90 for sm_90, "gfx942", 0 for the interpreter.
        warp: lanes of a warp (wave).
        shared: shared memory (LDS) one block can have [B].
        units: SMs or CUs; 0 when unknown.
    """

    backend: str
    arch: int | str
    warp: int = 32
    shared: int = 65_536
    units: int = 0

    @property
    def capability(self) -> int:
        """NVIDIA compute capability times 10, or 0."""
        return self.arch if isinstance(self.arch, int) else 0

    @property
    def cdna(self) -> bool:
        """An AMD Instinct GPU: wave 64, MFMA."""
        return str(self.arch).startswith("gfx9")

    @property
    def rdna(self) -> bool:
        """An AMD Radeon GPU: wave 32, WMMA."""
        return self.backend == "hip" and not self.cdna

    @property
    def fp8(self) -> bool:
        """Whether its matrix unit takes OCP e4m3 as it is.

        sm_89 and later, CDNA 4, RDNA 4. CDNA 3 takes the FNUZ encoding only.
        """
        if self.backend == "interpreter":
            return True
        if self.backend == "cuda":
            return self.capability >= 89
        return self.arch == "gfx950" or str(self.arch).startswith("gfx12")


def parse(architecture: str, units: int = 0) -> Target:
    """The target of "sm_90", "gfx942" or "" (interpreter).

    Raises:
        ValueError: an architecture Triton does not compile for.
    """
    if architecture.startswith("sm_"):
        arch = int(architecture[3:].rstrip("af"))
        return Target("cuda", arch, 32, _SHARED.get(arch, 101_376), units)
    if architecture.startswith("gfx"):
        warp = 64 if architecture.startswith("gfx9") else 32
        return Target("hip", architecture, warp, _LDS.get(architecture, 65_536), units)
    if not architecture:
        return Target("interpreter", 0, 32, 2**30, units)
    raise ValueError(f"triton compiles for sm_… and gfx… (given: {architecture!r})")


def of(device: Device) -> Target:
    """The target of a device of this backend."""
    return parse(device.info.architecture, device.info.units)


def unsupported(device: Device) -> list[str]:
    """Why Triton has no code generator for the device; empty means it has one."""
    arch = device.info.architecture
    if not arch or arch.startswith("gfx"):
        return []
    if not arch.startswith("sm_"):
        return [f"architecture is {arch} (sm_80 or later, gfx9…, gfx11…, gfx12…)"]
    return [] if of(device).capability >= 75 else [f"architecture is {arch} (sm_75 or later)"]
