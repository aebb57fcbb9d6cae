"""The static judgement of builds that are made up: every kind of finding, its order, its words."""

from __future__ import annotations

from dataclasses import replace

import pytest

from portable import hwdb, machine
from portable.cases import problem_of_shapes
from portable.crosscompile import Built, Skipped, Unit, compare, failures, resolve
from portable.crosscompile.judge import judge, spoken
from portable.crosscompile.run import Report
from portable.errors import UnknownNameError
from portable.registry import op

MMA = {"mma.sync m16n8k16 bf16": 64}


def product(dtype="bfloat16", grid=1024, tile=(128, 128), factor=None, extent=(4096, 4096)):
    problem = problem_of_shapes(op("matmul"), [(4096, 4096), (4096, 4096)], dtype, {})
    return Unit("triton", "matmul", "square", "gemm", {"variant": "tile"}, 0, grid, "h", problem,
                extent, tile, factor or dtype, 4096)  # fmt: skip


def good(**changes):
    fields = {"registers": 128, "shared": 65536, "threads": 256, "matrix": MMA,
              "loads": {"128": 8}}  # fmt: skip
    return Built("ok", **{**fields, **changes})


def kinds(row):
    return [finding.kind for finding in row.findings]


def test_a_good_kernel_has_no_findings_but_a_share():
    row = judge(product(), resolve("sm_80"), good())
    assert kinds(row) == []
    assert row.occupancy == pytest.approx(16 / 64)
    # 1024 tiles on 108 SMs x 2 blocks: 5 waves of 216, all elements used
    assert row.roof_share == pytest.approx(1024 / (5 * 216))


def test_a_product_without_matrix_unit_is_told_with_what_it_loses():
    row = judge(product(), resolve("gfx942"), good(matrix={}))
    (finding,) = [f for f in row.findings if f.kind == "no-matrix-unit"]
    spec = resolve("gfx942").spec
    loss = spec.peak("bfloat16", "matrix") / spec.peak("bfloat16", "vector")
    assert finding.cost == pytest.approx(loss)
    assert "bf16 matmul on gfx942 uses no matrix instruction" in finding.text


def test_no_matrix_unit_is_expected_where_the_device_has_none():
    row = judge(product("float32"), resolve("sm_80"), good(matrix={}))
    assert "no-matrix-unit" not in kinds(row)


def test_fp8_on_the_half_path_is_a_slow_path():
    fp8 = product(factor="float16")
    shapes = [(512, 512), (512, 512), (), ()]
    problem = problem_of_shapes(
        op("quantized_matmul"), shapes, "float8_e4m3fn", {"out_dtype": "bfloat16"}
    )
    unit = replace(fp8, op="quantized_matmul", problem=problem)
    row = judge(unit, resolve("sm_90"), good(matrix={"wgmma m64n128k16 f16": 8}))
    (finding,) = [f for f in row.findings if f.kind == "slow-path"]
    assert finding.cost == pytest.approx(2.0, rel=0.01)
    assert "f8e4m3 quantized_matmul on sm_90 runs on the f16 path" in finding.text


def test_fp8_operands_that_the_compiler_widens_are_told():
    unit = replace(product(), problem=None, op="theirs.py", factor="float8_e4m3fn")
    half = good(matrix={"v_mfma_f32_32x32x8_f16": 64}, shared=32768)
    (finding,) = [f for f in judge(unit, resolve("gfx942"), half).findings if "path" in f.text]
    assert finding.kind == "slow-path"
    assert "f8e4m3 theirs.py on gfx942 runs on the f16 path, 2 times slower" in finding.text
    mma = good(matrix={"mma.sync m16n8k16 f16": 64})
    (finding,) = [f for f in judge(unit, resolve("sm_80"), mma).findings if "path" in f.text]
    assert finding.kind == "widened"
    assert "the device has no matrix rate for f8e4m3" in finding.text


@pytest.mark.parametrize(
    ("name", "dtype"),
    [
        ("v_mfma_f32_32x32x8bf16_1k", "bf16"), ("v_mfma_f32_16x16x4_f32", "f32"),
        ("v_wmma_i32_16x16x16_iu8", "iu8"), ("mma.sync m16n8k16 f16", "f16"),
        ("v_mfma_f32_32x32x64_f8f6f4", "f8f6f4"), ("wgmma m64n64k32 e4m3", "e4m3"),
        ("HMMA.16816.F32", "f16"), ("HMMA.16816.F32.BF16", "bf16"), ("HMMA.1688.F32.TF32", "tf32"),
    ],
)  # fmt: skip
def test_the_dtype_an_instruction_multiplies(name, dtype):
    assert spoken(good(matrix={name: 1})) == dtype


@pytest.mark.parametrize(
    ("target", "names", "told"),
    [
        ("sm_90", ["HMMA.16816.F32.BF16"], True), ("sm_90", ["wgmma m64n256k16 bf16"], False),
        ("sm_100", ["mma.sync m16n8k16 bf16"], True), ("sm_80", ["HMMA.16816.F32.BF16"], False),
        ("sm_90", ["mma.sync m16n8k16 bf16", "wgmma m64n8k16 bf16"], False),
        ("sm_90", ["mma.sync m8n8k4 f64"], False), ("sm_90", ["DMMA.8x8x4"], False),
        ("sm_120", ["mma.sync m16n8k16 bf16"], False), ("sm_90", ["HGMMA.64x256x16.F32"], False),
    ],
)  # fmt: skip
def test_instructions_that_do_not_reach_the_full_rate(target, names, told):
    row = judge(product(), resolve(target), good(matrix=dict.fromkeys(names, 8)))
    assert ("older-instruction" in kinds(row)) == told
    few_rows = product(tile=(16, 128), extent=(16, 4096))
    row = judge(few_rows, resolve(target), good(matrix=dict.fromkeys(names, 8)))
    assert "older-instruction" not in kinds(row)


def test_spills_stack_and_narrow_loads():
    assert "spill" in kinds(judge(product(), resolve("sm_90"), good(spill_bytes=8)))
    assert "spill" in kinds(judge(product(), resolve("gfx942"), good(spills=3)))
    assert "stack" in kinds(judge(product(), resolve("sm_90"), good(stack=64)))
    assert "narrow-loads" in kinds(judge(product(), resolve("sm_90"), good(loads={"16": 4})))
    wide = good(loads={"16": 4, "128": 1})
    assert "narrow-loads" not in kinds(judge(product(), resolve("sm_90"), wide))
    assert "narrow-loads" not in kinds(judge(product(), resolve("sm_90"), good(loads={"bulk": 2})))


def test_a_block_that_does_not_fit_cannot_launch():
    row = judge(product(), resolve("sm_86"), good(shared=200_000))
    assert kinds(row)[0] == "cannot-launch"
    assert row.occupancy is None
    assert "shared memory" in row.findings[0].text


def test_quantisation_of_waves_and_tiles():
    row = judge(product(grid=217), resolve("sm_80"), good())
    assert "wave-quantisation" in kinds(row)
    row = judge(product(grid=4, extent=(129, 129)), resolve("sm_80"), good())
    (finding,) = [f for f in row.findings if f.kind == "tile-quantisation"]
    assert finding.cost == pytest.approx(256 * 256 / (129 * 129))


def test_findings_come_most_costly_first():
    row = judge(product(), resolve("gfx942"), good(matrix={}, spills=8))
    costs = [finding.cost for finding in row.findings]
    assert costs == sorted(costs, reverse=True)
    assert kinds(row)[0] == "no-matrix-unit"


@pytest.mark.parametrize(
    ("status", "kind"), [("error", "fails"), ("hang", "hang"), ("crash", "crash"), ("oom", "crash")]
)
def test_what_does_not_build_is_a_row(status, kind):
    row = judge(product(), resolve("sm_90"), Built(status, "its words"))
    assert kinds(row) == [kind]
    assert "its words" in row.findings[0].text


def rows():
    a, b = resolve("sm_90"), resolve("gfx1100")
    yield judge(product(), a, good())
    yield judge(product(), b, good(matrix={}, registers=200, spills=4, shared=16384))


def test_the_diff_names_what_the_second_target_loses():
    found = compare(list(rows()), "sm_90", "gfx1100")
    assert {d.kind for d in found} == {"no-matrix-unit", "spill"}
    assert not compare(list(rows()), "gfx1100", "sm_90")


def test_a_kernel_that_exists_on_one_side_only_is_a_loss():
    first, _ = rows()
    (difference,) = compare([first], "sm_90", "gfx1100")
    assert difference.kind == "fails"
    assert difference.text == "has no kernel on gfx1100"
    why = [
        Skipped("triton", "never seen", "gfx1100"),
        Skipped("triton", "too large", "gfx1100", "matmul", "square"),
    ]
    (difference,) = compare([first], "sm_90", "gfx1100", why)
    assert difference.text == "has no kernel on gfx1100: too large"


def test_a_launch_that_the_port_does_without_is_no_loss():
    first, second = (judge(product(), resolve(name), good()) for name in ("sm_90", "gfx1100"))
    extra = replace(first, unit=replace(first.unit, kernel="combine", index=1))
    assert compare([first, extra, second], "sm_90", "gfx1100") == []


def test_a_port_to_another_dtypes_path_is_a_loss():
    unit = replace(product(), problem=None, factor="float8_e4m3fn")
    fine = judge(unit, resolve("sm_90"), good(matrix={"wgmma m64n64k32 e4m3": 8}))
    half = judge(unit, resolve("gfx942"), good(matrix={"v_mfma_f32_32x32x8_f16": 8}))
    found = {d.kind: d.text for d in compare([fine, half], "sm_90", "gfx942")}
    assert "runs on the f16 path, 2 times slower" in found["slow-path"]
    assert "slow-path" not in {d.kind for d in compare([half, fine], "gfx942", "sm_90")}


def test_fail_on_picks_rows_and_refuses_unknown_kinds():
    report = Report(tuple(rows()), (), {})
    ((row, finding),) = failures(report, ["spill"])
    assert (row.target.name, finding.kind) == ("gfx1100", "spill")
    assert failures(report, ["hang"]) == []
    with pytest.raises(UnknownNameError, match="no-matrix-unit"):
        failures(report, ["no-matrix-units"])


def test_here_is_a_target(monkeypatch):
    monkeypatch.setattr(machine, "spec_of", lambda name: hwdb.get("MI300X"))
    assert (resolve("here").name, resolve("here").architecture) == ("amd-mi300x", "gfx942")


def test_targets_are_architectures_or_devices():
    assert resolve("sm_90a").spec.key == "nvidia-h200-sxm"
    assert resolve("MI300X").architecture == "gfx942"
    assert resolve("amd-mi325x").name == "amd-mi325x"
    with pytest.raises(UnknownNameError, match="gfx942"):
        resolve("gfx94")
