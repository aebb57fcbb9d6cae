"""MLIR text to IREE's binary, for one target."""

from __future__ import annotations

import functools
import tempfile
from pathlib import Path

from portable.errors import CompileError

TARGETS = {
    "llvm-cpu": ("llvm-cpu", ("--iree-llvmcpu-target-cpu=host",)),
    "vulkan": ("vulkan-spirv", ()),
}
_ALWAYS = ("--iree-input-demote-f64-to-f32=false",)  # by default float64 silently becomes float32


@functools.lru_cache(maxsize=512)
def binary(text: str, runtime: str) -> bytes:
    """For a runtime of this machine.

    Raises:
        CompileError: with IREE's words.
    """
    target, flags = TARGETS[runtime]
    return _compiled(text, target, list(flags))


def rocm_assembly(text: str, architecture: str) -> tuple[str, int]:
    """AMD GCN assembly of a module's kernels, and the size of the binary [B]; needs no GPU."""
    with tempfile.TemporaryDirectory() as folder:
        flags = [
            f"--iree-rocm-target={architecture}",
            f"--iree-hal-dump-executable-intermediates-to={folder}",
        ]
        made = _compiled(text, "rocm", flags)
        parts = sorted(Path(folder).glob("*.rocmasm"))
        return "\n".join(p.read_text("utf-8", "replace") for p in parts), len(made)


def _compiled(text: str, target: str, flags: list[str]) -> bytes:
    from iree.compiler import CompilerToolError, compile_str

    try:
        made: bytes = compile_str(text, target_backends=[target], extra_args=[*_ALWAYS, *flags])
    except CompilerToolError as error:
        log = str(error).partition("Diagnostics:")[2].strip() or str(error)
        raise CompileError(f"MLIR for {target}", log, text) from error
    return made
