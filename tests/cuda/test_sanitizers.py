"""The emulated kernels under AddressSanitizer and ThreadSanitizer; planted faults are found.

`python -m tests.cuda --sanitizer address|thread` runs a launch of every kernel.
"""

from __future__ import annotations

import pytest

from tests.cuda import sanitizing
from tests.cuda.sanitized import SanitizerError

BY_NAME = {small.op: small for small in sanitizing.FIRST}


@pytest.mark.parametrize("op", BY_NAME)
@pytest.mark.parametrize("sanitizer", ["address", "thread"])
def test_clean(op, sanitizer, objects):
    assert sanitizing.run(BY_NAME[op], objects, sanitizer) == []


def test_a_missing_barrier_is_found(objects):
    """Without __syncthreads() the rows' reductions read what others still write."""
    with pytest.raises(SanitizerError, match="data race"):
        sanitizing.run(BY_NAME["softmax"], objects, "thread", "#define PLANTED_RACE 1\n")


def test_an_overrun_is_found(objects, monkeypatch):
    """A row that is said to be longer than it is: the reads leave the buffer."""
    from portable.backends.cuda import _rows

    honest = _rows.rows
    monkeypatch.setattr(_rows, "rows", lambda spec: _rows.Rows(honest(spec).count, 203, 210, spec))
    with pytest.raises(SanitizerError, match="heap-buffer-overflow"):
        sanitizing.run(BY_NAME["softmax"], objects, "address")
