"""Where the time of one candidate goes: conversions, kernel and launch, timed apart.

The whole call is timed elsewhere (`portable.contest`). Here the same call runs once more with the
clock read between its stages, on the same argument sets and in the same cache state, so that each
stage meets the data as the whole call does. The result belongs into the `details` of a record:

    copy_time     operands into native arrays, results back
    kernel_time   the kernel on native arrays until the device is done, without `launch_time`
    launch_time   a call of the same implementation on a tiny problem: what does not shrink
"""

from __future__ import annotations

import functools
import math
import time
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from portable import registry
from portable.op import Problem
from portable.stats import median

if TYPE_CHECKING:
    from portable.arrays import Inputs
    from portable.backend import Kernel
    from portable.selector import Candidate

MIN_ROUNDS, MAX_ROUNDS = 3, 15
TINY_ROUNDS = 25
_clock: Callable[[], int] = time.perf_counter_ns


def stages(
    problem: Problem,
    candidate: Candidate,
    kernel: Kernel,
    inputs: Inputs,
    sets: Sequence[tuple[Any, ...]],
    *,
    flush: Callable[[], Any] | None = None,
    timer: Callable[[Callable[[], Any]], float] | None = None,
    budget: float = 0.1,
) -> dict[str, float]:
    """`copy_time`, `kernel_time` and `launch_time` [s] of a candidate on a problem.

    Args:
        problem: what is computed.
        candidate: with its route.
        kernel: its compiled kernel.
        inputs: the caller's arrays as looked at.
        sets: argument sets, rotated through as the whole call rotates through them.
        flush: called before every round, outside of the timed part.
        timer: device timer; with it `kernel_time` is the device's own time.
        budget: [s] for all rounds; MIN_ROUNDS are taken in any case.
    """
    route = candidate.route
    assert route is not None
    wait = waiter(candidate)
    copies: list[float] = []
    kernels: list[float] = []
    start = _clock()
    for turn in range(MAX_ROUNDS):
        if turn >= MIN_ROUNDS and (_clock() - start) * 1e-9 > budget:
            break
        if flush is not None:
            flush()
        copied, spent = _once(route, inputs, kernel, sets[turn % len(sets)], wait, timer)
        copies.append(copied)
        kernels.append(spent)
    launch = launch_time(candidate, problem.op, problem.dtype)
    found = {"copy_time": median(copies), "kernel_time": median(kernels)}
    if launch is None:
        return found
    if timer is None:  # the host's clock saw the launch as a part of the kernel
        launch = min(launch, found["kernel_time"])
        found["kernel_time"] -= launch
    return {**found, "launch_time": launch}


def _once(
    route: Any,
    inputs: Inputs,
    kernel: Kernel,
    arrays: tuple[Any, ...],
    wait: Callable[[Any], None],
    timer: Callable[[Callable[[], Any]], float] | None,
) -> tuple[float, float]:
    """Seconds of (conversions, kernel) of one call."""
    before = _clock()
    native = []
    for fix, array in zip(inputs.fixes, arrays, strict=True):
        fixed = fix(array) if fix is not None else array
        native.append(route.take(fixed) if route.take is not None else fixed)
    taken = _clock()
    result = kernel(*native)
    wait(result)
    done = _clock()
    if route.give is not None:
        for one in result if isinstance(result, tuple) else (result,):
            route.give(one)
    given = _clock()
    spent = (done - taken) * 1e-9
    if timer is not None:
        spent = timer(lambda: kernel(*native))
    return (taken - before + given - done) * 1e-9, spent


def waiter(candidate: Candidate) -> Callable[[Any], None]:
    """How to wait for a native result: by itself where it can, else by its device."""
    backend, device = registry.backend(candidate.backend), candidate.device

    def wait(result: Any) -> None:
        ready = getattr(
            result[0] if isinstance(result, tuple) else result, "block_until_ready", None
        )
        if ready is not None:
            ready()
        else:
            backend.synchronize(device)

    return wait


def launch_time(candidate: Candidate, op: str, dtype: str) -> float | None:
    """Seconds of a warm call on a tiny problem of the op; None when there is none it takes."""
    device = candidate.device
    key = (candidate.backend, device.id, device.runtime, op, dtype)
    if key not in _launches:
        try:
            _launches[key] = _tiny_call(candidate, op, dtype)
        except Exception:  # the measurement of the problem itself tells what is wrong
            _launches[key] = None
    return _launches[key]


_launches: dict[tuple[str, ...], float | None] = {}


def _tiny_call(candidate: Candidate, op_name: str, dtype: str) -> float | None:
    from portable import cases

    op = registry.op(op_name)
    found: list[tuple[int, Problem]] = []
    for case in op.cases():
        if case.level != "core" or dtype not in cases.dtypes_of(op, case):
            continue
        specs = cases.arrays(op, case, dtype)
        problem = cases.problem_of(op, specs, case)
        if problem.dtype == dtype and all(t.contiguous and t.size for t in problem.tensors):
            found.append((op.cost(problem).bytes, problem))
    for _, problem in sorted(found, key=lambda pair: pair[0]):
        implementation = candidate.implementation
        if implementation is not None and not implementation.why_not(problem, candidate.device):
            return _time_native(candidate, problem)
    return None


def _time_native(candidate: Candidate, problem: Problem) -> float:
    from portable import cases

    implementation, device, route = candidate.implementation, candidate.device, candidate.route
    assert implementation is not None and route is not None
    config = next(iter(implementation.configs(problem, device)), {})
    kernel = implementation.compile(problem, device, config)
    family = registry.families()[route.native]
    native = [family.from_host(a, device.id) for a in cases.problem_arrays(problem)]
    wait = waiter(candidate)
    call = functools.partial(_timed, kernel, native, wait)
    call(1)
    inner = max(1, math.ceil(50e-6 / max(call(1), 1e-7)))
    return median([call(inner) for _ in range(TINY_ROUNDS)])


def _timed(kernel: Kernel, native: Sequence[Any], wait: Callable[[Any], None], inner: int) -> float:
    start = _clock()
    for _ in range(inner):
        result = kernel(*native)
        wait(result)
    return (_clock() - start) * 1e-9 / inner
