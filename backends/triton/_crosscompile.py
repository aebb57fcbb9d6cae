"""What `portable.crosscompile` asks of this backend: units of a problem, and building one of them.

A unit is one launch of one config of one problem, for one architecture. Nothing here needs a GPU.
"""

from __future__ import annotations

import contextlib
import hashlib
import io
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from portable.backend import Config, Missing
from portable.backends.triton import _target
from portable.backends.triton._plan import ALIGNMENT, Launch, Plan, T, signature, tensor_dtypes
from portable.backends.triton._target import Target
from portable.device import Device, DeviceInfo
from portable.op import Problem

ASSEMBLY = ("amdgcn", "ptx")
DIVISIBLE = f":{ALIGNMENT}"
"""Ending of a type: the integer is divisible by 16, as most sizes are at a launch ("i32:16")."""


def why_missing() -> Missing | None:
    """Why nothing can be compiled, or None: no GPU is needed, Triton is."""
    from portable.backend import BackendBase
    from portable.backends.triton import TritonBackend, interpreting

    if interpreting():
        return Missing("triton's interpreter is on (unset TRITON_INTERPRET)")
    return BackendBase.why_missing(TritonBackend())


def versions() -> Mapping[str, str]:
    """The compiler's version."""
    import triton

    return {"triton": triton.__version__}


def why_not_target(architecture: str) -> str:
    """Why the architecture cannot be built for, or ""."""
    reasons = _target.unsupported(_device(architecture, 0))
    return "; ".join(reasons)


def _device(architecture: str, units: int) -> Device:
    return Device("cuda:0", DeviceInfo(architecture, architecture=architecture, units=units))


def configs(op: str, problem: Problem, architecture: str, units: int) -> Sequence[Config] | str:
    """The configs the backend would try on that target, or why it refuses the problem."""
    from portable.backends.triton import backend

    implementation = backend.implementation(op)
    if implementation is None:
        return f"triton has no {op}"
    device = _device(architecture, units)
    reasons = implementation.why_not(problem, device)
    return "; ".join(reasons) if reasons else list(implementation.configs(problem, device))


def launches(op: str, problem: Problem, architecture: str, units: int, config: Config) -> Plan:
    """The plan of a config on a target."""
    import importlib

    module = importlib.import_module(f"portable.backends.triton.{op}")
    plan: Plan = module.plan(problem, _target.parse(architecture, units), config)
    return plan


def describe(
    op: str, problem: Problem, architecture: str, units: int, config: Config
) -> list[dict[str, Any]]:
    """One entry per launch: kernel, grid, what its blocks compute, and the hash of its source."""
    plan = launches(op, problem, architecture, units, config)
    dtypes = tensor_dtypes(problem, plan)
    found = []
    for launch in plan.launches:
        kinds, constants, attributes = signature(launch, dtypes)
        source = [launch.kernel.cache_key, kinds, sorted(constants.items(), key=str), attributes]
        text = repr([*source, sorted(launch.options.items())])
        found.append(
            {
                "kernel": launch.kernel.__name__,
                "grid": launch.grid,
                "source_hash": hashlib.sha256(text.encode()).hexdigest()[:32],
                **_shape(launch, dtypes),
            }
        )
    return found


def _shape(launch: Launch, dtypes: Mapping[str, str]) -> dict[str, Any]:
    """For products: extents, tile and the dtype of the factors; {} for other kernels."""
    given = launch.arguments
    extents = ("pixels", "filters") if "pixels" in given else ("M", "N")
    if "BLOCK_K" not in given or not set(extents) <= set(given) or "BLOCK_M" not in given:
        return {}
    operand = given.get("a", given.get("x"))
    view = "float16" if given.get("FORM") == "half" else ""
    return {
        "extent": [given[name] for name in extents],
        "tile": [given["BLOCK_M"], given["BLOCK_N"]],
        "factor": view or dtypes[operand.name],
    }


def build(
    op: str, problem: Problem, architecture: str, units: int, config: Config, index: int
) -> dict[str, Any]:
    """Compiles one launch; returns assembly, the assembler's log and what the compiler reports."""
    plan = launches(op, problem, architecture, units, config)
    launch = plan.launches[index]
    kinds, constants, attributes = signature(launch, tensor_dtypes(problem, plan))
    target = _target.parse(architecture, units)
    return compile_kernel(launch.kernel, kinds, constants, attributes, launch.options, target)


def compile_kernel(
    kernel: Any,
    kinds: Mapping[str, str],
    constants: Mapping[str, Any],
    attributes: Mapping[Any, Any],
    options: Mapping[str, Any],
    target: Target,
) -> dict[str, Any]:
    """One @triton.jit function for one target."""
    import triton
    from triton.backends.compiler import GPUTarget
    from triton.compiler import ASTSource

    source = ASTSource(kernel, dict(kinds), dict(constants), dict(attributes))
    where = GPUTarget(target.backend, target.arch, target.warp)
    said = io.StringIO()
    with _fresh(), contextlib.redirect_stdout(said):
        compiled = triton.compile(
            source, target=where, options={"enable_fp_fusion": True, **options}
        )
    (kind,) = (name for name in ASSEMBLY if name in compiled.asm)
    binary = compiled.asm["cubin" if target.backend == "cuda" else "hsaco"]
    metadata = compiled.metadata
    return {
        "kind": kind,
        "assembly": compiled.asm[kind],
        "log": said.getvalue(),
        "shared": metadata.shared,
        "threads": metadata.num_warps * target.warp,
        "binary_size": len(binary),
        "binary": binary,
    }


@contextlib.contextmanager
def _fresh() -> Any:
    """Compiles anew and prints the assembler's log, whatever the environment says."""
    from triton import knobs

    with knobs.compilation.scope(), knobs.nvidia.scope():
        knobs.compilation.always_compile = True
        knobs.nvidia.dump_ptxas_log = True
        yield


def build_source(
    path: str, name: str, kinds: Mapping[str, str], constants: Mapping[str, Any],
    options: Mapping[str, Any], architecture: str,
) -> dict[str, Any]:  # fmt: skip
    """Compiles a kernel of any Python file, which is imported for it."""
    kernel = load(path, name)
    missing = [a for a in kernel.arg_names if a not in kinds and a not in constants]
    unknown = [a for a in (*kinds, *constants) if a not in kernel.arg_names]
    if missing or unknown:
        lacks = f"the signature lacks {', '.join(missing)}" if missing else ""
        extra = f"{', '.join(unknown)} is no argument of it" if unknown else ""
        what = "; ".join(filter(None, (lacks, extra)))
        raise ValueError(f"{name}({', '.join(kernel.arg_names)}): {what}")
    plain = {a: kinds.get(a, "constexpr").removesuffix(DIVISIBLE) for a in kernel.arg_names}
    attributes = {
        (index,): [["tt.divisibility", ALIGNMENT]]
        for index, argument in enumerate(kernel.arg_names)
        if kinds.get(argument, "").startswith("*") or kinds.get(argument, "").endswith(DIVISIBLE)
    }
    target = _target.parse(architecture)
    return compile_kernel(kernel, plain, constants, attributes, options, target)


def load(path: str, name: str) -> Any:
    """The @triton.jit function `name` of a Python file; decorators around it are taken off."""
    from triton.runtime.jit import JITFunction

    file = Path(path).resolve()
    try:
        module = _module(f"_crosscompiled_{file.stem}", file)
    except ImportError as error:
        if "relative import" not in str(error):
            raise
        module = _of_package(file)
    kernel = getattr(module, name, None)
    while kernel is not None and not isinstance(kernel, JITFunction):
        kernel = getattr(kernel, "fn", None)  # autotune, heuristics
    if kernel is None:
        raise ValueError(f"{path} has no @triton.jit function {name!r}")
    return kernel


def _module(name: str, file: Path) -> Any:
    """A file on its own; what lies beside it can be imported."""
    import importlib.util
    import sys

    spec = importlib.util.spec_from_file_location(name, file)
    if spec is None or spec.loader is None:
        raise ValueError(f"{file} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    sys.path.insert(0, str(file.parent))
    try:
        spec.loader.exec_module(module)
    finally:
        sys.path.remove(str(file.parent))
    return module


def _of_package(file: Path) -> Any:
    """A file as a member of the package it lies in, for its relative imports."""
    import importlib
    import sys

    root, parts = file.parent, [file.stem]
    while (root / "__init__.py").is_file():
        root, parts = root.parent, [root.name, *parts]
    sys.path.insert(0, str(root))
    try:
        return importlib.import_module(".".join(parts))
    finally:
        sys.path.remove(str(root))


__all__ = ["T", "build", "build_source", "configs", "describe", "versions", "why_missing"]
