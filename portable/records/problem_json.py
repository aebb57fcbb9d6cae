"""A `Problem` as plain JSON and back: data only."""

from __future__ import annotations

import math
from typing import Any

from portable import dtypes, plain
from portable.errors import DTypeError, RecordError
from portable.op import Problem, TensorSpec

_FIELDS = frozenset({"op", "version", "operands", "params", "results", "precision"})
PRECISIONS = ("highest", "high")


def problem_to_json(problem: Problem) -> dict[str, Any]:
    """{"op", "version", "operands": [tensor], "params": {}, "results": [tensor], "precision"}.

    A tensor is {"shape": [], "dtype": ""} and, when given, "strides": [] in elements; one of the
    operands also has its "name".
    """
    operands = zip(problem.operands, problem.tensors, strict=True)
    return {
        "op": problem.op,
        "version": problem.version,
        "operands": [{"name": name, **tensor_to_json(spec)} for name, spec in operands],
        "params": {name: _listed(value) for name, value in problem.params},
        "results": [tensor_to_json(spec) for spec in problem.results],
        "precision": problem.precision,
    }


def problem_from_json(data: dict[str, Any]) -> Problem:
    """The inverse of `problem_to_json`.

    Raises:
        RecordError: a field is missing, unknown, of the wrong type or too large.
    """
    plain.unknown(data, "problem", _FIELDS)
    operands = _operands(data)
    params = plain.mapping(data, "params")
    if not operands:
        raise RecordError("problem has no operands")
    return Problem(
        op=plain.text(data, "op"),
        version=plain.integer(data, "version"),
        operands=tuple(operands),
        tensors=tuple(operands.values()),
        params=tuple(sorted((name, _hashable(value, name)) for name, value in params.items())),
        results=tuple(
            tensor_from_json(spec, "result")
            for spec in plain.sequence(data, "results", plain.MAX_ITEMS)
        ),
        precision=plain.one_of(plain.text(data, "precision", "highest"), "precision", PRECISIONS),
    )


def _operands(data: dict[str, Any]) -> dict[str, TensorSpec]:
    found: dict[str, TensorSpec] = {}
    for entry in plain.sequence(data, "operands", plain.MAX_ITEMS):
        if not isinstance(entry, dict):
            raise RecordError(f"an operand is a {type(entry).__name__} (an object is needed)")
        name = plain.text(entry, "name")
        if name in found:
            raise RecordError(f"operand {name!r} is there twice")
        found[name] = tensor_from_json({k: v for k, v in entry.items() if k != "name"}, name)
    return found


def tensor_to_json(spec: TensorSpec) -> dict[str, Any]:
    """{"shape", "dtype"} and "strides" when they say more than row-major."""
    data: dict[str, Any] = {"shape": list(spec.shape), "dtype": spec.dtype}
    if spec.strides is not None:
        data["strides"] = list(spec.strides)
    return data


def tensor_from_json(data: Any, name: str) -> TensorSpec:
    """The inverse of `tensor_to_json`; `name` is for messages."""
    if not isinstance(data, dict):
        raise RecordError(f"{name} is a {type(data).__name__} (an object is needed)")
    plain.unknown(data, name, frozenset({"shape", "dtype", "strides"}))
    shape = _extents(data, "shape", name, lowest=0)
    try:
        dtype = dtypes.canonical(plain.text(data, "dtype"))
    except DTypeError as error:
        raise RecordError(f"{name}: {error}") from None
    if data.get("strides") is None:
        return TensorSpec(shape, dtype)
    strides = _extents(data, "strides", name, lowest=-plain.MAX_EXTENT)
    if len(strides) != len(shape):
        raise RecordError(f"{name} has {len(strides)} strides for {len(shape)} axes")
    return TensorSpec(shape, dtype, strides)


def _extents(data: dict[str, Any], field: str, name: str, lowest: int) -> tuple[int, ...]:
    if field not in data:
        raise RecordError(f"{name} has no {field}")
    values = plain.sequence(data, field, plain.MAX_NDIM)
    for value in values:
        if not isinstance(value, int) or isinstance(value, bool):
            raise RecordError(f"{name}.{field} has {value!r} (whole numbers are needed)")
        if not lowest <= value <= plain.MAX_EXTENT:
            raise RecordError(f"{name}.{field} has {value} ({lowest} to {plain.MAX_EXTENT})")
    return tuple(values)


def _listed(value: Any) -> Any:
    if isinstance(value, tuple):
        return [_listed(item) for item in value]
    if value is None or isinstance(value, str | bool | int):
        return value
    if isinstance(value, float) and math.isfinite(value):
        return value
    raise RecordError(f"parameter value {value!r} cannot be stored (text, number, tuple or None)")


def _hashable(value: Any, name: str, depth: int = 0) -> Any:
    if isinstance(value, list) and depth < 4 and len(value) <= plain.MAX_ITEMS:
        return tuple(_hashable(item, name, depth + 1) for item in value)
    if value is None or isinstance(value, bool):
        return value
    if isinstance(value, str):
        return plain.text({name: value}, name)
    if isinstance(value, int) and abs(value) <= plain.MAX_EXTENT:
        return value
    if isinstance(value, float):
        return plain.number(value, name)
    raise RecordError(f"parameter {name} has a value that no problem has")
