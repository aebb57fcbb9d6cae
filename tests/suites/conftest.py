"""NumPy's test modules use marks of their own."""

from __future__ import annotations


def pytest_configure(config):
    for name in ("thread_unsafe", "leaks_references", "parallel_threads_limit", "iterations"):
        config.addinivalue_line("markers", f"{name}: of NumPy's own tests")
