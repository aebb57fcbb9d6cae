"""Static judgement of a build: occupancy, quantisation, matrix units, and what they cost.

Estimates are for ordering and for reading; `ASSUMPTIONS` are printed beside them.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from portable import dtypes
from portable.crosscompile.facts import Built, Finding, Row, Target, Unit
from portable.device import DeviceSpec
from portable.errors import DTypeError, PortableError
from portable.hwdb.occupancy import Occupancy, Quantisation, occupancy, quantise

ASSUMPTIONS = (
    "Estimated share of the roof = tile quantisation x wave quantisation x peak of the unit the "
    "code uses / peak of the best unit for the dtype. It assumes perfect overlap of loads and "
    "arithmetic, no cache misses beyond the compulsory ones, and equal blocks; spills, narrow "
    "loads and older matrix instructions are named, not counted. An upper limit, not a prediction."
)
FEW_WARPS = 4
"""Warps per unit below which a scheduler has nothing to do (4 schedulers or SIMDs per unit)."""
LOW_OCCUPANCY = 0.25
"""Share of the wave slots below which a kernel without matrix units can rarely hide latency."""
SPILL_COST, STACK_COST, NARROW_COST, OCCUPANCY_COST, OLDER_COST = 1.5, 1.2, 1.3, 1.3, 1.5
"""Guessed factors, to order findings that have no formula."""
ASYNCHRONOUS = {"sm_90": "wgmma", "sm_100": "tcgen05", "sm_103": "tcgen05"}
"""The instructions that reach the matrix unit's full rate where mma.sync, still there, does not."""
_WARP_WIDE = re.compile(r"mma\.sync(?!.*f64)|[HIQ]MMA")  # float64 has no other
WARPGROUP_ROWS = 64
"""Rows of a result below which those instructions cannot be used."""
NARROW_BITS = 32
_MARKS = {
    "bfloat16": ("bf16", "kind::f16", " f16"), "float16": ("f16", "hmma.16816.f32", "hgmma"),
    "float64": ("f64", "dmma"), "float32": ("f32", "tf32", "xf32"),
    "int8": ("i8", "iu8", "s8", "imma"), "uint8": ("u8", "i8", "imma"),
    "float8_e4m3fn": ("fp8", "f8", "e4m3", "qmma"),
}  # fmt: skip
"""What the name of a matrix instruction of a dtype contains, in lower case."""
_FACTORS = re.compile(r"(?:x\d+_?|\s)(bf16|f16|xf32|tf32|f32|f64|i8|iu8|s8|u8|fp8|bf8|e4m3|f8f6f4)")
"""Behind the shape of an instruction stands the dtype of its factors."""
_LONG = {
    "bf16": "bfloat16", "f16": "float16", "tf32": "tfloat32", "xf32": "tfloat32", "f32": "float32",
    "f64": "float64", "i8": "int8", "iu8": "int8", "s8": "int8",
}  # fmt: skip


def judge(unit: Unit, target: Target, built: Built) -> Row:
    """The row of a build, its findings sorted by cost."""
    if not built.ok:
        return Row(unit, target, built, findings=(_failure(built),))
    findings: list[Finding] = []
    used: Occupancy | None = None
    try:
        used = _occupancy(target.spec, built)
    except PortableError as error:
        findings.append(Finding("cannot-launch", 100.0, str(error)))
    findings += _resources(unit, built)
    findings += _matrix(unit, target.spec, built)
    findings += _older(unit, target.spec, built)
    if used is not None:
        findings += _occupied(unit, built, used)
    waves = _quantised(unit, target.spec, used)
    if waves is not None:
        findings += _waves(unit, target.spec, waves)
    share = None if waves is None else waves.efficiency / _path(unit, target.spec, built)
    findings.sort(key=lambda finding: -finding.cost)
    return Row(
        unit, target, built,
        occupancy=used.fraction if used else None,
        limited_by=used.limited_by if used else (),
        roof_share=share,
        findings=tuple(findings),
    )  # fmt: skip


def _failure(built: Built) -> Finding:
    kind = {"error": "fails", "oom": "crash"}.get(built.status, built.status)
    words = {"hang": "the compiler hangs", "crash": "the compiler crashes", "refused": "refused"}
    return Finding(kind, 1000.0, f"{words.get(kind, 'does not build')}: {built.message}")


def _occupancy(spec: DeviceSpec, built: Built) -> Occupancy:
    return occupancy(
        spec,
        threads=built.threads,
        registers=built.registers,
        accumulators=built.accumulators,
        scalar_registers=built.scalars,
        shared_memory=built.shared,
    )


def _resources(unit: Unit, built: Built) -> Iterator[Finding]:
    if built.spilled:
        text = f"spills {built.spill_text} ({built.registers} registers are in use)"
        yield Finding("spill", SPILL_COST, text)
    elif built.stack:
        yield Finding("stack", STACK_COST, f"keeps {built.stack} B a thread in local memory")
    widths = [int(width) for width in built.loads if width.isdigit()]
    if widths and max(widths) < NARROW_BITS and "bulk" not in built.loads:
        yield Finding(
            "narrow-loads", NARROW_COST, f"its widest load from memory is {max(widths)} bit a lane"
        )


def wanted(unit: Unit) -> str:
    """The dtype a product should multiply in: that of its operands; "" for other kernels."""
    if not unit.factor:
        return ""
    return unit.problem.dtype if unit.problem else unit.factor


def _matrix(unit: Unit, spec: DeviceSpec, built: Built) -> Iterator[Finding]:
    dtype = wanted(unit)
    has = f"{dtype}/matrix" in spec.peaks
    if not dtype or not (has or built.matrix):
        return
    name = dtypes.short(dtype)
    loss = _path(unit, spec, built)
    if has and not built.matrix:
        yield Finding(
            "no-matrix-unit", loss,
            f"{name} {unit.op} on {spec.architecture} uses no matrix instruction; the unit has "
            f"{loss:.3g} times the rate",
        )  # fmt: skip
    elif unit.factor != dtype or not _speaks(dtype, built):
        path = dtypes.short(unit.factor) if unit.factor != dtype else spoken(built)
        words = f"{name} {unit.op} on {spec.architecture} runs on the {path} path"
        if has:
            slower = f", {loss:.3g} times slower" if loss > 1 else ""
            yield Finding("slow-path", max(loss, 1.01), words + slower)
        else:
            yield Finding("widened", 1.0, f"{words}: the device has no matrix rate for {name}")


def _older(unit: Unit, spec: DeviceSpec, built: Built) -> Iterator[Finding]:
    full = ASYNCHRONOUS.get(spec.architecture)
    small = unit.tile and min(max(unit.tile), *unit.extent) < WARPGROUP_ROWS
    if full and built.matrix and not small and all(map(_WARP_WIDE.match, built.matrix)):
        text = f"uses mma.sync; the unit's full rate on {spec.architecture} needs {full}"
        yield Finding("older-instruction", OLDER_COST, text)


def _speaks(dtype: str, built: Built) -> bool:
    names = [name.lower() for name in built.matrix]
    return any(mark in name for name in names for mark in _MARKS.get(dtype, (dtype,)))


def spoken(built: Built) -> str:
    """The dtype of the factors of a build's matrix instructions, short: "f16"; "" without any."""
    for name in built.matrix:
        match = _FACTORS.search(name)
        if match is not None:
            return match[1]
        opcode, _, modifiers = name.partition(".")
        if opcode in ("HMMA", "HGMMA", "UTCHMMA"):  # SASS names the factors only if not float16
            return next((t for t in ("bf16", "tf32") if t.upper() in modifiers), "f16")
    return ""


def _path(unit: Unit, spec: DeviceSpec, built: Built) -> float:
    """Peak of the best unit for the dtype over the peak of the unit the code uses; >= 1."""
    dtype = wanted(unit)
    if not dtype:
        return 1.0
    used = unit.factor
    if used == dtype and built.matrix and not _speaks(dtype, built):
        used = _LONG.get(spoken(built), used)
    try:
        best = spec.peak(dtype, "matrix")
        return max(1.0, best / spec.peak(used, "matrix" if built.matrix else "vector"))
    except DTypeError:
        return 1.0


def _occupied(unit: Unit, built: Built, used: Occupancy) -> Iterator[Finding]:
    by = " and ".join(used.limited_by).replace("_", " ")
    if unit.factor and built.matrix:
        if used.warps < FEW_WARPS:
            text = f"only {used.warps} warps fit on a unit (limited by {by})"
            yield Finding("low-occupancy", FEW_WARPS / max(used.warps, 1), text)
    elif used.fraction < LOW_OCCUPANCY:
        text = f"{used.fraction:.0%} of the wave slots in use (limited by {by})"
        yield Finding("low-occupancy", OCCUPANCY_COST, text)


def _quantised(unit: Unit, spec: DeviceSpec, used: Occupancy | None) -> Quantisation | None:
    if used is None or not used.blocks or not spec.units or not unit.grid:
        return None
    try:
        if unit.extent and unit.tile:
            plane = quantise(unit.extent, unit.tile, spec.units, used.blocks)
            whole = quantise((unit.grid,), (1,), spec.units, used.blocks)
            return Quantisation(
                unit.grid, whole.per_wave, whole.waves, plane.tile_efficiency, whole.wave_efficiency
            )
        return quantise((unit.grid,), (1,), spec.units, used.blocks)
    except PortableError:
        return None


def _waves(unit: Unit, spec: DeviceSpec, waves: Quantisation) -> Iterator[Finding]:
    persistent = unit.grid <= waves.per_wave
    if waves.wave_efficiency < 0.75 and not (persistent and unit.config.get("variant")):
        yield Finding(
            "wave-quantisation", 1 / waves.wave_efficiency,
            f"{unit.grid} blocks in {waves.waves} wave(s) of {waves.per_wave}: "
            f"{waves.wave_efficiency:.0%} of the slots hold a block",
        )  # fmt: skip
    if waves.tile_efficiency < 0.75:
        tile = "x".join(map(str, unit.tile))
        yield Finding(
            "tile-quantisation", 1 / waves.tile_efficiency,
            f"tiles of {tile} cover {1 / waves.tile_efficiency:.2f} times the result",
        )  # fmt: skip
    ridge = _ridge(unit, spec)
    if ridge and unit.tile:
        m, n = unit.tile
        intensity = 2 * m * n / ((m + n) * dtypes.itemsize(unit.factor))
        large = min(unit.extent) >= 2 * max(unit.tile)
        if intensity < ridge / 4 and large:
            yield Finding(
                "below-ridge", 1.05,
                f"a tile does {intensity:.0f} FLOP per byte it loads, the ridge is {ridge:.0f}: "
                "the cache must serve the rest",
            )  # fmt: skip


def _ridge(unit: Unit, spec: DeviceSpec) -> float:
    if not unit.factor or not spec.bandwidth:
        return 0.0
    try:
        return spec.peak(unit.factor, "matrix") / spec.bandwidth
    except DTypeError:
        return 0.0
