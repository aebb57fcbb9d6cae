"""What the child process runs: one build, plain data in and out."""

from __future__ import annotations

import importlib
import importlib.util
import time
from typing import Any


def hook(backend: str) -> Any:
    """The cross-compiler of a backend, found as the engine finds backends.

    Raises:
        UnknownNameError: no such backend, or one that cannot cross-compile.
    """
    from portable.errors import UnknownNameError

    found = hooks()
    if backend not in found:
        raise UnknownNameError("cross-compiling backend", backend, found)
    return found[backend]


def hooks() -> dict[str, Any]:
    """The cross-compilers of all backends, usable here or not, by name."""
    from portable import registry

    found = {}
    for name, entry in registry.registered().items():
        compiler = _compiler(entry.backend)
        if compiler is not None:
            found[name] = compiler
    return dict(sorted(found.items()))


def _compiler(backend: Any) -> Any:
    """The backend's attribute `crosscompile`, or the module `_crosscompile` of its package."""
    if hasattr(backend, "crosscompile"):
        return backend.crosscompile
    package = getattr(backend, "package", None)
    if package is None or importlib.util.find_spec(f"{package}._crosscompile") is None:
        return None
    return importlib.import_module(f"{package}._crosscompile")


def build(task: dict[str, Any]) -> dict[str, Any]:
    """Builds a unit and reads its resources; returns fields of `facts.Built`."""
    from portable.crosscompile import assembly
    from portable.records.problem_json import problem_from_json

    compiler = hook(task["backend"])
    start = time.perf_counter()
    try:
        if task["source"]:
            artifact = compiler.build_source(**task["source"], architecture=task["architecture"])
        else:
            problem = problem_from_json(task["problem"])
            artifact = compiler.build(
                task["op"], problem, task["architecture"], task["units"], task["config"],
                task["index"],
            )  # fmt: skip
    except Exception as error:  # whatever a compiler raises is its verdict on the kernel
        log = getattr(error, "log", "") or f"{type(error).__name__}: {error}"
        return {
            "status": "error",
            "message": shorten(log),
            "log": log[-20_000:],
            "seconds": time.perf_counter() - start,
        }
    seconds = time.perf_counter() - start
    return {"status": "ok", "seconds": seconds, **assembly.read(artifact)}


def shorten(log: str) -> str:
    """The line that says why, of a compiler's output: at most 160 characters."""
    lines = [line.strip() for line in log.splitlines() if line.strip()]
    marks = ("error:", "fatal", "assert", "not supported", "unsupported", "error")
    for mark in marks:
        for line in lines:
            if mark in line.lower():
                # "CompilationError: at 118:14:" is followed by the source, the words come last
                words = f"{line} {lines[-1]}" if line.endswith(":") else line
                return words[:160]
    return (lines[-1] if lines else "no output")[:160]
