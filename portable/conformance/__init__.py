"""Is a backend right? Every case of every op it has, and probes of what values do not show.

    result = conform("opencl", level="core")
    print(result)

Levels: "core" (ordinary and awkward shapes, layouts, memory, threads, dispatch), "full" (more
shapes, batches, integers, configs, streams), "hostile" (extreme values, NaN and infinity,
cancellation, offsets above 2^31). Each level includes the ones before. `CHECKS` names the checks.
"""

from __future__ import annotations

from portable.conformance.result import CHECKS, LEVELS, Outcome, Result
from portable.conformance.runner import conform, plan

__all__ = ["CHECKS", "LEVELS", "Outcome", "Result", "conform", "plan"]
