"""The two plugins under examples/: installed like anybody's, in an environment of their own."""

from __future__ import annotations

import importlib.util
import json
import sys
from pathlib import Path

import numpy as np
import pytest

from tests.plugins.test_adding import clean, run  # noqa: F401

ROOT = Path(__file__).parent.parent.parent
EXAMPLES = ROOT / "examples"

needs_numba = pytest.mark.skipif(
    importlib.util.find_spec("numba") is None, reason="pip install 'portable-kernels[test]'"
)
needs_iree = pytest.mark.skipif(
    importlib.util.find_spec("iree") is None, reason="pip install 'portable-kernels[test]'"
)


@needs_numba
@needs_iree
def test_both_install_conform_and_leave_no_trace(tmp_path, clean):  # noqa: F811
    site, environment = clean
    before = {p.name for p in site.iterdir()}
    install = "pip install -q --no-deps --no-build-isolation"
    run(f"{install} {EXAMPLES / 'portable-numba'} {EXAMPLES / 'portable-iree'}", tmp_path,
        environment)  # fmt: skip
    listed = run("portable plugin list", tmp_path, environment)
    assert "portable-numba: portable_numba:backend" in listed
    assert "portable-iree: portable_iree:backend" in listed
    tests = EXAMPLES / "portable-numba" / "tests"
    pytest_ = "pytest -q -p no:cacheprovider"
    said = run(f"{pytest_} {tests} -k 'embedding-float32 or contract'", tmp_path, environment)
    assert "passed" in said
    run("portable conformance numba --op argmax --report numba.json", tmp_path, environment)
    badge = json.loads((tmp_path / "numba.json").read_text())
    assert badge["conforms"]
    assert badge["versions"]["portable-numba"] == "0.1.0"
    tests = EXAMPLES / "portable-iree" / "tests"
    said = run(f"{pytest_} {tests} -k contract", tmp_path, environment)
    assert "passed" in said
    run("pip uninstall -q --yes portable-numba portable-iree", tmp_path, environment)
    assert {p.name for p in site.iterdir()} - before <= {"__pycache__"}
    assert "portable_numba" not in run("portable plugin list", tmp_path, environment)


@pytest.fixture
def examples(site):
    site.link(EXAMPLES / "portable-numba", "portable_numba")
    site.link(EXAMPLES / "portable-iree", "portable_iree")
    site.distribution("portable-numba", numba="portable_numba:backend")
    site.distribution("portable-iree", iree="portable_iree:backend")
    return site


def test_listing_them_imports_neither_library(examples):
    import portable

    loaded = {"numba", "iree", "llvmlite"} & set(sys.modules)
    listed = {b.name: b for b in portable.backends()}
    assert {"numba", "iree"} <= set(listed)
    assert not (({"numba", "llvmlite"} & set(sys.modules)) - loaded)


@needs_numba
def test_numba_is_chosen_where_records_say_that_it_is_faster(examples):
    """Row-wise norms: one pass over memory against NumPy's temporaries."""
    import portable
    from portable import cases, engine, records, registry
    from portable.contest import contest

    shapes = [(1024, 1024), (1024,), (1024,)]
    problem = cases.problem_of_shapes(registry.op("layer_norm"), shapes, "float32", {})
    result = contest(problem, budget=1.0, backends=["numpy", "numba"])
    times = {r.backend: r.time for r in result.records if r.ok}
    assert times["numba"] < times["numpy"]
    records.default_store().add(result.records)
    engine.refresh()
    x, w = np.ones((1024, 1024), np.float32), np.ones(1024, np.float32)
    expected = {c.name: c.estimate.time for c in portable.explain("layer_norm", x, w, w).candidates}
    assert expected["numba"] < expected["numpy"]


@needs_numba
def test_numba_is_the_best_of_all_that_are_installed(examples):
    """One row of a decoder: one call of compiled code; see the README of the plugin for more."""
    import portable
    from portable import cases, engine, records, registry
    from portable.contest import contest

    shapes = [(1, 4096), (1, 4096), (4096,)]
    problem = cases.problem_of_shapes(registry.op("add_rms_norm"), shapes, "float32", {})
    for _ in range(3):  # others at work hit whoever needs all cores, or none
        result = contest(problem, budget=1.5, configs=2)
        assert len({r.backend for r in result.records if r.ok}) > 1
        if result.best().backend == "numba":
            break
    assert result.best().backend == "numba"
    records.default_store().add(result.records)
    engine.refresh()
    arrays = [np.ones(shape, np.float32) for shape in shapes]
    assert portable.explain("add_rms_norm", *arrays).candidates[0].name == "numba"


@needs_numba
@pytest.mark.parametrize("op", ["cumsum", "softmax"])
def test_numba_conforms(examples, op):
    from portable.conformance import conform

    result = conform("numba", ops=[op], level="hostile", dtypes=["float32"])
    assert result.passed, str(result)


@needs_iree
def test_iree_conforms_on_every_runtime_here(examples):
    from portable import registry
    from portable.conformance import conform

    runtimes = {d.runtime for d in registry.backend("iree").devices()}
    assert "llvm-cpu" in runtimes  # and "vulkan" where Mesa's lavapipe is installed
    result = conform("iree", ops=["swiglu"], level="core", dtypes=["float32"])
    assert result.passed, str(result)
    ran = {o.candidate for o in result.outcomes if o.status == "passed" and o.op == "swiglu"}
    assert ran == {f"iree[{r}]" for r in runtimes}


@needs_iree
def test_iree_compiles_for_rocm_without_a_gpu(examples):
    from portable_iree import _crosscompile

    from portable import cases, registry

    matmul = registry.op("matmul")
    problem = cases.problem_of_shapes(matmul, [(256, 256), (256, 256)], "float16", {})
    assert _crosscompile.configs("matmul", problem, "gfx942", 304) == [{}]
    made = _crosscompile.build("matmul", problem, "gfx942", 304, {}, 0)
    assert made["kind"] == "amdgcn"
    assert "v_mfma_f32" in made["assembly"]
    assert made["threads"] >= 64
    assert made["binary_size"] > 1000
    assert "no AMD GPU" in _crosscompile.why_not_target("sm_90")
