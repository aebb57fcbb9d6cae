"""`explain` for hardware that is not here: cached facts only, unless asked to build."""

from __future__ import annotations

import numpy as np
import pytest

import portable
from portable import crosscompile as cc
from portable.cases import problem_of_shapes
from portable.crosscompile import worker
from portable.registry import op

pytest.importorskip("triton", reason="triton is not installed")


@pytest.fixture
def only_triton(monkeypatch):
    hooks = {"triton": worker.hooks()["triton"]}
    monkeypatch.setattr(worker, "hooks", lambda: hooks)


def product():
    return problem_of_shapes(op("matmul"), [(4096, 4096), (4096, 4096)], "float16", {})


def test_nothing_is_compiled_unless_asked(own_cache, only_triton):
    found = cc.elsewhere(product(), "gfx942")
    assert found.report.rows == ()
    assert [unit.kernel for unit, _ in found.report.unbuilt] == ["gemm"]
    assert list(own_cache.iterdir()) == []
    text = str(found)
    assert "on Instinct MI300X: speed of light" in text
    assert "not built for gfx942 yet: triton gemm; `--build`" in text


def test_explain_shows_what_the_compiler_said(only_triton):
    a = np.ones((4096, 4096), np.float16)
    told = portable.explain("matmul", a, a, target="gfx942", build=True)
    (there,) = told.elsewhere
    (row,) = there.report.rows
    assert row.built.ok
    assert row.built.matrix
    text = str(told)
    assert text.startswith("matmul(a: f16[4096x4096]")  # the ordinary explanation comes first
    last = text[text.index("built for gfx942, not run") :]
    for fact in (
        str(row.built.registers), "v_mfma", f"{row.occupancy:.0%}", row.limited_by[0],
        "at most", "an upper limit",
    ):  # fmt: skip
        assert fact in last
    again = cc.elsewhere(problem=told.problem, target="MI300X")  # from the cache
    assert again.report.unbuilt == ()
    assert again.report.rows[0].built.registers == row.built.registers


def test_an_ordinary_explanation_asks_no_compiler(monkeypatch):
    monkeypatch.setattr(worker, "hooks", lambda: pytest.fail("a compiler was asked"))
    a = np.ones((4, 4), np.float32)
    assert portable.explain("matmul", a, a).elsewhere == ()


def test_who_cannot_build_for_a_target_is_named():
    told = portable.explain("softmax", np.ones((4, 64), np.float32), target=["gfx1100", "TPU v6e"])
    amd, tpu = told.elsewhere
    assert "cuda gfx1100: NVRTC builds for NVIDIA only" in str(amd)
    assert tpu.report.rows == ()
    assert "not tried: triton google-tpu-v6e: architecture is tpu_v6e" in str(tpu)


def test_cuda_kernels_follow_the_problem():
    pytest.importorskip("cuda.core", reason="cuda-core is not installed")
    report = cc.crosscompile(
        backends=["cuda"], problems=[("mine", product())], targets=["sm_90"], budget=0.0
    )
    ((unit, _),) = report.unbuilt
    assert (unit.kernel, unit.op, unit.label) == ("gemm_mma", "matmul", "mine")
    rows, columns = unit.tile
    assert unit.grid >= (4096 // rows) * (4096 // columns)
    assert (unit.extent, unit.factor) == ((4096, 4096), "float16")


def test_problems_of_other_ops_are_not_replaced_by_ours():
    report = cc.crosscompile(problems=[("mine", product())], ops=["softmax"], targets=["gfx942"])
    assert report.rows == report.unbuilt == ()


def test_time_that_is_up_leaves_units_out(only_triton):
    problem = problem_of_shapes(op("matmul"), [(4096, 4096), (4096, 4096)], "bfloat16", {})
    report = cc.crosscompile(problems=[("", problem)], targets=["gfx942"], budget=0.01)
    assert report.rows == ()
    assert len(report.unbuilt) == 1


def test_unknown_targets_are_refused():
    with pytest.raises(portable.errors.UnknownNameError, match="gfx942"):
        portable.explain("softmax", np.ones((4, 64), np.float32), target="gfx943")
