"""Cross entropy of class indices: loss[i] = log(sum exp logits[i]) - logits[i, targets[i]].

logits (n, c), targets (n,) of an integer dtype with values in [0, c) or ignore_index. reduction
"none" -> (n,), "sum" or "mean" -> a scalar; the dtype of the logits (float64, float32, float16,
bfloat16; half types are computed in float32). A row whose target is ignore_index has loss 0 and
does not count in the mean; a mean of no rows is NaN. Other targets outside of [0, c) give an
unspecified loss or IndexError; nothing outside of the logits is read.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import Any

from portable import dtypes
from portable._numpy import Array, np
from portable.engine import call
from portable.errors import ShapeError
from portable.op import Bound, Case, Cost, Op, Problem, TensorSpec, Work
from portable.ops import _bounds as bounds
from portable.ops import _rules as rules
from portable.ops._cases import FILLS, LAYOUTS, case
from portable.ops._cases import x as tensor

NAME, VERSION, OPERANDS = "cross_entropy", 1, ("logits", "targets")
PARAMS: Mapping[str, Any] = {"reduction": "mean", "ignore_index": None}
REDUCTIONS = ("mean", "sum", "none")


def bind(specs: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> Problem:
    """Checks dtypes, shapes, the reduction and ignore_index."""
    given = rules.complete(NAME, OPERANDS, specs, PARAMS, params)
    reduction = rules.choice(NAME, "reduction", given["reduction"], REDUCTIONS)
    ignore = given["ignore_index"]
    if ignore is not None:
        ignore = rules.integer(NAME, "ignore_index", ignore)
    logits, targets = specs["logits"], specs["targets"]
    rules.floats(NAME, specs, ("logits",))
    rules.dtype_in(NAME, "targets", targets, dtypes.INTEGERS)
    rules.exactly(NAME, "logits", logits, 2, "(rows, classes); reshape (..., c) to (-1, c)")
    rules.shape_is(NAME, "targets", targets, logits.shape[:1], "(n,): one class per row of logits")
    if logits.shape[0] and not logits.shape[1]:
        raise ShapeError(f"cross_entropy: logits {logits.shape} have no class to choose from")
    result = TensorSpec(logits.shape[:1] if reduction == "none" else (), logits.dtype)
    complete = {"reduction": reduction, "ignore_index": ignore}
    return rules.problem(NAME, VERSION, OPERANDS, specs, complete, (result,))


def cost(problem: Problem) -> Cost:
    """Per logit max, subtract, add, one exp; per row one log and four more operations."""
    logits = problem["logits"]
    unit = dtypes.accumulator(logits.dtype)
    n = logits.shape[0]
    # Rows that are ignored need no work; how many depends on the targets and is not known here.
    work = (
        Work("vector", unit, float(3 * logits.size + 4 * n)),
        Work("special", unit, float(logits.size + n)),
    )
    reads = sum(t.touched_bytes for t in problem.tensors)
    return Cost(work, reads, problem.results[0].nbytes)


def _losses(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, Array, Array, Array]:
    """In float64: loss per row, which rows count, largest logit, its distance to the target's."""
    x, targets = bounds.wide(arrays[0]), arrays[1].astype(np.int64)
    ignore = problem.param("ignore_index")
    kept = np.ones(len(x), bool) if ignore is None else targets != ignore
    if not x.size:
        return np.zeros(len(x)), kept, np.zeros(len(x)), np.zeros(len(x))
    top = np.max(x, axis=1)
    total = np.log(np.sum(np.exp(x - top[:, None]), axis=1))
    depth = top - x[np.arange(len(x)), np.where(kept, targets, 0)]
    return np.where(kept, total + depth, 0.0), kept, top, depth


def _reduce(reduction: str, values: Array, kept: Array) -> Array:
    if reduction == "none":
        return values
    total = np.sum(values)
    return np.asarray(total if reduction == "sum" else total / np.count_nonzero(kept))


def reference(problem: Problem, arrays: Sequence[Array]) -> tuple[Array, ...]:
    """In float64."""
    with np.errstate(all="ignore"):
        losses, kept, _, _ = _losses(problem, arrays)
        return (_reduce(problem.param("reduction"), losses, kept),)


def tolerance(
    problem: Problem, arrays: Sequence[Array], expected: Sequence[Array]
) -> tuple[Bound, ...]:
    """Per row as log_softmax; then the sum over rows, 2 sqrt(n) u_acc sum(loss)."""
    (y,) = expected
    u, reduction = bounds.u_acc(problem), problem.param("reduction")
    with np.errstate(all="ignore"):
        losses, kept, top, depth = _losses(problem, arrays)
        c = max(problem["logits"].shape[1], 1)
        terms = 8 + 2 * math.sqrt(c) + 2 * np.abs(depth) + 3 * math.log(c) + 2 * np.abs(top)
        row = np.where(kept, u * terms, 0.0)
        worst = _reduce(reduction, row, kept)
        if reduction != "none":
            magnitude = _reduce(reduction, np.abs(losses), kept)
            worst = worst + bounds.summation(u, max(len(losses), 1), magnitude, y)[0]
    return (bounds.bound(problem.dtype, y, worst),)


def cases() -> Sequence[Case]:
    """Reductions, ignored rows, tails, layouts, target dtypes, masked classes, hostile values."""
    found = []
    for reduction in REDUCTIONS:
        for n, c in ((4, 8), (1, 1), (37, 131), (3, 2000), (0, 5), (293, 11), (16, 1024)):
            found.append(_case(f"{n} {c} {reduction}", n, c, reduction))
        found.append(_case(f"ignored {reduction}", 33, 17, reduction, ignore=-100))
        found.append(_case(f"a class ignored {reduction}", 33, 5, reduction, ignore=2))
        found.append(_case(f"all ignored {reduction}", 5, 1, reduction, ignore=0))
    for layout in LAYOUTS:
        found.append(_case(f"logits {layout}", 13, 29, "none", layout=layout))
        found.append(_case(f"targets {layout}", 13, 29, "none", target_layout=layout))
    for dtype in ("int32", "uint8", "int16"):
        found.append(_case(f"targets {dtype}", 13, 29, "none", dtype=dtype, level="full"))
    for fill in FILLS:
        for reduction in ("none", "mean"):
            name = f"fill {fill} {reduction}"
            found.append(_case(name, 12, 129, reduction, fill=fill, level="hostile"))
    return found


def _case(
    name: str,
    n: int,
    c: int,
    reduction: str,
    ignore: int | None = None,
    fill: str = "normal",
    layout: str = "contiguous",
    target_layout: str = "contiguous",
    dtype: str = "int64",
    level: str = "core",
) -> Case:
    kind = "ignore" if ignore == -100 else "index"
    return case(
        name,
        logits=tensor(n, c, fill=fill, layout=layout),
        targets=tensor(n, fill=f"{kind}:{c}", layout=target_layout, dtype=dtype),
        params={"reduction": reduction, "ignore_index": ignore},
        level=level,
    )


OP = Op(NAME, VERSION, OPERANDS, PARAMS, dtypes.FLOATS, bind, cost, reference, tolerance, cases)


def cross_entropy(
    logits: Any, targets: Any, *, reduction: str = "mean", ignore_index: int | None = None
) -> Any:
    """loss = log(sum exp logits) - logits[target], averaged ("mean"), summed, or per row ("none").

    logits (n, c) of a float dtype, targets (n,) of an integer dtype, in [0, c) or ignore_index ->
    a scalar or (n,) in the dtype of the logits. Ignored rows have loss 0 and do not count.

    Raises:
        ShapeError: shapes do not fit.
        DTypeError: logits are no floats, or targets no integers.
        ParameterError: an unknown reduction, or ignore_index is not an integer.
    """
    return call(OP, (logits, targets), (reduction, ignore_index))
