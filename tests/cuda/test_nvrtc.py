"""The same sources through NVRTC: machine code for every NVIDIA target, without a GPU."""

from __future__ import annotations

import importlib.util
from importlib.metadata import version

import pytest

from portable.backends.cuda import backend
from portable.backends.cuda._build import digest
from portable.backends.cuda._resources import tool
from portable.errors import CompileError

pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("cuda") is None
    or importlib.util.find_spec("cuda.core") is None
    or importlib.util.find_spec("nvidia.cu13") is None,
    reason="NVRTC is not installed (pip install cuda-core nvidia-cuda-nvrtc)",
)
needs_cuobjdump = pytest.mark.skipif(
    tool("cuobjdump") is None, reason="no cuobjdump (pip install triton)"
)
ARCHES = ("sm_75", "sm_80", "sm_86", "sm_89", "sm_90a", "sm_100a", "sm_120")


def one_per_kernel(arch):
    """One variant of each kernel and source file: the half types' if there is one.

    All variants of all kernels are built by `python -m bench.cuda_resources`.
    """
    found = {}
    for variant in backend.kernels(arch):
        key = (variant.file, variant.kernel, "int8" in variant.note, "tf32" in variant.note)
        if key not in found or ("float16" in variant.note and "float16" not in found[key].note):
            found[key] = variant
    return list(found.values())


def resources_of(variant, arch, cache):
    """Built and read once per source, architecture and compiler version."""
    key = f"cuda-nvrtc/{digest(variant.source + arch + version('nvidia-cuda-nvrtc'))}"
    found = cache.get(key, None) if cache else None
    if found is None:
        found = dict(
            backend.resources(backend.build_cubin(variant.source, arch, {}))[variant.kernel]
        )
        if cache:
            cache.set(key, found)
    return found


@needs_cuobjdump
@pytest.mark.parametrize("arch", ARCHES)
def test_every_kernel_builds_without_spills(arch, pytestconfig):
    variants = one_per_kernel(arch)
    assert len(variants) >= 25
    for variant in variants:
        found = resources_of(variant, arch, getattr(pytestconfig, "cache", None))
        what = f"{variant.kernel} {dict(variant.macros)} for {arch}: {found}"
        assert found["spills"] == 0, what
        assert found["stack"] == 0, what
        assert 0 < found["registers"] <= 65536 // variant.block, what
        if variant.file.endswith("_mma.cu"):
            wanted = "IMMA" if "int8" in variant.note else "HMMA"
            assert wanted in found["matrix"], what
        if variant.file == "_gemm_wide.cu":
            assert found["matrix"] == ["DMMA" if "float64" in variant.note else "HMMA"], what


@needs_cuobjdump
def test_bfloat16_uses_the_matrix_units_from_sm_80_on():
    def kernels_of(arch):
        return [v for v in backend.kernels(arch) if v.op == "matmul" and "bfloat16" in v.note]

    assert not [v for v in kernels_of("sm_75") if v.kernel == "gemm_mma"]
    variant = next(v for v in kernels_of("sm_90a") if v.kernel == "gemm_mma")
    found = backend.resources(backend.build_cubin(variant.source, "sm_90a", {}))["gemm_mma"]
    assert found["matrix"] == ["HMMA"]
    assert found["widest_load"] == 16


@needs_cuobjdump
def test_row_kernels_read_16_bytes_at_once():
    for name in ("softmax_rows", "norm_rows", "elementwise", "rope", "gather_rows"):
        variant = next(v for v in backend.kernels("sm_80") if v.kernel == name)
        found = backend.resources(backend.build_cubin(variant.source, "sm_80", {}))[name]
        assert found["widest_load"] == found["widest_store"] == 16, name


def test_a_source_that_does_not_build_carries_its_log():
    with pytest.raises(CompileError) as caught:
        backend.build_cubin("__global__ void broken() { undefined_name(); }", "sm_80", {})
    assert "undefined_name" in caught.value.log
    assert "broken" in caught.value.source


def test_a_file_of_the_package_is_named_with_its_macros():
    cubin = backend.build_cubin("transpose.cu", "sm_80", {"T": "u32"})
    assert cubin[:4] == b"\x7fELF"
