"""The emulation's cache of built kernels, kept between runs in pytest's own cache folder."""

from __future__ import annotations

import pytest

from tests.cuda import emulation


@pytest.fixture(scope="session")
def objects(request, tmp_path_factory):
    """Folder of built kernels; skips where there is no compiler."""
    if emulation.GXX is None:
        pytest.skip("g++ is not installed (apt install g++): the CUDA sources were not run")
    cache = getattr(request.config, "cache", None)  # absent under -p no:cacheprovider
    return cache.mkdir("cuda-emulation") if cache else tmp_path_factory.mktemp("emulation")
