"""What is to be computed: tensors without data, ops, problems, cost, cases and error bounds.

An op is one file in `ops/`: meaning, shape and dtype rules, compulsory cost, float64 reference,
error bound, test cases and the public function. It knows no backend.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from portable import dtypes

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]


def contiguous_strides(shape: Sequence[int]) -> tuple[int, ...]:
    """Row-major strides, in elements."""
    strides, step = [], 1
    for extent in reversed(shape):
        strides.append(step)
        step *= max(extent, 1)
    return tuple(reversed(strides))


@dataclass(frozen=True, slots=True)
class TensorSpec:
    """An array without its data.

    Attributes:
        shape: extents.
        dtype: canonical name ("float32").
        strides: in elements; None means row-major contiguous.
    """

    shape: tuple[int, ...]
    dtype: str
    strides: tuple[int, ...] | None = None

    @property
    def ndim(self) -> int:
        """Number of axes."""
        return len(self.shape)

    @property
    def size(self) -> int:
        """Number of elements."""
        return math.prod(self.shape)

    @property
    def itemsize(self) -> int:
        """Bytes of one element."""
        return dtypes.itemsize(self.dtype)

    @property
    def nbytes(self) -> int:
        """Bytes of all elements, each counted once per index."""
        return self.size * self.itemsize

    @property
    def touched_bytes(self) -> int:
        """Bytes of distinct elements: a broadcast axis (stride 0) is read once."""
        if self.strides is None:
            return self.nbytes
        extents = (n for n, s in zip(self.shape, self.strides, strict=True) if s != 0)
        return (math.prod(extents) if self.size else 0) * self.itemsize

    @property
    def contiguous(self) -> bool:
        """Whether the elements lie in row-major order without holes."""
        if self.strides is None or self.size == 0:
            return True
        expected = contiguous_strides(self.shape)
        rows = zip(self.shape, self.strides, expected, strict=True)
        return all(n == 1 or s == e for n, s, e in rows)

    @property
    def layout(self) -> str:
        """Layout class: contiguous, transposed (last two axes), broadcast, reversed or strided."""
        if self.contiguous or self.strides is None:
            return "contiguous"
        strides = self.strides
        if any(s == 0 and n > 1 for n, s in zip(self.shape, strides, strict=True)):
            return "broadcast"
        if any(s < 0 for s in strides):
            return "reversed"
        if self.ndim >= 2:
            swap = (*range(self.ndim - 2), self.ndim - 1, self.ndim - 2)
            swapped = TensorSpec(
                tuple(self.shape[i] for i in swap), self.dtype, tuple(strides[i] for i in swap)
            )
            if swapped.contiguous:
                return "transposed"
        return "strided"

    def dense(self) -> TensorSpec:
        """The same tensor, row-major contiguous."""
        return TensorSpec(self.shape, self.dtype)

    def __str__(self) -> str:
        layout = "" if self.layout == "contiguous" else f" {self.layout}"
        return f"{dtypes.short(self.dtype)}[{'x'.join(map(str, self.shape))}]{layout}"


@dataclass(frozen=True, slots=True)
class Problem:
    """An op bound to tensors and parameters: the key of every choice, record and report row.

    Attributes:
        op: name of the op.
        version: version of the op's contract; a record of another version does not match.
        operands: names of the operands that are present, in the op's order.
        tensors: their specs, same order. Kernels receive arrays in this order.
        params: sorted (name, value) pairs, all hashable and completed with their defaults.
        results: specs of what the op returns.
        precision: "highest" (full precision of the dtype) or "high" (tf32 / bf16x3 allowed).
    """

    op: str
    version: int
    operands: tuple[str, ...]
    tensors: tuple[TensorSpec, ...]
    params: tuple[tuple[str, Any], ...]
    results: tuple[TensorSpec, ...]
    precision: str = "highest"

    def __getitem__(self, operand: str) -> TensorSpec:
        return self.tensors[self.operands.index(operand)]

    def get(self, operand: str) -> TensorSpec | None:
        """The spec of an optional operand, or None when it is absent."""
        return self[operand] if operand in self.operands else None

    def position(self, operand: str) -> int | None:
        """Index of an operand among the arrays a kernel receives, or None when absent."""
        return self.operands.index(operand) if operand in self.operands else None

    def param(self, name: str) -> Any:
        """Value of a parameter."""
        return dict(self.params)[name]

    @property
    def dtype(self) -> str:
        """The dtype of the first operand: the one a record and a report row is filed under."""
        return self.tensors[0].dtype

    def __str__(self) -> str:
        tensors = ", ".join(
            f"{name}: {spec}" for name, spec in zip(self.operands, self.tensors, strict=True)
        )
        params = "".join(f", {name}={value!r}" for name, value in self.params)
        return f"{self.op}({tensors}{params})"


@dataclass(frozen=True, slots=True)
class Work:
    """Floating-point (or integer) operations of one kind.

    Attributes:
        unit: "matrix" (may run on a matrix engine), "vector" or "special" (exp, erf, sqrt ...).
        dtype: type the unit works in: bf16 inputs on a matrix unit, float32 for half row ops.
        flops: count; a fused multiply-add is 2.
    """

    unit: str
    dtype: str
    flops: float


@dataclass(frozen=True, slots=True)
class Cost:
    """The least work any implementation must do: compulsory, touched, fused.

    Attributes:
        work: operations per unit class and dtype; different units may overlap in time.
        bytes_read: each input element that must be read, once.
        bytes_written: each output element, once. Intermediates of a fused op count nothing.
    """

    work: tuple[Work, ...]
    bytes_read: int
    bytes_written: int

    @property
    def flops(self) -> float:
        """All operations, over all units."""
        return sum(w.flops for w in self.work)

    @property
    def bytes(self) -> int:
        """Compulsory memory traffic [B]."""
        return self.bytes_read + self.bytes_written

    @property
    def intensity(self) -> float:
        """Arithmetic intensity [FLOP/B]."""
        return self.flops / self.bytes if self.bytes else math.inf


@dataclass(frozen=True, slots=True)
class Bound:
    """How far one result may be from its float64 reference.

    Attributes:
        absolute: allowed |y - reference| per element (array of the result's shape, or a scalar).
        relative_rms: allowed ||y - reference|| / ||reference||, or None.
        exact: results must be equal bit for bit; the other fields are then ignored.
    """

    absolute: Array | float = 0.0
    relative_rms: float | None = None
    exact: bool = False


@dataclass(frozen=True, slots=True)
class Operand:
    """One input of a case.

    Attributes:
        shape: extents.
        dtype: canonical name, or "" for the float dtype under test.
        fill: recipe of the values, see `portable.cases.fill`.
        layout: "contiguous", "transposed", "sliced", "reversed" or "broadcast".
    """

    shape: tuple[int, ...]
    dtype: str = ""
    fill: str = "normal"
    layout: str = "contiguous"


@dataclass(frozen=True, slots=True)
class Case:
    """A test input of an op.

    Attributes:
        name: unique within the op.
        operands: by name; an optional operand that is not listed is absent.
        params: parameters that differ from the defaults.
        level: "core", "full" or "hostile".
        dtypes: float dtypes the case is run for (those in the op's list); empty = all of them.
    """

    name: str
    operands: Mapping[str, Operand]
    params: Mapping[str, Any] = field(default_factory=dict)
    level: str = "core"
    dtypes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Op:
    """What an operation means, must cost, and is tested on.

    Attributes:
        name: name of the op, of its file and of its public function.
        version: raised when meaning, parameters or cost change: older records stop matching.
        operands: names in call order; a trailing "?" marks an optional one.
        params: parameter names with their defaults.
        dtypes: dtypes of the first operand that the op takes.
        bind: (specs by operand name, params) -> Problem; raises ArgumentError for the caller's
            mistakes. Specs of absent operands are not in the mapping.
        cost: Problem -> Cost.
        reference: (Problem, arrays in the problem's operand order) -> results in float64
            (integers stay integers), in NumPy, on the already rounded inputs.
        tolerance: (Problem, arrays, expected results) -> a Bound per result.
        cases: the test inputs.
    """

    name: str
    version: int
    operands: tuple[str, ...]
    params: Mapping[str, Any]
    dtypes: tuple[str, ...]
    bind: Callable[[Mapping[str, TensorSpec], Mapping[str, Any]], Problem]
    cost: Callable[[Problem], Cost]
    reference: Callable[[Problem, Sequence[Array]], tuple[Array, ...]]
    tolerance: Callable[[Problem, Sequence[Array], Sequence[Array]], tuple[Bound, ...]]
    cases: Callable[[], Sequence[Case]]

    @property
    def operand_names(self) -> tuple[str, ...]:
        """Operand names without the marks of optional ones."""
        return tuple(name.removesuffix("?") for name in self.operands)
