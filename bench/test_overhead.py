"""The same overheads under pytest-benchmark: `python -m pytest bench --benchmark-only`.

python -m pytest bench --benchmark-only --benchmark-group-by=param:library
"""

from __future__ import annotations

import numpy as np
import pytest

import portable


def arrays(library: str):
    """Two 8x8 float32 arrays and the library's own product."""
    a = np.ones((8, 8), np.float32)
    if library == "numpy":
        return np.matmul, a
    torch = pytest.importorskip("torch")
    return torch.matmul, torch.from_numpy(a)


@pytest.mark.parametrize("library", ["numpy", "torch"])
@pytest.mark.parametrize("way", ["direct", "call", "bound"])
def test_warm_call(benchmark, library, way):
    """One warm 8x8 product: the library itself, `portable.matmul`, a bound call."""
    direct, a = arrays(library)
    with portable.using(backend=library):
        ways = {
            "direct": direct,
            "call": portable.matmul,
            "bound": portable.bind("matmul", a, a),
        }
        result = benchmark(ways[way], a, a)
    assert np.asarray(result)[0, 0] == 8
