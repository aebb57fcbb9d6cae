"""Implementations: one folder per backend, one module per op. Found by entry point only.

`portable.backends()` lists them: importing any backend binds this package to that name, so the
package itself answers the call.
"""

from __future__ import annotations

import sys
from types import ModuleType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from portable.api import BackendStatus


class _CallablePackage(ModuleType):
    def __call__(self) -> list[BackendStatus]:
        """Every backend found, available or not; see `portable.api.backends`."""
        import importlib

        found: list[BackendStatus] = importlib.import_module("portable.api").backends()
        return found


sys.modules[__name__].__class__ = _CallablePackage
