"""NumPy at first use: importing `portable` must not pay for importing NumPy.

from portable._numpy import np
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

__all__ = ["Array", "np"]

if TYPE_CHECKING:
    import numpy as np

    Array = np.ndarray[Any, np.dtype[Any]]
else:
    Array = Any

    class _NumPy:
        """Imports NumPy when an attribute is asked for, and keeps the attribute."""

        def __getattr__(self, name: str) -> Any:
            import numpy

            value = getattr(numpy, name)
            setattr(self, name, value)
            return value

    np = _NumPy()
