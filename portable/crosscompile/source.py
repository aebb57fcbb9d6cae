"""Third-party kernels: any Triton kernel, any CUDA C++ file."""

from __future__ import annotations

import ast
import hashlib
import re
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from portable.crosscompile import worker
from portable.crosscompile.facts import Skipped, Target, Unit
from portable.crosscompile.run import TIMEOUT, Building, Progress, Report, report_of
from portable.crosscompile.targets import DEFAULT_TARGETS, resolve
from portable.errors import ParameterError

OPTIONS = ("num_warps", "num_stages", "num_ctas", "waves_per_eu", "matrix_instr_nonkdim", "kpack")
CUDA_OPTIONS = ("threads", "shared")
"""Threads of a block and dynamic shared memory [B]: CUDA C++ leaves both to the launch."""
CUDA_SUFFIXES = (".cu", ".cuh")
ASSUMED = "256 threads assumed"


def parse_signature(text: str) -> tuple[dict[str, str], dict[str, Any]]:
    """("x: *fp16, n: i32", "BLOCK = 128, num_warps = 8") of one signature text.

    Parts are separated by ";" or ","; "name: type" is an argument, "name = value" a constant or
    one of OPTIONS. Types: *fp16 *bf16 *fp32 *fp8e4nv *i8 *i32 ..., i32 i64 fp32; i32:16 is an
    integer that 16 divides (pointers are taken as 16-byte aligned).

    Raises:
        ParameterError: a part that is neither.
    """
    kinds: dict[str, str] = {}
    constants: dict[str, Any] = {}
    for part in filter(None, (p.strip() for p in text.replace(";", ",").split(","))):
        if "=" in part:
            name, _, value = (piece.strip() for piece in part.partition("="))
            constants[name] = _value(value)
        elif ":" in part:
            name, _, kind = (piece.strip() for piece in part.partition(":"))
            kinds[name] = kind
        else:
            raise ParameterError(
                f"signature part {part!r}; it must be 'name: type' (x: *fp16, n: i32) or "
                "'NAME = value' (BLOCK = 128, num_warps = 8)"
            )
    return kinds, constants


def _value(text: str) -> Any:
    known = {"true": True, "false": False, "none": None}
    if text.lower() in known:
        return known[text.lower()]
    for kind in (int, float):
        try:
            return kind(text)
        except ValueError:
            continue
    return text.strip("\"'")


def unit_of(source: str, signature: str) -> Unit:
    """The unit of "file.py::kernel" or "file.cu[::kernel]".

    Raises:
        ParameterError: no such file, or no kernel name for a Python file.
    """
    path, _, name = source.partition("::")
    file = Path(path)
    if not file.is_file():
        raise ParameterError(f"--source {source!r}: there is no file {path!r}")
    kinds, constants = parse_signature(signature)
    cuda = file.suffix in CUDA_SUFFIXES
    known = CUDA_OPTIONS if cuda else OPTIONS
    options = {key: constants.pop(key) for key in known if key in constants}
    if not cuda and (file.suffix != ".py" or not name):
        raise ParameterError(
            f"--source {source!r}: name a Triton kernel as file.py::kernel, or a .cu file"
        )
    given: Mapping[str, Any] = {
        "path": str(file.resolve()), "name": name, "kinds": kinds, "constants": constants,
        "options": options,
    }  # fmt: skip
    texts = with_own_parts(file)
    text = texts[0]
    digest = hashlib.sha256(f"2{texts}{sorted(map(str, given.items()))}".encode()).hexdigest()[:32]
    assumed = [ASSUMED] if cuda and "threads" not in options else []
    return Unit(
        backend="cuda" if cuda else "triton",
        op=file.name,
        label=", ".join([*(f"{k}={v}" for k, v in constants.items()), *assumed]),
        kernel=name or file.stem,
        config=options,
        source_hash=digest,
        source=given,
        factor="" if cuda else _factor(kinds, text, name),
    )


_PARTS = re.compile(r'^\s*#\s*include\s+"([^"]+)"|^\s*(?:from|import)\s+\.?(\w+)', re.MULTILINE)


def with_own_parts(file: Path) -> list[str]:
    """The texts of a file and of the headers or modules beside it that it names, and so on."""
    found: dict[Path, str] = {}
    todo = [file.resolve()]
    while todo:
        path = todo.pop()
        if path in found or not path.is_file():
            continue
        found[path] = path.read_text(encoding="utf-8", errors="replace")
        for header, module in _PARTS.findall(found[path]):
            todo.append((path.parent / (header or f"{module}.py")).resolve())
    return list(found.values())


def _factor(kinds: Mapping[str, str], text: str, name: str) -> str:
    """The dtype of the products of a kernel that has some: that of its first pointer."""
    names = {
        "fp16": "float16", "bf16": "bfloat16", "fp32": "float32", "fp64": "float64",
        "fp8e4nv": "float8_e4m3fn", "i8": "int8",
    }  # fmt: skip
    first = next((k[1:] for k in kinds.values() if k.startswith("*")), "")
    return names.get(first, "") if has_product(text, name) else ""


def has_product(text: str, name: str) -> bool:
    """Whether a function, or one of its file that it names, calls `dot`."""
    tree = ast.parse(text)
    functions = {n.name: n for n in ast.walk(tree) if isinstance(n, ast.FunctionDef)}
    seen, todo = set(), [name]
    while todo:
        current = todo.pop()
        if current in seen or current not in functions:
            continue
        seen.add(current)
        for node in ast.walk(functions[current]):
            if isinstance(node, ast.Attribute) and node.attr in ("dot", "dot_scaled"):
                return True
            if isinstance(node, ast.Name):
                todo.append(node.id)
    return False


def crosscompile_source(
    source: str,
    signature: str,
    *,
    targets: Sequence[str] = (),
    jobs: int = 0,
    timeout: float = TIMEOUT,
    use_cache: bool = True,
    progress: Progress | None = None,
) -> Report:
    """Builds one kernel of someone else's file for targets and judges it.

    A Python file is imported in a child process to get at its kernel: run only files you trust.

    Args:
        source: "file.py::kernel" or "file.cu[::kernel]".
        signature: argument types and constants, see `parse_signature`; for CUDA constants (they
            become macros) and the launch's `threads = 128, shared = 49152`.
        targets, jobs, timeout, use_cache, progress: as for `crosscompile`.

    Raises:
        ParameterError: source or signature make no sense.
        UnknownNameError: an unknown target.
    """
    unit = unit_of(source, signature)
    hook = worker.hook(unit.backend)
    missing = hook.why_missing()
    if missing is not None:
        return Report((), (Skipped.missing(unit.backend, missing),), {})
    versions = {unit.backend: dict(hook.versions())}
    pairs: list[tuple[Unit, Target]] = []
    skipped: list[Skipped] = []
    for target in map(resolve, targets or DEFAULT_TARGETS):
        why = hook.why_not_target(target.architecture)
        if why:
            skipped.append(Skipped(unit.backend, why, target.name))
        else:
            pairs.append((unit, target))
    building = Building(jobs, timeout, use_cache=use_cache, progress=progress)
    return report_of(pairs, skipped, versions, building)
