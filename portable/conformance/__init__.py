"""Is a backend right? Every case of every op it has, run and compared with the op's bound.

    result = conform("opencl", level="core")
    print(result)

Levels: "core" (ordinary and awkward shapes, layouts), "full" (more shapes, batches, integers),
"hostile" (extreme values, NaN and infinity, cancellation). Each level includes the ones before.
"""

from __future__ import annotations

from portable.conformance.result import Outcome, Result
from portable.conformance.runner import LEVELS, conform

__all__ = ["LEVELS", "Outcome", "Result", "conform"]
