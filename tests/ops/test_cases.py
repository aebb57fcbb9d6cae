"""Values and layouts of test inputs, and arrays for measuring."""

from __future__ import annotations

import numpy as np
import pytest

from portable import cases, dtypes
from portable.errors import ArgumentError
from portable.op import Operand, TensorSpec
from tests.ops.common import NAMES, op, posed


@pytest.mark.parametrize("name", NAMES)
def test_cases_have_names_levels_and_operands_of_the_op(name):
    found = op(name).cases()
    assert len({c.name for c in found}) == len(found)
    assert len(found) >= (20 if name == "swiglu" else 35)
    for c in found:
        assert c.level in ("core", "full", "hostile")
        assert set(c.operands) <= set(op(name).operand_names)
        assert set(c.params) <= set(op(name).params)
        assert set(c.dtypes) <= set(op(name).dtypes)
        assert all(o.layout in cases.LAYOUTS for o in c.operands.values())
    for level in ("core", "full", "hostile"):
        assert any(c.level == level for c in found) or name == "rope"


def test_there_are_a_thousand_cases():
    total = sum(len(cases.dtypes_of(op(n), c)) for n in NAMES for c in op(n).cases())
    assert total >= 1000


@pytest.mark.parametrize("name", NAMES)
def test_same_seed_same_arrays(name):
    found = op(name).cases()[0]
    dtype = cases.dtypes_of(op(name), found)[0]
    for a, b in zip(posed(name, found, dtype)[1], posed(name, found, dtype)[1], strict=True):
        assert np.array_equal(a, b)


@pytest.mark.parametrize("name", NAMES)
def test_arrays_have_the_case_s_shapes_and_dtypes(name):
    for found in op(name).cases():
        for dtype in cases.dtypes_of(op(name), found):
            _, arrays = posed(name, found, dtype)
            present = [o for o in op(name).operand_names if o in found.operands]
            for operand_name, array in zip(present, arrays, strict=True):
                operand = found.operands[operand_name]
                assert array.shape == operand.shape
                assert array.dtype.name == (operand.dtype or dtype)


EXPECTED_LAYOUT = {
    "contiguous": "contiguous", "transposed": "transposed", "sliced": "strided",
    "reversed": "reversed", "broadcast": "broadcast",
}  # fmt: skip


@pytest.mark.parametrize("layout", cases.LAYOUTS)
@pytest.mark.parametrize("dtype", ["float32", "bfloat16", "int8"])
def test_layouts_are_what_their_names_say(layout, dtype):
    rng = np.random.default_rng(0)
    for shape in ((4, 5), (2, 3, 4)):
        view = cases.laid_out(Operand(shape, "", "normal", layout), dtype, rng)
        assert view.shape == shape
        assert cases.spec_of(view).layout == EXPECTED_LAYOUT[layout]
    if layout == "sliced":
        base = view if view.base is None else view.base
        start = view.__array_interface__["data"][0] - base.__array_interface__["data"][0]
        assert start > 0
    for shape in ((), (7,), (0, 3), (3, 0)):
        assert cases.laid_out(Operand(shape, "", "normal", layout), dtype, rng).shape == shape


def test_same_values_in_every_layout():
    for layout in ("transposed", "sliced", "reversed"):
        plain = cases.laid_out(Operand((4, 5)), "float32", np.random.default_rng(1))
        view = cases.laid_out(
            Operand((4, 5), "", "normal", layout), "float32", np.random.default_rng(1)
        )
        assert np.array_equal(plain, view)


FLOATS = ("float64", "float32", "float16", "bfloat16", "float8_e4m3fn")


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("recipe", [r for r in cases.RECIPES if ":" not in r])
def test_recipes(recipe, dtype):
    x = cases.fill(recipe, (12, 40), dtype, np.random.default_rng(0)).astype(np.float64)
    assert x.shape == (12, 40)
    if recipe not in ("nan", "inf", "mask") and not recipe.startswith("-inf"):
        assert np.isfinite(x).all()
    if recipe == "nan":
        assert np.isnan(x).any(axis=1).tolist() == [True, False] * 6
    if dtype == "float8_e4m3fn":
        return  # has no infinity, and too little range for the rest
    if recipe == "inf":
        assert (np.isposinf(x).any(axis=1) == (np.arange(12) % 3 == 0)).all()
        assert (np.isneginf(x).any(axis=1) == (np.arange(12) % 3 == 1)).all()
    if recipe == "-inf some":
        assert np.isfinite(x).any(axis=1).all()
        assert np.isneginf(x).any(axis=1).all()
    if recipe in ("-inf rows", "mask"):
        assert (np.isneginf(x).all(axis=1) == (np.arange(12) % 3 == 1)).all()
    if recipe == "integers":
        assert set(np.unique(x)) == set(range(-4, 5))
    if recipe == "outlier":
        assert (np.sum(np.abs(x) > 9000, axis=1) == 1).all()
    if recipe == "offset":
        assert 990 < x.mean() < 1010


def test_recipes_of_integers():
    rng = np.random.default_rng(0)
    index = cases.fill("index:7", (500,), "int32", rng)
    assert set(index) == set(range(7))
    ignored = cases.fill("ignore:7", (500,), "int64", rng)
    assert set(ignored) == {-100, *range(7)}
    full = cases.fill("full", (5000,), "int8", rng)
    assert (full.min(), full.max()) == (-128, 127)
    assert cases.fill("normal", (500,), "uint8", rng).min() >= 0
    assert set(cases.fill("mask", (9, 9), "bool", rng).ravel()) == {True, False}


def test_unknown_recipe_and_layout():
    with pytest.raises(ArgumentError, match="fill recipe 'norml'"):
        cases.fill("norml", (3,), "float32", np.random.default_rng(0))
    with pytest.raises(ArgumentError, match="layout 'diagonal'"):
        cases.laid_out(Operand((3,), "", "normal", "diagonal"), "float32", np.random.default_rng())


@pytest.mark.parametrize("name", NAMES)
def test_problem_arrays_pose_the_same_problem(name):
    """Arrays for measuring have the strides of the problem, and valid values."""
    for found in op(name).cases():
        problem, _ = posed(name, found, cases.dtypes_of(op(name), found)[0])
        arrays = cases.problem_arrays(problem, seed=3)
        given = dict(zip(problem.operands, arrays, strict=True))
        again = cases.problem_of(op(name), given, dict(problem.params))
        for a, b in zip(again.tensors, problem.tensors, strict=True):
            assert (a.shape, a.dtype, a.layout) == (b.shape, b.dtype, b.layout)
        op(name).reference(problem, arrays)  # no index out of range


def test_problem_arrays_of_large_tensors_are_quick_and_not_constant():
    problem = cases.problem_of_shapes(op("softmax"), [(4096, 4096)], "bfloat16", {})
    (x,) = cases.problem_arrays(problem)
    assert x.dtype == dtypes.numpy_dtype("bfloat16")
    assert not np.array_equal(x[0], x[1])
    assert not np.array_equal(x[:, 0], x[:, 1])
    assert x.flags.c_contiguous


def test_spec_of_keeps_strides():
    x = np.zeros((4, 6), np.float32)
    assert cases.spec_of(x) == TensorSpec((4, 6), "float32")
    assert cases.spec_of(x.T) == TensorSpec((6, 4), "float32", (1, 6))
    assert cases.spec_of(x[::-1]).strides == (-6, 1)


def test_problem_of_shapes():
    p = cases.problem_of_shapes(op("embedding"), [(5, 3), (2,)], "bf16", {})
    assert p["table"].dtype == "bfloat16"
    assert p["indices"].dtype == "int64"
    with pytest.raises(ArgumentError, match="3 shapes were given"):
        cases.problem_of_shapes(op("matmul"), [(2, 2)] * 3, "float32", {})
    with pytest.raises(ArgumentError, match="operand 'b'"):
        cases.problem_of_shapes(op("matmul"), [(2, 2)], "float32", {})


def test_problem_of_takes_absent_operands():
    x, w, r = np.ones((2, 3)), np.ones((3, 4)), np.ones((2, 4))
    p = cases.problem_of(op("linear"), [x, w, None, r], {"activation": "relu"})
    assert p.operands == ("x", "w", "residual")
    with pytest.raises(ArgumentError, match="5 were given"):
        cases.problem_of(op("linear"), [x, w, None, r, r])
