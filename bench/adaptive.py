"""What policy="adaptive" costs: 10,000 calls against 10,000 under "auto", several times over.

    python -m bench.adaptive [--runs 12] [--calls 10000] [--seconds 200]

Blocks of 50 calls take turns, auto - adaptive - auto, so that what drifts hits both alike; a block
under "adaptive" is paired with the mean of its neighbours. "auto" is pinned to the candidate that
"adaptive" runs, so that a switch to something faster does not pass for a saving. All of a block's
time counts, comparisons included. Printed: the ratio of the sums with a 95 % interval by resampling
rounds, over all rounds and over those without a block of 1.5 times the median (a comparison adds at
most eight calls to a block: what adds more is the system, or a build), and "auto" against itself.
The first run, in which the policy starts, is shown apart.

The policy's share is of the time that passes, and here only a third of it passes under "adaptive":
a ratio over many runs counts three times what a program pays that does nothing else. What it pays
is the extra time by the time that passed, printed last.
"""

from __future__ import annotations

import argparse
import time

import numpy as np

import portable

BLOCK = 50
DISTURBED = 1.5


def blocks(x: np.ndarray, rounds: int, calls: int) -> np.ndarray:
    """Seconds of a block under auto, adaptive, and auto again, one row per round."""
    times = np.empty((rounds, 3))
    with portable.using(policy="adaptive"):
        portable.softmax(x)
    for row in times:
        pinned = {"backend": serving(x)}
        for which, wish in enumerate((pinned, {"policy": "adaptive"}, pinned)):
            row[which] = block(x, calls, wish)
    return times


def serving(x: np.ndarray) -> str:
    """The candidate that runs the calls under "adaptive" now."""
    from portable import engine

    for (settings, _), built in engine._plans.items():
        if settings.policy == "adaptive" and built.choice.problem.tensors[0].shape == x.shape:
            return built.choice.candidate.name
    raise RuntimeError("no plan under the adaptive policy")


def accounts() -> str:
    """What the policy itself counts as spent, and on how many builds."""
    from portable import adaptive

    (watched,) = adaptive._watched
    beliefs = watched.beliefs
    since = time.monotonic() - beliefs.started
    pairs = sum(len(lesson.incumbent) for lesson in beliefs.lessons.values())
    return (
        f"by its own account: {beliefs.spent:.3f} s of {since:.1f} s, {len(adaptive._builds)} "
        f"challengers built, last {pairs} comparisons kept"
    )


def block(x: np.ndarray, calls: int, wish: dict[str, str]) -> float:
    """Seconds of calls with these settings."""
    with portable.using(**wish):
        portable.softmax(x)
        start = time.perf_counter()
        for _ in range(calls):
            portable.softmax(x)
        return time.perf_counter() - start


def undisturbed(times: np.ndarray) -> np.ndarray:
    """Rounds without a block far above the median of all."""
    return times[(times < DISTURBED * np.median(times)).all(axis=1)]


def against_auto(times: np.ndarray) -> np.ndarray:
    """(adaptive, mean of its neighbours) per round."""
    return np.column_stack([times[:, 1], times[:, [0, 2]].mean(axis=1)])


def summed(rows: np.ndarray) -> float:
    """Ratio of the sums."""
    return float(rows[:, 0].sum() / rows[:, 1].sum())


def interval(rows: np.ndarray, draws: int = 2000) -> tuple[float, float]:
    """95 % interval of the ratio of the sums, by resampling rows."""
    rng = np.random.default_rng(0)
    sums = np.array([rows[rng.integers(0, len(rows), len(rows))].sum(axis=0) for _ in range(draws)])
    low, high = np.quantile(sums[:, 0] / sums[:, 1], [0.025, 0.975])
    return float(low), float(high)


def main() -> None:
    """Print the ratios, and that of "auto" with itself as the noise."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--runs", type=int, default=12)
    parser.add_argument("--calls", type=int, default=10_000, help="under each policy, a run")
    parser.add_argument("--seconds", type=float, default=200.0)
    wish = parser.parse_args()
    x = np.random.default_rng(0).standard_normal((64, 512)).astype(np.float32)
    start, runs = time.monotonic(), []
    while len(runs) < wish.runs and time.monotonic() - start < wish.seconds:
        runs.append(blocks(x, wish.calls // BLOCK, BLOCK))
    passed = time.monotonic() - start
    print(f"softmax 64x512 float32 by {serving(x)}, {wish.calls} calls a run under each policy")
    print(accounts())
    show("first run", against_auto(runs[0]))
    if len(runs) > 1:
        later = np.concatenate(runs[1:])
        show(f"{len(runs) - 1} later runs, all rounds", against_auto(later))
        show("... undisturbed rounds", against_auto(undisturbed(later)))
        show("auto against itself, all", later[:, [2, 0]])
        show("... undisturbed rounds", undisturbed(later)[:, [2, 0]])
        both = against_auto(later)
        low, high = (r - 1 for r in interval(both))
        share = both[:, 1].sum() / (passed * (len(runs) - 1) / len(runs))
        print(
            f"extra time by time passed ({passed:.0f} s): {(summed(both) - 1) * share:.2%} "
            f"(95 %: {low * share:.2%} to {high * share:.2%})"
        )


def show(what: str, rows: np.ndarray) -> None:
    """One line."""
    if not len(rows):
        print(f"{what}: none")
        return
    low, high = interval(rows)
    call = rows[:, 1].mean() / BLOCK
    print(
        f"{what}: {summed(rows):.4f} (95 %: {low:.4f} to {high:.4f}; {len(rows)} rounds, "
        f"{call * 1e6:.1f} us a call)"
    )


if __name__ == "__main__":
    main()
