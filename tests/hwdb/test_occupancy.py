"""Occupancy against published calculator values of both makers; quantisation by hand."""

# ruff: noqa: E501  (tables of cases, one a line)
from __future__ import annotations

import pytest

import portable.hwdb as hwdb
from portable.errors import DeviceUnknownError
from portable.hwdb.occupancy import LaunchError, occupancy, quantise

# device, block, registers, shared memory -> blocks per SM, warps, limit by registers, source.
# "ncu" rows are the launch and occupancy sections of published Nsight Compute reports. Their limit by
# shared memory refers to the carve-out the driver chose and is compared only where it was the largest.
NVIDIA = [
    ("V100", 128, 37, 0, 12, 48, 12, "CUDA C++ Best Practices Guide: 75 % with 128 threads, 37 registers"),
    ("V100", 320, 37, 0, 4, 40, 4, "CUDA C++ Best Practices Guide: 63 % with 320 threads, 37 registers"),
    ("V100", 256, 16, 1024, 8, 64, 16, "ncu, reduction kernel, CC 7.0, 80 SMs: 100 %"),
    ("L4", 512, 54, 29_820, 2, 32, 2, "ncu, attention kernel, CC 8.9, 58 SMs: 66.67 %"),
    ("L4", 128, 80, 43_780, 2, 8, 6, "ncu, attention kernel with 43.78 KB, CC 8.9: 16.67 %"),
    ("L4", 512, 22, 0, 3, 48, 5, "ncu, cache write kernel, CC 8.9: 100 %, block limit registers 5"),
    ("RTX 3090", 256, 16, 4096, 6, 48, 16, "ncu, row sum kernel, CC 8.6, 82 SMs: 100 %"),
    ("RTX 3090", 512, 39, 0, 3, 48, 3, "ncu, softmax kernel, CC 8.6: 100 %"),
    ("H200 SXM", 128, 63, 30_741, 7, 28, 8, "ncu, split-k kernel, CC 9.0, 132 SMs: 43.75 %"),
    ("H200 SXM", 128, 21, 0, 16, 64, 21, "ncu, reduce kernel, CC 9.0, 132 SMs: 100 %"),
    ("H100 SXM", 256, 240, 115_712, 1, 8, 1, "ncu, CC 9.0, 240 registers, 113 KB: 12.5 %"),
    ("H100 SXM", 128, 167, 40_960, 3, 12, 3, "ncu, CC 9.0, 167 registers, 40 KB: 18.75 %"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("name", "threads", "regs", "shared", "blocks", "warps", "by_regs", "source"), NVIDIA
)
def test_nvidia_published_values(name, threads, regs, shared, blocks, warps, by_regs, source):
    got = occupancy(hwdb.get(name), threads=threads, registers=regs, shared_memory=shared)
    assert (got.blocks, got.warps, got.limits["registers"]) == (blocks, warps, by_regs), source


# Waves per SIMD by LLVM, llvm/test/CodeGen/AMDGPU/occupancy-levels.ll (waves of 32 on RDNA).
LLVM = {
    "MI355X": {24: 8, 64: 8, 72: 7, 80: 6, 84: 5, 96: 5, 100: 4, 128: 4, 144: 3, 168: 3, 200: 2, 256: 2},
    "RX 7900 XTX": {24: 16, 96: 16, 100: 12, 112: 12, 128: 10, 144: 10, 168: 9, 200: 7, 256: 5},
    "Strix Halo": {24: 16, 96: 16, 100: 12, 128: 10, 168: 9, 200: 7, 256: 5},
    "RX 9060 XT": {24: 16, 96: 16, 100: 12, 128: 10, 168: 9, 200: 7, 256: 5},
    # gfx908 has the vector registers of gfx900
    "MI100": {24: 10, 28: 9, 32: 8, 36: 7, 40: 6, 48: 5, 64: 4, 84: 3, 128: 2, 144: 1, 256: 1},
}  # fmt: skip


@pytest.mark.parametrize("name", LLVM)
def test_amd_registers_as_llvm_counts_them(name):
    spec = hwdb.get(name)
    for registers, waves in LLVM[name].items():
        got = occupancy(spec, threads=spec.limits["warp_size"], registers=registers)
        assert got.blocks // spec.limits["simds"] == waves, registers


def test_amd_scalar_registers_shared_memory_and_whole_blocks():
    mi355x, mi300x = hwdb.get("MI355X"), hwdb.get("MI300X")
    # used_100_sgprs plus 6 for VCC and FLAT_SCRATCH: 7 waves per SIMD
    assert occupancy(mi355x, threads=64, scalar_registers=106).warps == 7 * 4
    assert occupancy(mi355x, threads=64, scalar_registers=86).warps == 8 * 4
    # used_lds_8252_max_group_size_64: 18 groups in 160 KiB = 5 waves per SIMD rounded up
    assert occupancy(mi355x, threads=64, shared_memory=8252).blocks == 18
    # openxla/xla PR 47468: a block of 320 threads leaves 30 of 32 waves, 93.75 %
    assert occupancy(mi300x, threads=320).fraction == pytest.approx(0.9375)
    # llvm-calc-occupancy, its own example for gfx90a: 8 waves per SIMD, 32 per CU
    got = occupancy(hwdb.get("MI250X GCD"), threads=512, registers=50, scalar_registers=30)
    assert got.warps == 32


def test_amd_accumulators_share_the_file_from_gfx90a_on():
    # 128 vector + 128 accumulators: 256 of 512 per lane on gfx942; two files of 256 on gfx908
    assert occupancy(hwdb.get("MI300X"), threads=64, registers=128, accumulators=128).warps == 8
    assert occupancy(hwdb.get("MI100"), threads=64, registers=128, accumulators=128).warps == 8
    # 100 + 28: accumulators begin at a multiple of 4, 128 in all -> 4 waves per SIMD
    assert occupancy(hwdb.get("MI300X"), threads=64, registers=98, accumulators=28).warps == 16


def test_what_limits_is_named():
    got = occupancy(hwdb.get("H100 SXM"), threads=128, registers=63, shared_memory=30_741)
    assert got.limited_by == ("shared_memory",)
    assert got.fraction == pytest.approx(0.4375)
    assert "warps" in occupancy(hwdb.get("H100 SXM"), threads=1024, registers=32).limited_by


def test_impossible_launches_say_which_limit():
    h100 = hwdb.get("H100 SXM")
    with pytest.raises(LaunchError, match=r"2048 threads per block; allowed: 0 to 1024"):
        occupancy(h100, threads=2048)
    with pytest.raises(LaunchError, match="registers per thread"):
        occupancy(h100, threads=128, registers=256)
    with pytest.raises(LaunchError, match="shared memory"):
        occupancy(h100, threads=128, shared_memory=233_000)
    with pytest.raises(LaunchError, match="at least one thread"):
        occupancy(h100, threads=0)
    with pytest.raises(DeviceUnknownError, match="no occupancy limits"):
        occupancy(hwdb.get("TPU v5e"), threads=128)


def test_a_block_that_needs_more_registers_than_the_unit_has_gives_none():
    assert occupancy(hwdb.get("H100 SXM"), threads=1024, registers=128).blocks == 0


def test_wave_quantisation_as_ncu_prints_it():
    # 896 blocks, 7 per SM, 132 SMs: 0.97 waves; 128 blocks, 2 per SM, 58 SMs: 1.10 waves
    one = quantise((896,), (1,), 132, 7)
    assert one.tiles / one.per_wave == pytest.approx(0.97, abs=0.005)
    assert one.waves == 1
    two = quantise((128,), (1,), 58, 2)
    assert two.tiles / two.per_wave == pytest.approx(1.10, abs=0.005)
    assert two.waves == 2
    assert two.wave_efficiency == pytest.approx(128 / 232)


def test_tile_quantisation():
    # 257 x 128 in tiles of 128 x 128: three tiles for 2.008 tiles of work
    got = quantise((257, 128), (128, 128), 108)
    assert got.tiles == 3
    assert got.tile_efficiency == pytest.approx(257 / 384)
    assert got.efficiency == pytest.approx(257 / 384 * 3 / 108)
    # NVIDIA's matrix multiplication guide: 109 tiles on 108 SMs need two waves
    assert quantise((109,), (1,), 108).waves == 2
    with pytest.raises(LaunchError, match="one rank"):
        quantise((4, 4), (2,), 1)
