"""NumPy's own tests of matmul, run on portable.matmul: its classes with another function."""

from __future__ import annotations

import warnings
from collections.abc import Callable

import portable

CLASSES = ("TestMatmul", "TestMatmulOperator")
TYPES = {"torch": "?bhilqBefd", "opencl": "efd"}
ALL_TYPES = "?bhilqBHILQefd"
"""What of NumPy's list portable takes: without extended precision, complex numbers and objects.
Backends that take less are named in TYPES."""


def tests(backend: str) -> dict[str, Callable[[], None]]:
    """ "TestMatmul.test_shapes" -> what runs it, on the types that a backend takes."""
    types = TYPES.get(backend.partition("[")[0], ALL_TYPES)
    try:
        from numpy._core.tests import test_multiarray as theirs
    except ImportError:  # NumPy 1
        from numpy.core.tests import test_multiarray as theirs

    found = {}
    for name in CLASSES:
        theirs_class = getattr(theirs, name)
        own = type(name, (theirs_class,), {"matmul": staticmethod(portable.matmul), "types": types})
        for method in sorted(m for m in dir(own) if m.startswith("test_")):
            if _uses_self_matmul(getattr(theirs_class, method)):
                found[f"{name}.{method}"] = _runner(own, method)
    return found


def _uses_self_matmul(method: object) -> bool:
    """The others test NumPy's operator or ufunc itself."""
    return "matmul" in method.__code__.co_names and "ufunc" not in method.__name__


def _runner(own: type, method: str) -> Callable[[], None]:
    def run() -> None:
        import inspect

        test = getattr(own(), method)
        marks = getattr(getattr(own, method), "pytestmark", [])
        sets = [(v, "," in m.args[0]) for m in marks if m.name == "parametrize" for v in m.args[1]]
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            if not inspect.signature(test).parameters:
                test()
            for values, several in sets:
                test(*values) if several else test(values)

    return run
