"""Input data: values of test cases in every memory layout, and arrays for measuring a problem.

A case names a recipe and a layout per operand; the same (case, dtype, seed) gives the same arrays.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.errors import ParameterError, ShapeError, UnknownNameError
from portable.op import Case, Op, Operand, Problem, TensorSpec, contiguous_strides

RECIPES = {
    "normal": "standard normal; integers up to +-100; coin flips for bool",
    "normal*1e4": "standard normal times a factor (f16: near its largest value)",
    "uniform": "uniform in [0, 1): all of one sign",
    "positive": "uniform in [0.5, 1.5): scales",
    "integers": "integers in [-4, 4]: sums of products are exact",
    "index:N": "integers in [0, N)",
    "ignore:N": "integers in [0, N), about a third of them replaced by -100",
    "full": "the whole range of an integer type: sums wrap around",
    "equal": "1.5 everywhere",
    "zeros": "0 everywhere",
    "ones": "1 everywhere",
    "outlier": "normal with one value of 1e4 in each row",
    "offset": "1000 + normal: a large mean with a small variance",
    "nan": "normal with a NaN in some rows",
    "inf": "normal with +inf in some rows and -inf in some others",
    "-inf some": "normal with -inf in about half of the places, never a whole row",
    "-inf rows": "normal with -inf in about half of the places and in some whole rows",
    "mask": "0 or -inf, as an additive mask; True or False for bool; some rows fully masked",
    "cos": "cosines of rotary positions", "sin": "sines of rotary positions",
}  # fmt: skip
"""Recipes of `fill`. Where a recipe speaks of rows it means the last axis."""

LAYOUTS = ("contiguous", "transposed", "sliced", "reversed", "broadcast")
_BLOCK = 2**20 + 7  # values drawn at once for large arrays; odd, so that rows do not repeat


def fill(recipe: str, shape: Sequence[int], dtype: str, rng: Any) -> Array:
    """A new array of the recipe's values (see RECIPES).

    Raises:
        UnknownNameError: no such recipe.
    """
    name, _, argument = recipe.partition(":")
    if dtype == "bool" and name != "mask":
        return np.asarray(rng.random(shape) < 0.5)
    if name in ("index", "ignore"):
        return _index(name, int(argument), shape, dtype, rng)
    if dtypes.info(dtype).kind in "iu":
        return _integers(name, shape, dtype, rng)
    values = _floats(name, tuple(shape), rng)
    if dtype == "bool":
        return np.asarray(values == 0)
    return _rounded(values, dtype)


def _rounded(values: Array, dtype: str) -> Array:
    """Values in a float dtype; what is finite stays finite."""
    largest = dtypes.info(dtype).largest
    if largest:
        clipped = np.clip(values, -largest, largest)
        values = np.where(np.isinf(values), values, clipped)
    if dtype.startswith("float8_e4m3"):  # it has no infinity
        values = np.nan_to_num(values, nan=np.nan, posinf=largest, neginf=-largest)
    return np.asarray(values.astype(dtypes.numpy_dtype(dtype)))


def _index(name: str, count: int, shape: Sequence[int], dtype: str, rng: Any) -> Array:
    values = rng.integers(0, max(count, 1), shape)
    if name == "ignore":
        values = np.where(rng.random(shape) < 0.35, -100, values)
    return np.asarray(values, dtypes.numpy_dtype(dtype))


def _integers(name: str, shape: Sequence[int], dtype: str, rng: Any) -> Array:
    target = np.dtype(dtype)
    limits = np.iinfo(target)
    if name in ("zeros", "ones", "equal"):
        return np.full(shape, 0 if name == "zeros" else 1, target)
    if name == "full":
        return np.asarray(rng.integers(limits.min, limits.max, shape, target, endpoint=True))
    reach = 4 if name == "integers" else 100
    low, high = max(limits.min, -reach), min(limits.max, reach)
    return np.asarray(rng.integers(low, high, shape, target, endpoint=True))


def _floats(name: str, shape: tuple[int, ...], rng: Any) -> Array:
    if name in ("cos", "sin"):
        return _rotary(name, shape)
    plain = {"equal": 1.5, "zeros": 0.0, "ones": 1.0}
    if name in plain:
        return np.full(shape, plain[name])
    if name in ("uniform", "positive"):
        return np.asarray(rng.random(shape) + (0.5 if name == "positive" else 0.0))
    if name in ("integers", "full"):
        return np.asarray(rng.integers(-4, 5, shape).astype(np.float64))
    values = np.asarray(rng.standard_normal(shape))
    base, _, factor = name.partition("*")
    if base == "normal":
        return values * float(factor or 1)
    if name == "offset":
        return values + 1000.0
    return _planted(name, values, rng)


def _rotary(name: str, shape: tuple[int, ...]) -> Array:
    """Angles position / 10000^(i / half) over the last two axes (position, half)."""
    half = max(shape[-1], 1)
    positions = np.arange(shape[-2] if len(shape) > 1 else 1)[:, None]
    angles = positions / 10000.0 ** (np.arange(shape[-1]) / half)
    table = np.cos(angles) if name == "cos" else np.sin(angles)
    return np.array(np.broadcast_to(table if len(shape) > 1 else table[0], shape))


def _planted(name: str, values: Array, rng: Any) -> Array:
    """Normal values with special ones planted in rows (the last axis)."""
    if name not in RECIPES:
        raise UnknownNameError("fill recipe", name, RECIPES)
    if not values.size or not values.ndim:
        return values
    rows = values.reshape(-1, values.shape[-1])
    where = rng.integers(0, rows.shape[1], len(rows))
    index = np.arange(len(rows))
    if name == "outlier":
        rows[index, where] = 1e4
    elif name == "nan":
        rows[index[::2], where[::2]] = np.nan
    elif name == "inf":
        rows[index[::3], where[::3]] = np.inf
        rows[index[1::3], where[1::3]] = -np.inf
    else:
        rows[:] = rows if name.startswith("-inf") else 0.0
        rows[rng.random(rows.shape) < 0.5] = -np.inf
        rows[index, where] = 0.0
        if name != "-inf some":
            rows[index[1::3]] = -np.inf
    return rows.reshape(values.shape)


def arrays(op: Op, case: Case, dtype: str, seed: int = 0) -> list[Array]:
    """The case's arrays: operands that are present, in the op's order, in their layouts.

    `dtype` is that of operands that do not name their own.
    """
    rng = np.random.default_rng([seed, *case.name.encode()])
    return [
        laid_out(case.operands[name], dtype, rng)
        for name in op.operand_names
        if name in case.operands
    ]


def laid_out(operand: Operand, dtype: str, rng: Any) -> Array:
    """The operand's values as a view of its layout.

    "transposed": the last two axes swapped in memory (1-d: every second element); "sliced": a
    window of a larger array, rows apart by more than their length, not starting at its first
    element; "reversed": every axis runs backwards; "broadcast": the first axis has stride 0.
    """
    shape, own = operand.shape, operand.dtype or dtype
    if operand.layout == "broadcast" and shape:
        one = fill(operand.fill, (1, *shape[1:]), own, rng)
        return np.broadcast_to(one, shape)
    values = fill(operand.fill, shape, own, rng)
    if not shape or operand.layout == "contiguous":
        return values
    if operand.layout == "transposed" and len(shape) > 1:
        return np.ascontiguousarray(values.swapaxes(-1, -2)).swapaxes(-1, -2)
    if operand.layout == "reversed":
        backwards = (slice(None, None, -1),) * len(shape)
        return np.ascontiguousarray(values[backwards])[backwards]
    if operand.layout not in LAYOUTS:
        raise UnknownNameError("layout", operand.layout, LAYOUTS)
    wide = operand.layout == "transposed"  # 1-d
    window = tuple(slice(1, 1 + n) for n in shape[:-1])
    last = slice(1, 1 + 2 * shape[-1], 2) if wide else slice(1, 1 + shape[-1])
    buffer = np.zeros(
        (*(n + 2 for n in shape[:-1]), 2 * shape[-1] + 1 if wide else shape[-1] + 3), values.dtype
    )
    view = buffer[(*window, last)]
    view[...] = values
    return view


def dtypes_of(op: Op, case: Case) -> tuple[str, ...]:
    """The dtypes to run a case with: one when its operands name their own."""
    own = [o.dtype for o in case.operands.values()]
    if "" not in own:
        return (own[0],)
    tested = tuple(d for d in op.dtypes if d in dtypes.FLOATS) or op.dtypes
    return tuple(d for d in case.dtypes if d in op.dtypes) if case.dtypes else tested


def spec_of(array: Any) -> TensorSpec:
    """The spec of a NumPy array (or of a spec: itself)."""
    if isinstance(array, TensorSpec):
        return array
    strides = tuple(s // array.itemsize for s in array.strides)
    spec = TensorSpec(tuple(array.shape), dtypes.canonical(array.dtype.name), strides)
    return spec.dense() if spec.contiguous else spec


def problem_of(
    op: Op, given: Sequence[Any] | Mapping[str, Any], how: Case | Mapping[str, Any] | None = None
) -> Problem:
    """The problem of NumPy arrays or specs.

    Args:
        op: the op.
        given: by operand name; or, with a case, its arrays as `arrays` gives them; or in the op's
            operand order, None for an absent one.
        how: the case, or the parameters.
    """
    params: Mapping[str, Any] = how.params if isinstance(how, Case) else (how or {})
    if isinstance(given, Mapping):
        named = dict(given)
    else:
        present = [n for n in op.operand_names if not isinstance(how, Case) or n in how.operands]
        if len(given) > len(present):
            raise ParameterError(
                f"{op.name} takes {len(present)} operands ({', '.join(present)}); "
                f"{len(given)} were given"
            )
        named = {n: a for n, a in zip(present, given, strict=False) if a is not None}
    specs = {name: spec_of(array) for name, array in named.items()}
    return op.bind(specs, {**op.params, **params})


# Operands whose dtype is not the one under test.
_OWN_DTYPES = {
    ("attention", "mask"): "bool", ("embedding", "indices"): "int64",
    ("cross_entropy", "targets"): "int64", ("quantized_matmul", "scale_a"): "float32",
    ("quantized_matmul", "scale_b"): "float32",
}  # fmt: skip


def problem_of_shapes(
    op: Op, shapes: Sequence[Sequence[int]], dtype: str, params: Mapping[str, Any]
) -> Problem:
    """The problem of contiguous tensors of these shapes, in the op's operand order.

    Indices are int64, scales float32, a mask is bool; everything else is of `dtype`.

    Raises:
        ArgumentError: shapes, dtype or parameters that the op does not take.
    """
    names, short = op.operand_names, dtypes.canonical(dtype)
    if len(shapes) > len(names):
        raise ShapeError(
            f"{op.name} takes {len(names)} operands ({', '.join(op.operands)}); "
            f"{len(shapes)} shapes were given"
        )
    specs = {
        name: TensorSpec(tuple(shape), _OWN_DTYPES.get((op.name, name), short))
        for name, shape in zip(names, shapes, strict=False)
    }
    return op.bind(specs, {**op.params, **params})


def problem_arrays(problem: Problem, seed: int = 0) -> list[Array]:
    """Arrays for measuring a problem: its shapes, dtypes and strides, values that are valid.

    Fast for large tensors: values are drawn in one block and repeated.
    """
    rng = np.random.default_rng(seed)
    return [
        _measured(spec, _recipe(problem, name, spec), rng)
        for name, spec in zip(problem.operands, problem.tensors, strict=True)
    ]


def _recipe(problem: Problem, name: str, spec: TensorSpec) -> str:
    if (problem.op, name) == ("embedding", "indices"):
        return f"index:{problem['table'].shape[0]}"
    if (problem.op, name) == ("cross_entropy", "targets"):
        return f"index:{problem['logits'].shape[1]}"
    if name.startswith("scale_"):
        return "positive"
    if problem.op == "rope" and name in ("cos", "sin"):
        return name
    return "full" if spec.dtype == "int8" else "normal"


def _measured(spec: TensorSpec, recipe: str, rng: Any) -> Array:
    """An array with exactly the spec's strides."""
    if spec.strides is None:
        return _block(recipe, spec.size, spec, rng).reshape(spec.shape)
    target = dtypes.numpy_dtype(spec.dtype)
    if spec.size == 0:
        return np.empty(spec.shape, target)
    reach = [(n - 1) * s for n, s in zip(spec.shape, spec.strides, strict=True)]
    start = -sum(r for r in reach if r < 0)
    buffer = _block(recipe, start + sum(r for r in reach if r > 0) + 1, spec, rng)
    steps = tuple(s * target.itemsize for s in spec.strides)
    return np.lib.stride_tricks.as_strided(buffer[start:], spec.shape, steps)


def _block(recipe: str, count: int, spec: TensorSpec, rng: Any) -> Array:
    if recipe in ("cos", "sin"):
        dense = contiguous_strides(spec.shape)
        if spec.strides in (None, dense):
            return fill(recipe, spec.shape, spec.dtype, rng).reshape(-1)
        recipe = "uniform"
    if count <= _BLOCK:
        return fill(recipe, (count,), spec.dtype, rng)
    block = fill(recipe, (_BLOCK,), spec.dtype, rng)
    repeated = np.tile(block, math.ceil(count / _BLOCK))
    return np.asarray(repeated[:count])
