"""NumPy's test modules use marks of their own."""

from __future__ import annotations


def pytest_configure(config):
    for name in ("thread_unsafe", "leaks_references", "valgrind_error", "parallel_threads_limit"):
        config.addinivalue_line("markers", f"{name}: of NumPy's own tests")
