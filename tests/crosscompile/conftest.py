"""Builds of these tests are kept apart from the user's."""

from __future__ import annotations

import pytest


@pytest.fixture(autouse=True, scope="module")
def own_cache(tmp_path_factory):
    """A cache of builds per module."""
    with pytest.MonkeyPatch.context() as patch:
        folder = tmp_path_factory.mktemp("builds")
        patch.setenv("PORTABLE_CROSSCOMPILE_CACHE", str(folder))
        yield folder
