"""`torch.compile` takes portable's functions as single steps of its graph.

Dynamo, the tracer of torch.compile, would otherwise walk through portable's dispatch and break the
graph at its first context variable (an error with `fullgraph=True`). Marked with `allow_in_graph` a
function is one node: Dynamo calls it on fake tensors, AOTAutograd traces through it. Both are
subclass tensors, so the call goes to the torch backend, whose operations enter the graph, and are
differentiated and fused there. Symbolic sizes are fixed to their values (one compilation a shape).

What `portable.using(...)` says at the time of the trace is what the compiled function keeps.
torch's switches of float32 precision and autocast act on the compiled graph as on torch's own
code. NumPy arrays in a compiled function are tensors to Dynamo, and so is the result.
"""

from __future__ import annotations

import importlib.util
import sys
from collections.abc import Callable, Mapping, Sequence
from importlib.abc import Loader, MetaPathFinder
from importlib.machinery import ModuleSpec
from types import ModuleType
from typing import Any

_DYNAMO = "torch._dynamo"


def install(public_functions: Mapping[str, Callable[..., Any]]) -> None:
    """Mark the functions now if Dynamo is loaded, else at the moment it is.

    Imports nothing of torch. Call it once, when the public functions exist: a compiled function may
    be the first to call them.
    """
    functions = tuple(public_functions.values())
    if _DYNAMO in sys.modules:
        _mark(functions)
    else:
        sys.meta_path.insert(0, _Watch(functions))


def _mark(functions: Sequence[Callable[..., Any]]) -> None:
    allow_in_graph: Any = sys.modules[_DYNAMO].allow_in_graph
    for function in functions:
        allow_in_graph(function)


class _Watch(MetaPathFinder):
    """Waits for the import of Dynamo, and leaves the import itself to the usual finders."""

    def __init__(self, functions: Sequence[Callable[..., Any]]) -> None:
        self.functions = functions

    def find_spec(
        self, fullname: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> ModuleSpec | None:
        """The usual spec, with a loader that marks the functions once the module is there."""
        if fullname != _DYNAMO:
            return None
        if self in sys.meta_path:
            sys.meta_path.remove(self)
        spec = importlib.util.find_spec(fullname)
        if spec is not None and spec.loader is not None:
            spec.loader = _MarkingLoader(spec.loader, self.functions)
        return spec


class _MarkingLoader(Loader):
    """The usual loader, and one step after it."""

    def __init__(self, inner: Loader, functions: Sequence[Callable[..., Any]]) -> None:
        self._inner, self._functions = inner, functions

    def __getattr__(self, name: str) -> Any:
        return getattr(self._inner, name)

    def create_module(self, spec: ModuleSpec) -> ModuleType | None:
        """As usual."""
        return self._inner.create_module(spec)

    def exec_module(self, module: ModuleType) -> None:
        """As usual, then the mark."""
        self._inner.exec_module(module)
        _mark(self._functions)
