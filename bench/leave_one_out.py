"""How well the evidence interpolates: leave one problem out, on recorded contests.

    python -m bench.leave_one_out [RECORDS.jsonl ...]

For every recorded problem, its own records are withheld and each candidate is estimated from the
rest, as a shape never seen would be. Printed: the median error of the estimates, how often the
true time lay within one and two of the expected errors, and the regret of the choice. Without
files, the shipped priors are used.
"""

from __future__ import annotations

import math
import statistics
import sys
from collections import defaultdict


def main() -> None:
    """Print a row per op, and all of them together."""
    from portable import estimate, evidence, records, registry

    given = [r for path in sys.argv[1:] for r in records.load_jsonl(path).records]
    totals: list = []
    print("op                 problems  error  within 1  within 2  regret  worst")
    for op in registry.op_names():
        rows = judge([r for r in given if r.problem.op == op] or evidence.priors(op), estimate)
        if rows:
            totals += rows
            show(op, rows)
    show("all", totals)


def judge(found, estimate) -> list:
    """(estimates' |log2 error| with expected error, regret) per problem."""
    from portable import evidence

    points: dict = defaultdict(list)
    for record in found:
        point = evidence.point(record, 0.0, "")
        if point is not None:
            config = evidence.config_key(record.config)
            points[record.backend, record.runtime, record.problem.dtype, config].append(point)
    rows = []
    for problem in {p.problem for group in points.values() for p in group}:
        model = 1.0
        errors, best_of, truth = [], {}, {}
        for (backend, runtime, _, _), group in points.items():
            own = [p for p in group if p.problem == problem]
            rest = [p for p in group if p.problem != problem]
            if not own or not rest:
                continue
            expected = estimate.estimate(estimate.Surface(rest), problem, model)
            true = 2.0 ** own[0].slowdown
            sigma = math.log2(1 + expected.error)
            errors.append((abs(math.log2(expected.time / true)), sigma))
            name = (backend, runtime)
            if expected.cautious < best_of.get(name, (math.inf, 0.0))[0]:
                best_of[name] = (expected.cautious, true)
            truth[name] = min(true, truth.get(name, math.inf))
        if len(best_of) > 1:
            chosen = min(best_of.values())[1]
            rows.append((errors, chosen / min(truth.values()), problem))
    return rows


def show(op: str, rows: list) -> None:
    """One line."""
    errors = [e for found, _, _ in rows for e in found]
    regrets = [r for _, r, _ in rows]
    within = [sum(e <= k * s for e, s in errors) / len(errors) for k in (1, 2)]
    worst = max(rows, key=lambda row: row[1])
    print(
        f"{op:18} {len(rows):8} {2 ** statistics.median(e for e, _ in errors) - 1:6.0%} "
        f"{within[0]:9.0%} {within[1]:9.0%} {statistics.geometric_mean(regrets):7.3f} "
        f"{worst[1]:6.2f}  {worst[2]}"
    )


if __name__ == "__main__":
    main()
