"""Resources parsed from compiler output equal what the tools themselves print."""

from __future__ import annotations

import gzip
import re
import subprocess
from pathlib import Path

import pytest

from portable.crosscompile import assembly

DATA = Path(__file__).parent / "data"
KERNELS = str(Path(__file__).with_name("kernels.py"))
PRODUCT = {"a": "*fp16", "b": "*fp16", "c": "*fp32"}


def text(name):
    file = DATA / name
    if file.is_file():
        return file.read_text(encoding="utf-8")
    return gzip.decompress((DATA / f"{name}.gz").read_bytes()).decode()


def test_ptx_with_the_assemblers_log():
    found = assembly.ptx(text("product_sm_80.ptx"), text("product_sm_80.log"))
    assert found["registers"] == 64
    assert found["stack"] == found["spill_bytes"] == 0
    assert found["matrix"] == {"mma.sync m16n8k16 f16": 16}
    assert found["loads"] == {"128": 8}


def test_sass_and_resource_usage():
    found = assembly.cuobjdump(text("product_sm_80.sass"), text("product_sm_80.res-usage"))
    assert found["registers"] == 64
    assert found["matrix"] == {"HMMA.16816.F32": 16}
    assert found["loads"] == {"128": 8}
    assert found["spill_bytes"] == 0


def test_amd_assembly_and_metadata():
    source = text("product_gfx942.amdgcn")
    found = assembly.amdgcn(source)
    assert found["registers"] + found["accumulators"] == number(r"\.vgpr_count:\s+(\d+)", source)
    assert found["scalars"] == number(r"\.sgpr_count:\s+(\d+)", source)
    assert found["matrix"] == {"v_mfma_f32_32x32x8_f16": 4}
    assert sum(found["loads"].values()) == len(re.findall(r"\b(?:global|buffer)_load_", source))


def test_stored_spills_of_both_kinds_of_output_agree():
    """The same kernel once as PTX with ptxas' words, once as cuobjdump prints its machine code."""
    usage = text("spilled_sm_80.res-usage")
    said = assembly.ptx(text("spilled_sm_80.ptx"), text("spilled_sm_80.log"))
    seen = assembly.cuobjdump(text("spilled_sm_80.sass"), usage)
    assert said["spill_bytes"] > 0
    for field in ("registers", "stack", "spill_bytes"):
        assert said[field] == seen[field], field
    assert said["registers"] == number(r"REG:(\d+)", usage)
    assert said["stack"] == number(r"STACK:(\d+)", usage)


@pytest.mark.parametrize(
    ("name", "accumulators", "spills"),
    [("large_gfx942.amdgcn", True, False), ("large_gfx1100.amdgcn", False, True)],
)
def test_stored_accumulators_and_spills_of_amd(name, accumulators, spills):
    source = text(name)
    found = assembly.amdgcn(source)
    assert (found["accumulators"] > 0, found["spills"] > 0) == (accumulators, spills)
    assert found["registers"] == number(r"; NumVgprs: (\d+)", source)
    total = found["registers"] + found["accumulators"]
    assert total == number(r"\.vgpr_count:\s+(\d+)", source)
    assert found["spills"] == number(r"\.vgpr_spill_count:\s+(\d+)", source)
    assert found["stack"] == number(r"; ScratchSize: (\d+)", source)


def number(pattern, source):
    return int(re.search(pattern, source)[1])


@pytest.mark.parametrize(
    ("line", "loads"),
    [
        ("ld.global.v4.b32 { %r1, %r2, %r3, %r4 }, [ %rd1 ];", {"128": 1}),
        ("@%p1 ld.global.L1::evict_last.v2.b64 { %rd1, %rd2 }, [ %rd3 + 0 ];", {"128": 1}),
        ("ld.global.b16 %rs1, [ %rd1 ];", {"16": 1}),
        ("cp.async.ca.shared.global [ %r1 + 0 ], [ %rd1 + 0 ], 0x4, %r2;", {"32": 1}),
        ("cp.async.bulk.tensor.2d.shared::cta.global.mbarrier::complete_tx::bytes [%r], [%x];",
         {"bulk": 1}),
    ],
)  # fmt: skip
def test_widths_of_ptx_loads(line, loads):
    assert assembly.ptx(line, "")["loads"] == loads


@pytest.mark.parametrize(
    ("line", "name"),
    [
        ("wgmma.mma_async.sync.aligned.m64n256k16.f32.bf16.bf16 {%r1};", "wgmma m64n256k16 bf16"),
        ("tcgen05.mma.cta_group::1.kind::f8f6f4 [ %r1 ], %rd1;", "tcgen05.mma f8f6f4"),
        ("mma.sync.aligned.m16n8k32.row.col.satfinite.s32.s8.s8.s32 {%r1};",
         "mma.sync m16n8k32 s8"),
        ("mma.sync.aligned.m16n8k8.row.col.f32.tf32.tf32.f32 {%r1};", "mma.sync m16n8k8 tf32"),
        ("mma.sync.aligned.m8n8k4.row.col.f64.f64.f64.f64 {%r1};", "mma.sync m8n8k4 f64"),
    ],
)  # fmt: skip
def test_names_of_ptx_matrix_instructions(line, name):
    assert assembly.ptx(line, "")["matrix"] == {name: 1}


def test_spills_are_stores_plus_loads():
    log = "0 bytes stack frame, 48 bytes spill stores, 64 bytes spill loads\nUsed 255 registers"
    found = assembly.ptx("", log)
    assert (found["spill_bytes"], found["registers"]) == (112, 255)


def test_accumulators_are_counted_apart():
    lines = "; NumVgprs: 128\n; NumAgprs: 96\n .vgpr_count: 224\n .agpr_count: 96\n"
    for source in (lines, lines.split("\n", 2)[2]):  # with LLVM's comments, with metadata only
        found = assembly.amdgcn(source)
        assert (found["registers"], found["accumulators"]) == (128, 96)


def test_an_unknown_kind_is_an_error():
    with pytest.raises(ValueError, match="'spirv'"):
        assembly.read({"kind": "spirv", "assembly": "", "log": ""})


@pytest.fixture(scope="module")
def compiler():
    pytest.importorskip("triton", reason="triton is not installed")
    from portable.backends.triton import _crosscompile

    return _crosscompile


def build(compiler, architecture, block=64, warps=4):
    return compiler.build_source(
        KERNELS, "product", PRODUCT, {"BLOCK": block}, {"num_warps": warps}, architecture
    )


@pytest.fixture(scope="module")
def cuobjdump(tmp_path_factory):
    from portable.backends.cuda import _resources

    tool = _resources.tool("cuobjdump")
    assert tool is not None, "the triton package carries cuobjdump"
    file = tmp_path_factory.mktemp("cubins") / "kernel.cubin"

    def printed(binary, option):
        file.write_bytes(binary)
        done = subprocess.run([tool, option, str(file)], capture_output=True, text=True, check=True)
        return done.stdout

    return printed


@pytest.mark.parametrize(("block", "warps"), [(64, 4), (128, 4)])
@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_a_fresh_build_equals_cuobjdump(compiler, cuobjdump, architecture, block, warps):
    artifact = build(compiler, architecture, block, warps)
    binary = artifact["binary"]
    usage = cuobjdump(binary, "-res-usage")
    found = assembly.read(artifact)
    assert found["registers"] == number(r"REG:(\d+)", usage)
    assert found["stack"] == number(r"STACK:(\d+)", usage)
    assert found["binary_size"] == len(binary)
    assert found["matrix"]
    seen = assembly.cuobjdump(cuobjdump(binary, "-sass"), usage)
    assert found["spill_bytes"] == seen["spill_bytes"]
    assert (found["spill_bytes"] > 0) == (architecture == "sm_80" and block == 128)


CROWDED = """
extern "C" __global__ void __launch_bounds__(1024, 2) crowded(float* y, const float* x) {
  __shared__ float tile[1024];
  float v[48];
  #pragma unroll
  for (int i = 0; i < 48; ++i) v[i] = x[threadIdx.x + 1024 * i];
  tile[threadIdx.x] = v[0];
  __syncthreads();
  #pragma unroll
  for (int i = 0; i < 48; ++i) {
    float s = tile[(threadIdx.x + i) & 1023];
    #pragma unroll
    for (int j = 0; j < 48; ++j) s += v[i] * v[j] + v[j];
    y[threadIdx.x + 1024 * i] = s;
  }
}
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90"])
def test_a_fresh_cuda_build_equals_cuobjdump(cuobjdump, architecture, tmp_path):
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    from portable.backends.cuda import _crosscompile

    file = tmp_path / "crowded.cu"
    file.write_text(CROWDED)
    artifact = _crosscompile.build_source("crowded", {}, {}, {"threads": 1024}, architecture,
                                          path=str(file))  # fmt: skip
    found = assembly.read(artifact)
    usage = cuobjdump(artifact["binary"], "-res-usage")
    assert found["registers"] == number(r"REG:(\d+)", usage) == 32  # two blocks of 1024 must fit
    assert found["stack"] == number(r"STACK:(\d+)", usage)
    reserved = 1024 if architecture == "sm_90" else 0  # cuobjdump counts it, occupancy adds it
    assert found["shared"] == number(r"SHARED:(\d+)", usage) - reserved == 4096
    code = cuobjdump(artifact["binary"], "-sass")
    assert found["spill_bytes"] > 0
    assert len(re.findall(r"\b(?:STL|LDL)\b", code)) <= found["spill_bytes"] // 4


BARE = """
extern "C" __global__ void bare(float* y, const float* x) { y[threadIdx.x] = 2 * x[threadIdx.x]; }
"""
DYNAMIC = """
extern "C" __global__ void dynamic(float* y, const float* x) {
  extern __shared__ float tile[];
  tile[threadIdx.x] = x[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = tile[threadIdx.x ^ 33];
}
"""


@pytest.mark.parametrize("architecture", ["sm_80", "sm_90", "sm_120"])
@pytest.mark.parametrize(
    ("name", "text", "shared"), [("bare", BARE, 0), ("dynamic", DYNAMIC, 2048)]
)
def test_shared_memory_is_what_the_kernel_asks_for(cuobjdump, architecture, name, text, shared):
    """cuobjdump counts 1 KiB of the system's from sm_90 on, but not where a kernel uses none."""
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    from portable.backends.cuda import _crosscompile

    options = {"threads": 256, "shared": shared}
    artifact = _crosscompile.build_source(name, {}, {}, options, architecture, text=text)
    printed = number(r"SHARED:(\d+)", cuobjdump(artifact["binary"], "-res-usage"))
    assert printed == (1024 if shared and architecture != "sm_80" else 0)
    assert assembly.read(artifact)["shared"] == shared


@pytest.mark.parametrize(
    ("architecture", "block", "warps"),
    [("gfx942", 64, 4), ("gfx942", 128, 2), ("gfx1100", 64, 4), ("gfx1100", 128, 8)],
)
def test_a_fresh_build_equals_the_binarys_metadata(compiler, architecture, block, warps):
    artifact = build(compiler, architecture, block, warps)
    found = assembly.read(artifact)
    binary = artifact["binary"]
    total, own = packed(binary, b".vgpr_count"), found["registers"]
    if found["accumulators"]:  # they start at a multiple of four
        own += -own % 4
    assert own + found["accumulators"] == total
    if architecture.startswith("gfx9"):
        assert found["accumulators"] == packed(binary, b".agpr_count")
        assert found["accumulators"] > 0 or block == 64
    assert found["scalars"] == packed(binary, b".sgpr_count")
    assert found["spills"] == packed(binary, b".vgpr_spill_count")
    assert (found["spills"] > 0) == (architecture == "gfx1100" and block == 128)
    assert found["stack"] == packed(binary, b".private_segment_fixed_size")
    assert found["matrix"]


@pytest.mark.parametrize("architecture", ["gfx90a", "gfx942", "gfx950", "gfx1100", "gfx1201"])
@pytest.mark.parametrize(("block", "warps"), [(32, 1), (64, 2), (128, 8)])
def test_waves_of_a_fresh_build_are_those_that_llvm_prints(compiler, architecture, block, warps):
    """LLVM's figure is by registers alone; it does not know the shared memory of the launch."""
    from portable.crosscompile import resolve
    from portable.hwdb.occupancy import occupancy

    artifact = build(compiler, architecture, block, warps)
    found, spec = assembly.read(artifact), resolve(architecture).spec
    got = occupancy(
        spec,
        threads=spec.limits["warp_size"],
        registers=found["registers"],
        accumulators=found["accumulators"],
        scalar_registers=found["scalars"],
    )
    assert got.warps // spec.limits["simds"] == number(r"; Occupancy: (\d+)",
                                                       artifact["assembly"])  # fmt: skip


def packed(binary, name):
    """The MessagePack integer behind a key of the code object's note."""
    at = binary.index(name) + len(name)
    first = binary[at]
    width = {0xCC: 1, 0xCD: 2, 0xCE: 4}.get(first, 0)
    return int.from_bytes(binary[at + 1 : at + 1 + width], "big") if width else first
