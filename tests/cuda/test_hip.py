"""Everything but the tensor-core sources builds under HIP, for warps of 64 and of 32."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from portable.backends.cuda import backend

HIPCC = shutil.which("hipcc")
GXX = shutil.which("g++")


def one_per_kernel(arch):
    found = {}
    for variant in backend.kernels(arch):
        found.setdefault((variant.file, variant.kernel), variant)
    return list(found.values())


def preprocessed(source, *options):
    command = [str(GXX), "-E", "-P", "-x", "c++", "-w", *options, "-"]
    done = subprocess.run(command, input=source, capture_output=True, text=True, check=True)
    return done.stdout


@pytest.mark.skipif(GXX is None, reason="g++ is not installed (apt install g++)")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_no_source_for_amd_needs_ptx(arch):
    variants = one_per_kernel(arch)
    assert len(variants) >= 20
    for variant in variants:
        assert "asm(" in preprocessed(variant.source), "PTX is seen where it is"
        assert "asm(" not in preprocessed(variant.source, "-D__HIP__"), variant.file


@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_every_op_has_a_kernel_for_amd(arch):
    variants = one_per_kernel(arch)
    assert not [v.file for v in variants if v.file.endswith("_mma.cu")]
    ops = {v.op for v in backend.kernels(arch)} | {"linear", "quantized_matmul"}
    assert ops == set(backend.ops())


@pytest.mark.skipif(HIPCC is None, reason="hipcc is not installed (apt install hipcc)")
@pytest.mark.parametrize("arch", ["gfx90a", "gfx1030"])
def test_builds(arch, tmp_path):
    for variant in one_per_kernel(arch):
        source, out = tmp_path / "kernel.hip", tmp_path / "kernel.s"
        source.write_text(f"#include <hip/hip_runtime.h>\n{variant.source}")
        options = [f"--offload-arch={arch}", "--cuda-device-only", "-std=c++17", "-O1", "-w", "-S"]
        done = subprocess.run(
            [str(HIPCC), *options, str(source), "-o", str(out)], capture_output=True, text=True
        )
        assert done.returncode == 0, f"{variant.file} {variant.macros}\n{done.stderr[:3000]}"
        assert f"{variant.kernel}:" in out.read_text()
