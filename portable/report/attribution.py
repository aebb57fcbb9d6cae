"""Where the time of one measurement went: steps from the speed of light to the measured time.

    T = speed of light + ceiling loss + kernel loss + copies + launch and dispatch + unexplained

Every step is >= 0 and the sum is T. Which of them were measured and which were computed is part
of the result. Names in a record's `details`, all [s] per call, all optional:

    kernel_time   the kernel alone on native arrays, until the device is done
    copy_time     bringing operands into native arrays and results back, copies and layout changes
    launch_time   host work that does not depend on the problem's size: dispatch and launch
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

STEPS = ("speed of light", "ceiling", "kernel", "copies", "launch", "unexplained")

MEANING = {
    "speed of light": "least time by the datasheet: dense peak and memory bandwidth",
    "ceiling": "what this very device was seen to reach falls short of its datasheet",
    "kernel": "time on the device beyond the measured roof",
    "copies": "conversion of operands and results, layout changes",
    "launch": "dispatch on the host and launch of the kernel",
    "unexplained": "the stages measured apart sum to less than the whole call",
}


@dataclass(frozen=True, slots=True)
class Step:
    """One step of an attribution.

    Attributes:
        name: one of STEPS.
        time: [s], >= 0.
        how: "measured", "computed", "remainder" or "unknown" (then the time is 0 and belongs to
            another step).
    """

    name: str
    time: float
    how: str


def attribute(
    time: float,
    sol: float | None,
    roof: float | None,
    details: Mapping[str, Any],
    launch_floor: float = 0.0,
) -> tuple[Step, ...]:
    """Split a measured time into STEPS that sum to it.

    Args:
        time: measured [s].
        sol: T_SOL [s], or None when the device is not in the hardware database.
        roof: least time [s] by the measured roof, without its launch floor; None when unknown.
        details: of the record, see the module.
        launch_floor: measured least launch [s]; used where the record has no `launch_time`.
    """
    kernel, copies, launch = (
        _seconds(details, n) for n in ("kernel_time", "copy_time", "launch_time")
    )
    if kernel is not None:
        device = min(kernel, time)
    else:
        device = max(time - (copies or 0.0) - (launch if launch is not None else launch_floor), 0.0)
    floor = min(sol or 0.0, device)
    ceiling = max(min(roof, device) - floor, 0.0) if roof is not None else 0.0
    rest = time - device
    copied = min(copies or 0.0, rest)
    rest -= copied
    launched = rest if kernel is None or launch is None else min(launch, rest)
    times = (floor, ceiling, device - floor - ceiling, copied, launched, rest - launched)
    hows = (
        "computed" if sol is not None else "unknown",
        "measured" if roof is not None else "unknown",
        "measured" if kernel is not None else "remainder",
        "measured" if copies is not None else "unknown",
        _launch_how(kernel, launch, launch_floor),
        "remainder",
    )
    return tuple(Step(n, t, h) for n, t, h in zip(STEPS, times, hows, strict=True))


def _launch_how(kernel: float | None, launch: float | None, floor: float) -> str:
    if launch is not None:
        return "measured"
    if kernel is not None:
        return "remainder"
    return "computed" if floor > 0 else "unknown"


def _seconds(details: Mapping[str, Any], name: str) -> float | None:
    value = details.get(name)
    known = isinstance(value, int | float) and not isinstance(value, bool) and value >= 0
    return float(value) if known and value is not None else None
