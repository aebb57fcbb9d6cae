"""Rules that ops share: each finds one mistake of the caller and says how to mend it."""

from __future__ import annotations

import math
import operator
from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable.errors import DTypeError, ParameterError, ShapeError, UnknownNameError
from portable.op import Problem, TensorSpec

Specs = Mapping[str, TensorSpec]
_LARGEST = 2**63 - 1  # bytes: what a 64-bit offset can address


def frozen(value: Any) -> Any:
    """A list as a tuple, so that a parameter can be part of a key."""
    return tuple(map(frozen, value)) if isinstance(value, list) else value


def complete(
    op: str,
    operands: Sequence[str],
    specs: Specs,
    defaults: Mapping[str, Any],
    params: Mapping[str, Any],
) -> dict[str, Any]:
    """The parameters with their defaults; all operands that must be there are there.

    Raises:
        UnknownNameError: an operand or parameter the op does not have.
        ParameterError: an operand that must be given is missing.
    """
    names = [name.removesuffix("?") for name in operands]
    for name in specs:
        if name not in names:
            raise UnknownNameError(f"operand of {op}", name, names)
    for name in operands:
        if not name.endswith("?") and name not in specs:
            raise ParameterError(f"{op} needs the operand {name!r}; it was not given")
    for name in params:
        if name not in defaults:
            raise UnknownNameError(f"parameter of {op}", name, defaults)
    return {**defaults, **params}


def problem(
    op: str,
    version: int,
    operands: Sequence[str],
    specs: Specs,
    params: Mapping[str, Any],
    results: tuple[TensorSpec, ...],
) -> Problem:
    """The problem, with the operands that are present in the op's order.

    Raises:
        ShapeError: a result is larger than a 64-bit offset can address.
    """
    for result in results:
        if result.nbytes > _LARGEST:
            raise ShapeError(
                f"{op}: the result {result} would take {result.nbytes:.3e} bytes; no memory holds "
                f"that. Split the call, or drop a broadcast axis."
            )
    present = tuple(n for name in operands if (n := name.removesuffix("?")) in specs)
    return Problem(
        op=op,
        version=version,
        operands=present,
        tensors=tuple(specs[name] for name in present),
        params=tuple(sorted(params.items())),
        results=results,
    )


def dtype_in(op: str, name: str, spec: TensorSpec, allowed: Sequence[str]) -> None:
    """Refuses an operand whose dtype the op does not take."""
    if spec.dtype not in allowed:
        raise DTypeError(
            f"{op}: {name} is {spec.dtype}; allowed: {', '.join(allowed)}. "
            f"Convert it first: {name}.astype({allowed[0]!r})"
        )


def same_dtype(op: str, specs: Specs, names: Sequence[str]) -> None:
    """Refuses operands that differ in dtype from the first of `names`."""
    first = next(name for name in names if name in specs)
    want = specs[first].dtype
    for name in names:
        if name in specs and specs[name].dtype != want:
            raise DTypeError(
                f"{op}: {first} is {want} but {name} is {specs[name].dtype}; both must have one "
                f"dtype. Convert one of them: {name}.astype({want!r})"
            )


def floats(op: str, specs: Specs, names: Sequence[str] | None = None) -> str:
    """The one float dtype of the operands `names` (all of them by default)."""
    names = [n for n in (names or list(specs)) if n in specs]
    for name in names:
        dtype_in(op, name, specs[name], dtypes.FLOATS)
    same_dtype(op, specs, names)
    return specs[names[0]].dtype


def shape_is(op: str, name: str, spec: TensorSpec, want: Sequence[int], meaning: str) -> None:
    """Refuses an operand whose shape is not `want`; `meaning` tells it in words."""
    if spec.shape != tuple(want):
        raise ShapeError(f"{op}: {name} has shape {spec.shape}; it must be {tuple(want)} {meaning}")


def at_least(op: str, name: str, spec: TensorSpec, ndim: int, meaning: str) -> None:
    """Refuses an operand with fewer than `ndim` axes."""
    if spec.ndim < ndim:
        raise ShapeError(
            f"{op}: {name} has shape {spec.shape} ({spec.ndim}-d); it needs {meaning}. "
            f"Reshape it first: {name}.reshape(...)"
        )


def exactly(op: str, name: str, spec: TensorSpec, ndim: int, meaning: str) -> None:
    """Refuses an operand that has not `ndim` axes."""
    if spec.ndim != ndim:
        raise ShapeError(
            f"{op}: {name} has shape {spec.shape} ({spec.ndim}-d); it must be {ndim}-d {meaning}"
        )


def integer(op: str, name: str, value: Any) -> int:
    """An integer parameter (a bool is not one)."""
    try:
        if isinstance(value, bool):
            raise TypeError
        return operator.index(value)
    except TypeError:
        raise ParameterError(
            f"{op}: {name} is {value!r} ({type(value).__name__}); it must be an integer"
        ) from None


def flag(op: str, name: str, value: Any) -> bool:
    """A bool parameter (an integer is not one)."""
    if isinstance(value, bool) or type(value).__name__ == "bool_":
        return bool(value)
    if type(value).__module__ == "numpy" and type(value).__name__ == "bool":
        return bool(value)
    raise ParameterError(
        f"{op}: {name} is {value!r} ({type(value).__name__}); it must be True or False"
    )


def real(op: str, name: str, value: Any) -> float:
    """A finite real parameter (a bool is not one)."""
    try:
        if isinstance(value, bool | str | bytes):
            raise TypeError
        number = float(value)
    except (TypeError, ValueError, OverflowError):
        raise ParameterError(
            f"{op}: {name} is {value!r} ({type(value).__name__}); it must be a number"
        ) from None
    if not math.isfinite(number):
        raise ParameterError(f"{op}: {name} is {number}; it must be finite")
    return number


def epsilon(op: str, value: Any) -> float:
    """The eps of a norm: finite and not negative."""
    number = real(op, "eps", value)
    if number < 0:
        raise ParameterError(f"{op}: eps is {number}; it must be 0 or positive, such as 1e-5")
    return number


def choice(op: str, name: str, value: Any, allowed: Sequence[Any]) -> Any:
    """A parameter that is one of a few values."""
    if not any(type(value) is type(a) and value == a for a in allowed):
        listed = ", ".join(map(repr, allowed))
        raise ParameterError(f"{op}: {name} is {value!r}; it must be one of {listed}")
    return value


def axis(op: str, name: str, spec: TensorSpec, value: Any) -> int:
    """One axis of an operand, as a non-negative number."""
    number = integer(op, "axis", value)
    if not -spec.ndim <= number < spec.ndim:
        allowed = (
            f"allowed: {-spec.ndim} to {spec.ndim - 1}"
            if spec.ndim
            else f"a 0-d array has no axis; reshape it first: {name}.reshape(1)"
        )
        raise ShapeError(
            f"{op}: axis {number} is out of range for {name} of shape {spec.shape}; {allowed}"
        )
    return number % spec.ndim


def axes(op: str, name: str, spec: TensorSpec, value: Any) -> tuple[int, ...]:
    """The axes to reduce, sorted and non-negative; None means all of them."""
    if value is None:
        return tuple(range(spec.ndim))
    values = value if isinstance(value, tuple | list) else (value,)
    found = [axis(op, name, spec, v) for v in values]
    if len(set(found)) != len(found):
        raise ShapeError(f"{op}: axis {value} names an axis twice; name each axis once")
    return tuple(sorted(found))


def reduced(shape: Sequence[int], over: Sequence[int], keepdims: bool) -> tuple[int, ...]:
    """The shape after reducing the axes `over`."""
    if keepdims:
        return tuple(1 if i in over else n for i, n in enumerate(shape))
    return tuple(n for i, n in enumerate(shape) if i not in over)


def broadcast(op: str, shapes: Mapping[str, Sequence[int]]) -> tuple[int, ...]:
    """The shape to which shapes broadcast as in NumPy (the shapes may be leading axes only)."""
    ndim = max((len(s) for s in shapes.values()), default=0)
    result = [1] * ndim
    for shape in shapes.values():
        for i, n in enumerate(shape, start=ndim - len(shape)):
            if n != 1 and result[i] not in (1, n):
                given = ", ".join(f"{name} {tuple(s)}" for name, s in shapes.items())
                raise ShapeError(
                    f"{op}: the leading (batch) axes do not broadcast: {given}. Counted from the "
                    f"right, two extents must be equal or one of them 1"
                )
            result[i] = n if n != 1 else result[i]
    return tuple(result)


def broadcastable(shape: Sequence[int], to: Sequence[int]) -> bool:
    """Whether an array of `shape` can be broadcast to `to` without enlarging `to`."""
    if len(shape) > len(to):
        return False
    return all(n in (1, m) for n, m in zip(reversed(shape), reversed(to), strict=False))
