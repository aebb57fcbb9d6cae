"""NumPy's idle threads, kept off the cores that the next candidate of a measurement needs."""

from __future__ import annotations

import os
import sys

VARIABLE = "OPENBLAS_THREAD_TIMEOUT"
CYCLES = 20
"""log2 of the processor cycles that an idle thread spins: half a millisecond or less."""


def shorten() -> None:
    """Let OpenBLAS' idle threads sleep after 0.5 ms, not after 60 ms (measured with its default).

    Calls in a loop find them spinning as before. A setting of the user's stays; once NumPy is
    imported nothing can be changed any more.
    """
    if "numpy" not in sys.modules:
        os.environ.setdefault(VARIABLE, str(CYCLES))
