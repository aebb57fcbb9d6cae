"""Occupancy of a launch and how its blocks fill the device, from the limits of the database.

    occupancy(spec, ...)   blocks per unit, what limits them, share of the wave slots in use
    quantise(...)          tile and wave quantisation: how much of the device a grid wastes

Rules. NVIDIA allocates registers per warp in steps of 256 and spreads warps over 4 schedulers;
shared memory comes in steps of 128 B (256 B before sm_80) plus 1 KiB per block from sm_80 on. The
carve-out is taken at its largest; a driver that chose a smaller one reports fewer blocks by it.
AMD allocates registers per lane and wave in steps (8 from gfx90a, 4 before, 24 on RDNA 3 and 4);
from gfx90a on vector and accumulator registers share one file of 512 and accumulators start at a
multiple of 4; LDS comes in steps of 512 B (1280 B on gfx950, 1024 B on RDNA 3 and 4). RDNA figures
are for waves of 32 in CU mode.
"""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

from portable.device import DeviceSpec
from portable.errors import ArgumentError, DeviceUnknownError


class LaunchError(ArgumentError, ValueError):
    """A launch that cannot run on the device at all; says which limit and by how much."""


@dataclass(frozen=True, slots=True)
class Occupancy:
    """What fits on one unit (SM, CU) at a time.

    Attributes:
        blocks: blocks per unit.
        warps: warps (waves) per unit in use; max_warps: slots.
        fraction: warps / max_warps.
        limits: blocks per unit that each resource alone allows.
        limited_by: the resources that allow no more than `blocks`.
    """

    blocks: int
    warps: int
    max_warps: int
    limits: Mapping[str, int]
    limited_by: tuple[str, ...]

    @property
    def fraction(self) -> float:
        """Share of the wave slots in use, 0 to 1."""
        return self.warps / self.max_warps


def occupancy(
    spec: DeviceSpec,
    *,
    threads: int,
    registers: int = 0,
    shared_memory: int = 0,
    accumulators: int = 0,
    scalar_registers: int = 0,
) -> Occupancy:
    """Blocks per unit for a block of `threads`.

    `registers` per thread (VGPRs on AMD), `accumulators` per thread (AGPRs, AMD matrix kernels),
    `scalar_registers` per wave (AMD), `shared_memory` bytes per block, static and dynamic.

    Raises:
        DeviceUnknownError: the entry has no occupancy limits.
        LaunchError: one block exceeds a limit.
    """
    limits = spec.limits
    if "warps" not in limits or "registers" not in limits:
        raise DeviceUnknownError(
            f"{spec.name}: the database has no occupancy limits for {spec.architecture}"
        )
    _check(spec, threads, registers, shared_memory, accumulators)
    warps = math.ceil(threads / limits["warp_size"])
    allowed = {
        "warps": limits["warps"] // warps,
        "blocks": limits["blocks"],
        "registers": _by_registers(spec, warps, registers, accumulators, scalar_registers),
        "shared_memory": _by_shared_memory(limits, shared_memory),
    }
    blocks = min(allowed.values())
    by = tuple(name for name, count in allowed.items() if count == blocks)
    return Occupancy(blocks, blocks * warps, limits["warps"], allowed, by)


def _check(
    spec: DeviceSpec, threads: int, registers: int, shared_memory: int, accumulators: int
) -> None:
    limits = spec.limits
    room = limits["registers_per_thread"]
    per_thread = registers
    if limits.get("unified_registers"):
        per_thread = _up(registers, 4) + accumulators if accumulators else registers
    for what, have, most in (
        ("threads per block", threads, limits["threads_per_block"]),
        ("registers per thread", per_thread, room),
        ("accumulators per thread", accumulators, room if "simds" in limits else 0),
        ("bytes of shared memory per block", shared_memory, limits["shared_memory_per_block"]),
    ):
        if have > most or have < 0:
            raise LaunchError(f"{spec.name}: {have} {what}; allowed: 0 to {most}")
    if threads < 1:
        raise LaunchError(f"{spec.name}: a block needs at least one thread, got {threads}")


def _by_registers(
    spec: DeviceSpec, warps: int, registers: int, accumulators: int, scalars: int
) -> int:
    limits = spec.limits
    if "simds" in limits:
        per_simd = _waves_per_simd(limits, registers, accumulators, scalars)
        return per_simd * limits["simds"] // warps
    if not registers:
        return limits["blocks"]
    per_warp = _up(registers * limits["warp_size"], limits["register_granule"])
    # Warps are spread over the schedulers, each with its share of the file.
    granule = limits["warp_granule"]
    fitting = limits["registers"] // per_warp // granule * granule
    return fitting // warps


def _waves_per_simd(
    limits: Mapping[str, int], registers: int, accumulators: int, sgprs: int
) -> int:
    most = limits["warps"] // limits["simds"]
    file, granule = limits["registers_per_lane"], limits["register_granule"]
    counts = [most]
    if limits.get("unified_registers"):
        total = _up(registers, 4) + accumulators if accumulators else registers
        counts += [file // _up(total, granule)] if total else []
    else:
        counts += [file // _up(n, granule) for n in (registers, accumulators) if n]
    if sgprs and "scalar_registers" in limits:
        counts.append(limits["scalar_registers"] // _up(sgprs, limits["scalar_register_granule"]))
    return min(counts)


def _by_shared_memory(limits: Mapping[str, int], shared_memory: int) -> int:
    taken = _up(shared_memory + limits["shared_memory_reserved"], limits["shared_memory_granule"])
    return limits["shared_memory"] // taken if taken else limits["blocks"]


def _up(value: int, step: int) -> int:
    return -(-value // step) * step


@dataclass(frozen=True, slots=True)
class Quantisation:
    """How a grid of tiles fills a device.

    Attributes:
        tiles: tiles (blocks) in the grid; waves: rounds needed; per_wave: tiles of a full round.
        tile_efficiency: useful share of the elements the tiles cover.
        wave_efficiency: share of the tile slots of all rounds that hold a tile.
    """

    tiles: int
    per_wave: int
    waves: int
    tile_efficiency: float
    wave_efficiency: float

    @property
    def efficiency(self) -> float:
        """Upper limit of utilisation by both effects."""
        return self.tile_efficiency * self.wave_efficiency


def quantise(
    shape: tuple[int, ...], tile: tuple[int, ...], units: int, blocks_per_unit: int = 1
) -> Quantisation:
    """Tile and wave quantisation of a launch.

    `shape` is the output, `tile` what one block computes of it (same rank), `units` those of the
    device and `blocks_per_unit` what `occupancy` allows.

    Raises:
        LaunchError: ranks differ or a size is not positive.
    """
    if len(shape) != len(tile) or min((*shape, *tile, units, blocks_per_unit), default=0) < 1:
        raise LaunchError(
            f"shape {shape} and tile {tile} must have one rank and positive sizes; "
            f"units {units}, blocks per unit {blocks_per_unit}"
        )
    tiles = math.prod(-(-n // t) for n, t in zip(shape, tile, strict=True))
    covered = tiles * math.prod(tile)
    per_wave = units * blocks_per_unit
    waves = -(-tiles // per_wave)
    return Quantisation(
        tiles, per_wave, waves, math.prod(shape) / covered, tiles / (waves * per_wave)
    )
