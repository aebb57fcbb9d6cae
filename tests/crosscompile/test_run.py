"""Whole runs with the real compiler: third-party kernels, our own, bad ones, the command."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
import typer
from typer.testing import CliRunner

from portable import crosscompile as cc
from portable.crosscompile import cache, source, worker
from portable.errors import ParameterError, UnknownNameError

pytest.importorskip("triton", reason="triton is not installed")

KERNELS = str(Path(__file__).with_name("kernels.py"))
SCALE = "x: *fp16, y: *fp16, n: i32:16, FACTOR = 2.0, BLOCK = 1024, num_warps = 4"


def build(name, signature, *targets, **options):
    return cc.crosscompile_source(f"{KERNELS}::{name}", signature, targets=targets, jobs=1,
                                  **options)  # fmt: skip


def test_a_third_party_kernel_on_both_vendors():
    report = build("scale", SCALE, "sm_90", "gfx942")
    assert [row.built.status for row in report.rows] == ["ok", "ok"]
    for row in report.rows:
        assert row.built.registers > 0
        assert min(map(int, row.built.loads)) >= 64  # 8 elements a lane, 4 of a wave of 64
        assert not row.built.spilled
        assert row.occupancy == 1.0
    again = build("scale", SCALE, "sm_90", "gfx942")
    assert all(row.built.cached for row in again.rows)
    assert [r.built.registers for r in again.rows] == [r.built.registers for r in report.rows]


def test_a_size_of_unknown_alignment_costs_the_vector_loads():
    (row,) = build("scale", SCALE.replace("i32:16", "i32"), "sm_90").rows
    assert set(row.built.loads) == {"16"}
    assert [finding.kind for finding in row.findings] == ["narrow-loads"]


def test_autotuned_kernels_are_unwrapped_and_judged_for_matrix_units():
    report = build("product", "a: *fp16, b: *fp16, c: *fp32, BLOCK = 32, num_warps = 1", "gfx942")
    (row,) = report.rows
    assert list(row.built.matrix) == ["v_mfma_f32_32x32x8_f16"]
    assert "no-matrix-unit" not in [f.kind for f in row.findings]


def test_float32_products_that_allow_tf32_use_it():
    signature = "a: *fp32, b: *fp32, c: *fp32, BLOCK = 32, num_warps = 4"
    (row,) = build("product", signature, "sm_90").rows
    assert row.built.ok
    assert row.built.matrix
    assert all("tf32" in name for name in row.built.matrix)


def test_a_kernel_that_spills_is_found():
    (row,) = build("greedy", "x: *fp32, y: *fp32, BLOCK = 16384, num_warps = 1", "sm_90").rows
    assert row.built.spilled
    assert "spill" in [finding.kind for finding in row.findings]


def test_a_kernel_of_a_package_with_relative_imports(tmp_path):
    package = tmp_path / "theirs"
    package.mkdir()
    (package / "__init__.py").write_text("")
    (package / "parts.py").write_text("FACTOR = 3\n")
    text = Path(KERNELS).read_text(encoding="utf-8")
    file = package / "kernels.py"
    file.write_text("from .parts import FACTOR\n" + text)
    report = cc.crosscompile_source(f"{file}::scale", SCALE, targets=["sm_80"], jobs=1)
    assert report.rows[0].built.ok, report.rows[0].built.log
    (package / "parts.py").write_text("OTHER = 3\n")  # what it imports counts for the cache
    report = cc.crosscompile_source(f"{file}::scale", SCALE, targets=["sm_80"], jobs=1)
    assert "FACTOR" in report.rows[0].built.message


def test_the_compilers_refusal_is_a_row_with_its_words():
    (row,) = build("wrong", "x: *fp32, BLOCK = 64", "sm_90").rows
    assert row.built.status == "error"
    assert "no_such_function" in row.built.log
    assert [finding.kind for finding in row.findings] == ["fails"]


def test_one_line_of_a_long_log_says_why():
    log = "CompilationError: at 118:14:\n    qk += tl.dot(q, trans_b=True)\n    ^\nno such argument"
    assert worker.shorten(log) == "CompilationError: at 118:14: no such argument"
    assert worker.shorten("6: NVRTC\na.cu(7): error: x is undefined\n1 error") == (
        "a.cu(7): error: x is undefined"
    )
    assert worker.shorten("") == "no output"


def test_what_failed_is_tried_again(tmp_path):
    file = tmp_path / "needs.py"
    file.write_text("import no_such_module_beside\n" + Path(KERNELS).read_text(encoding="utf-8"))

    def built():
        return cc.crosscompile_source(f"{file}::scale", SCALE, targets=["sm_80"], jobs=1).rows[0]

    assert "no_such_module_beside" in built().built.message
    (tmp_path / "no_such_module_beside").mkdir()  # as an installation would bring it
    (tmp_path / "no_such_module_beside" / "__init__.py").write_text("")
    assert built().built.ok


def test_a_signature_that_does_not_fit_says_what_is_missing():
    (row,) = build("scale", "x: *fp16, z: *fp16, FACTOR = 2.0, BLOCK = 64", "sm_90").rows
    assert "the signature lacks y, n; z is no argument of it" in row.built.log


@pytest.mark.parametrize(
    ("body", "status", "timeout"),
    [("while True: pass", "hang", 15.0), ("import os; os._exit(3)", "crash", 120.0)],
)
def test_a_compiler_that_hangs_or_dies_is_a_row(tmp_path, body, status, timeout):
    file = tmp_path / "bad.py"
    file.write_text(f"{body}\n")
    # the child needs a second or two to start; the hang would last for ever
    report = cc.crosscompile_source(f"{file}::kernel", "x: *fp32", targets=["sm_90"], jobs=1,
                                    timeout=timeout)  # fmt: skip
    (row,) = report.rows
    assert row.built.status == status
    assert [finding.kind for finding in row.findings] == [status]


def test_a_damaged_cache_file_is_built_again(own_cache):
    build("scale", SCALE, "gfx942")
    for file in own_cache.glob("*.json"):
        file.write_text('{"status": "ok", "registers": "many"}')
    (row,) = build("scale", SCALE, "gfx942").rows
    assert not row.built.cached
    assert isinstance(row.built.registers, int)


def test_the_cache_key_knows_compiler_target_and_source():
    unit = source.unit_of(f"{KERNELS}::scale", SCALE)
    other = source.unit_of(f"{KERNELS}::scale", SCALE.replace("1024", "512"))
    keys = {
        cache.key(unit, "sm_90", {"triton": "1"}), cache.key(unit, "sm_90", {"triton": "2"}),
        cache.key(unit, "sm_80", {"triton": "1"}), cache.key(other, "sm_90", {"triton": "1"}),
    }  # fmt: skip
    assert len(keys) == 4


def test_our_own_kernels_of_one_op():
    report = cc.crosscompile(backends=["triton"], ops=["swiglu"], targets=["sm_90", "gfx1100"],
                             jobs=1)  # fmt: skip
    assert {row.unit.kernel for row in report.rows} == {"map_kernel"}
    assert len(report.rows) == 4  # two dtypes, two targets
    assert all(row.built.ok and not row.built.spilled for row in report.rows)
    assert all(max(map(int, row.built.loads)) == 128 for row in report.rows)


def test_a_cuda_file(tmp_path):
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    file = tmp_path / "axpy.cu"
    file.write_text(
        'extern "C" __global__ void axpy(float4* y, const float4* x, float a) {\n'
        "  int i = blockIdx.x * blockDim.x + threadIdx.x;\n"
        "  float4 v = x[i], w = y[i];\n"
        "  y[i] = make_float4(w.x + a * v.x, w.y + a * v.y, w.z + a * v.z, w.w + a * v.w);\n}\n"
    )
    report = cc.crosscompile_source(f"{file}::axpy", "", targets=["sm_80", "gfx942"], jobs=1)
    (row,) = report.rows
    assert row.built.ok, row.built.log
    assert row.built.loads == {"128": 2}
    assert tuple(map(str, report.skipped)) == ("cuda gfx942: NVRTC builds for NVIDIA only",)


CUDA = """
#include <cuda_fp16.h>
#include "mine.h"
__global__ void twice(__half2* y) { y[threadIdx.x] = FACTOR * y[threadIdx.x]; }
extern "C" __global__ void reversed(float* y) {
  __shared__ float t[WIDTH];
  t[threadIdx.x] = y[threadIdx.x];
  __syncthreads();
  y[threadIdx.x] = t[WIDTH - 1 - threadIdx.x];
}
"""


def test_a_cuda_file_with_headers_macros_and_several_kernels(tmp_path):
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    file = tmp_path / "several.cu"
    file.write_text(CUDA)
    (tmp_path / "mine.h").write_text("#define FACTOR __float2half2_rn(2.f)\n")

    def built(name, signature="WIDTH = 128, threads = 128", target="sm_80"):
        return cc.crosscompile_source(f"{file}{name}", signature, targets=[target], jobs=1).rows[0]

    row = built("::reversed")
    assert row.built.ok, row.built.log
    assert (row.built.shared, row.built.threads) == (512, 128)
    assert built("::twice").built.ok
    assert "several.cu(6)" in built("::reversed", "", "sm_86").built.message  # WIDTH is undefined
    assert "the source has 2 kernels; name one as FILE::KERNEL" in built("").built.message
    assert "has no kernel 'thrice'" in built("::thrice").built.message
    (tmp_path / "mine.h").write_text("#error changed\n")
    assert built("::twice").built.status == "error"  # a header counts for the cache


@pytest.mark.parametrize(
    ("given", "signature", "message"),
    [
        ("nowhere.py::kernel", "", "there is no file"),
        (KERNELS, "", r"file\.py::kernel"),
        (f"{KERNELS}::scale", "x *fp16", "'name: type'"),
    ],
)
def test_a_source_that_makes_no_sense(given, signature, message):
    with pytest.raises(ParameterError, match=message):
        cc.crosscompile_source(given, signature, targets=["sm_90"])


def test_unknown_names_are_refused():
    with pytest.raises(UnknownNameError, match="triton"):
        cc.crosscompile(backends=["tritn"])
    with pytest.raises(UnknownNameError, match="softmax"):
        cc.crosscompile(ops=["sofmax"])


@pytest.fixture(scope="module")
def command():
    from portable import cli_crosscompile

    app = typer.Typer()
    cli_crosscompile.add_to(app)
    app.command("other")(lambda: None)  # with one command only, its name would not be part of it
    return lambda *arguments: CliRunner().invoke(app, ["crosscompile", "--jobs", "1", *arguments])


def test_the_command_prints_writes_and_fails_on_findings(command, tmp_path):
    greedy = "x: *fp32, y: *fp32, BLOCK = 16384, num_warps = 1"
    json_file, markdown = tmp_path / "rows.json", tmp_path / "rows.md"
    done = command(
        "--source", f"{KERNELS}::greedy", "--signature", greedy, "--target", "sm_90",
        "--fail-on", "spill,no-matrix-unit", "--json", str(json_file), "--markdown", str(markdown),
    )  # fmt: skip
    assert done.exit_code == 3, done.output
    assert "1 of 1 rows fail: exit code 3" in done.output
    assert "spill: triton kernels.py" in done.output
    (row,) = json.loads(json_file.read_text())["rows"]
    assert row["target"]["hardware"] == "nvidia-h200-sxm"
    assert row["built"]["spill_bytes"] > 0
    assert "spills" in markdown.read_text()
    fine = command("--source", f"{KERNELS}::scale", "--signature", SCALE, "--target", "sm_90",
                   "--fail-on", "spill")  # fmt: skip
    assert fine.exit_code == 0, fine.output


def test_the_command_fails_when_nothing_could_be_checked(command):
    words = ("--source", f"{KERNELS}::scale", "--signature", SCALE, "--fail-on", "spill")
    done = command(*words, "--target", "TPU v6e")
    assert done.exit_code == 3
    assert "nothing was built, so nothing was checked" in done.output
    broken = ("--source", f"{KERNELS}::wrong", "--signature", "x: *fp32, BLOCK = 64")
    done = command(*broken, "--fail-on", "spill", "--target", "sm_90")
    assert done.exit_code == 3
    assert "fails: triton kernels.py BLOCK=64 wrong for sm_90: does not build" in done.output


def test_the_command_shows_a_porting_diff(command):
    done = command("--backend", "triton", "--op", "swiglu", "--diff", "sm_90", "gfx1100")
    assert done.exit_code == 0, done.output
    assert "sm_90 -> gfx1100: no losses" in done.output
