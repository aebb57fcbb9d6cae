"""FlashInfer-Trace folders: definitions, workloads and traces, read and written.

A folder has `definitions/**/NAME.json`, `workloads/**/*.jsonl`, `traces/**/*.jsonl` and
`solutions/**/NAME.json`. SOL-ExecBench uses the same definitions and workloads.

Reading maps definitions by their op type onto our ops; what has none is listed with its share, all
definitions weighing alike. Only shapes and names are read: reference code in a definition is data
that nobody runs. A trace we wrote carries our whole record in its log.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

from portable import dtypes, plain
from portable.errors import ArgumentError, DTypeError, RecordError
from portable.op import Problem, TensorSpec
from portable.records import Record
from portable.records.files import Loaded
from portable.records.record import DeviceKey
from portable.workloads.selection import bind
from portable.workloads.workload import Entry, Unmapped, Workload

MARK = "portable record: "
_STATUS = {
    "ok": "PASSED", "bound_violated": "PASSED", "incorrect": "INCORRECT_NUMERICAL",
    "compile_error": "COMPILE_ERROR", "hang": "TIMEOUT", "exception": "RUNTIME_ERROR",
    "crash": "RUNTIME_ERROR", "oom": "RUNTIME_ERROR",
}  # fmt: skip
"""Our status -> theirs; "unsupported" and "skipped" have no place there."""
_OURS = {
    "PASSED": "ok", "INCORRECT_SHAPE": "incorrect", "INCORRECT_NUMERICAL": "incorrect",
    "INCORRECT_DTYPE": "incorrect", "RUNTIME_ERROR": "exception",
    "COMPILE_ERROR": "compile_error", "TIMEOUT": "hang", "REWARD_HACK": "incorrect",
    "INVALID_REFERENCE": "skipped",
}  # fmt: skip
_DTYPES = {"float8_e4m3": "float8_e4m3fn"}
_THEIRS = {ours: theirs for theirs, ours in _DTYPES.items()}
_NOT_THERE = ("float64", "uint8", "uint16", "uint32", "uint64", "complex64", "complex128")

# Op type -> our op, and which of their inputs is which operand (the first name that is there).
_INPUTS: dict[str, tuple[str, dict[str, tuple[str, ...]]]] = {
    "rmsnorm": ("rms_norm", {"x": ("hidden_states", "x", "input"), "weight": ("weight",)}),
    "fused_add_rmsnorm": (
        "add_rms_norm",
        {"x": ("hidden_states", "x"), "residual": ("residual",), "weight": ("weight",)},
    ),
    "gemm": ("matmul", {"a": ("A", "a"), "b": ("B", "b")}),
}


def load_workload(folder: str | Path) -> Workload:
    """The workloads of a folder; each definition weighs 1, split evenly over its workloads.

    Raises:
        RecordError: the folder holds no definition, or a file in it cannot be read.
    """
    root = Path(folder)
    definitions = _definitions(root)
    runs = _workloads(root)
    entries: list[Entry] = []
    unmapped: list[Unmapped] = []
    for name, definition in definitions.items():
        share = 1 / len(definitions)
        several = runs.get(name) or [{}]
        for axes in several:
            part = share / len(several)
            try:
                operands = _operands(definition, axes)
                entry = Entry(operands[0], operands[1], {}, 1 / len(several), part, name)
                bind(entry)
            except (ArgumentError, RecordError) as error:
                what = plain.text(definition, "op_type", plain.text(definition, "type", "unknown"))
                details = {"axes": dict(axes), "why": str(error)[:200]}
                unmapped.append(Unmapped(what, 1 / len(several), part, name, details))
                continue
            entries.append(entry)
    return Workload(
        root.name, "trace", (f"FlashInfer-Trace folder {root.name}",),
        "1 per definition, split evenly over its workloads", ("shares are those of weights",),
        tuple(entries), tuple(unmapped),
    )  # fmt: skip


def load_records(folder: str | Path) -> Loaded:
    """Records of a folder's traces; what cannot be mapped is listed with its line.

    Raises:
        RecordError: as `load_workload`.
    """
    root = Path(folder)
    definitions, loaded = _definitions(root), Loaded()
    for path in sorted((root / "traces").rglob("*.jsonl")):
        for number, trace in _lines(path):
            try:
                if trace.get("evaluation") is not None:
                    loaded.records.append(_record(trace, definitions))
            except (ArgumentError, RecordError) as error:
                loaded.errors.append((number, f"{path.name}: {error}"))
    return loaded


def _record(trace: dict[str, Any], definitions: Mapping[str, dict[str, Any]]) -> Record:
    evaluation = plain.mapping(trace, "evaluation")
    log = evaluation.get("log")
    if isinstance(log, str) and log.startswith(MARK):
        return Record.from_json(plain.parse(log.removeprefix(MARK)))
    name = plain.text(trace, "definition")
    if name not in definitions:
        raise RecordError(f"no definition {name!r}")
    axes = plain.mapping(plain.mapping(trace, "workload"), "axes")
    op, operands = _operands(definitions[name], axes)
    status = plain.one_of(plain.text(evaluation, "status"), "status", tuple(_OURS))
    ok = status == "PASSED"
    latency = plain.mapping(evaluation, "performance").get("latency_ms") if ok else None
    environment = plain.mapping(evaluation, "environment")
    return Record(
        problem=bind(Entry(op, operands, {}, 1.0, 1.0, name)),
        backend="flashinfer-bench",
        implementation=plain.text(trace, "solution"),
        device=DeviceKey("imported", plain.text(environment, "hardware")),
        versions=plain.texts(environment, "libs"),
        cache="cold",
        method="flashinfer-bench",
        samples=(plain.number(latency, "latency_ms") * 1e-3,) if ok else (),
        status=_OURS[status],
        reason="" if ok else status,
        created=plain.text(evaluation, "timestamp").strip().replace(" ", "T", 1),
    )


def _operands(
    definition: dict[str, Any], axes: Mapping[str, Any]
) -> tuple[str, dict[str, TensorSpec]]:
    kind = plain.text(definition, "op_type", plain.text(definition, "type", ""))
    if kind not in _INPUTS:
        raise RecordError(f"op type {kind!r} has no op of ours")
    op, wanted = _INPUTS[kind]
    sizes, inputs = _sizes(definition, axes), plain.mapping(definition, "inputs")
    found = {}
    for operand, names in wanted.items():
        name = next((n for n in names if n in inputs), None)
        if name is None:
            raise RecordError(f"no input {' or '.join(names)}")
        found[operand] = _tensor(plain.mapping(inputs, name), sizes)
    if op == "matmul":
        found["b"] = _second(found["a"], found["b"])
    return op, found


def _second(a: TensorSpec, b: TensorSpec) -> TensorSpec:
    """Their gemm is A (m, k) times the transpose of B (n, k)."""
    if a.ndim != 2 or b.ndim != 2 or a.shape[1] != b.shape[1]:
        raise RecordError(f"a gemm of {a} and {b} (A (m, k), B (n, k) are needed)")
    n, k = b.shape
    return TensorSpec((k, n), b.dtype, (1, k))


def _sizes(definition: dict[str, Any], axes: Mapping[str, Any]) -> dict[str, int]:
    sizes = {}
    for name in plain.mapping(definition, "axes"):
        axis = plain.mapping(plain.mapping(definition, "axes"), name)
        if axis.get("type") == "const":
            sizes[name] = plain.integer(axis, "value")
        elif name in axes:
            sizes[name] = plain.integer(axes, name)
    return sizes


def _tensor(data: dict[str, Any], sizes: Mapping[str, int]) -> TensorSpec:
    dtype = plain.text(data, "dtype")
    try:
        shape = tuple(sizes[axis] for axis in plain.sequence(data, "shape", plain.MAX_NDIM))
        return TensorSpec(shape, dtypes.canonical(_DTYPES.get(dtype, dtype)))
    except (KeyError, TypeError) as error:
        raise RecordError(f"axis {error} has no size") from None
    except DTypeError as error:
        raise RecordError(str(error)) from None


def _definitions(root: Path) -> dict[str, dict[str, Any]]:
    found = {}
    for path in sorted((root / "definitions").rglob("*.json")):
        try:
            data = plain.parse(path.read_text(encoding="utf-8"))
            found[plain.text(data, "name")] = data
        except (OSError, ValueError, RecordError) as error:
            raise RecordError(f"{path}: {error}") from None
    if not found:
        raise RecordError(f"{root} is no FlashInfer-Trace folder: no definitions in it")
    return found


def _workloads(root: Path) -> dict[str, list[dict[str, Any]]]:
    runs: dict[str, list[dict[str, Any]]] = {}
    for path in sorted((root / "workloads").rglob("*.jsonl")):
        for _, line in _lines(path):
            workload = plain.mapping(line, "workload") or line
            name = plain.text(line, "definition", path.stem)
            runs.setdefault(name, []).append(plain.mapping(workload, "axes"))
    return runs


def _lines(path: Path) -> Iterator[tuple[int, dict[str, Any]]]:
    try:
        for number, line in enumerate(path.read_text(encoding="utf-8").splitlines(), 1):
            if line.strip():
                yield number, plain.parse(line)
    except (OSError, ValueError, RecordError) as error:
        raise RecordError(f"{path}: {error}") from None


# --- writing -------------------------------------------------------------------------------------


def write_records(folder: str | Path, records: Sequence[Record]) -> int:
    """Write records as a folder of definitions, solutions and traces; how many.

    Records with a dtype, status or size that the schema has no place for are left out.
    """
    root, count = Path(folder), 0
    traces: dict[tuple[str, str], list[str]] = {}
    for record in records:
        if not _has_place(record):
            continue
        problem = record.problem
        definition, solution = _definition(problem), _solution(record)
        for kind, data in (("definitions", definition), ("solutions", solution)):
            path = root / kind / problem.op / f"{data['name']}.json"
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(json.dumps(data, indent=1) + "\n", encoding="utf-8")
        line = json.dumps(_trace(record, definition, solution), separators=(",", ":"))
        traces.setdefault((problem.op, definition["name"]), []).append(line)
        count += 1
    for (op, name), lines in traces.items():
        path = root / "traces" / op / f"{name}.jsonl"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text("\n".join(lines) + "\n", encoding="utf-8")
    return count


def _has_place(record: Record) -> bool:
    tensors = (*record.problem.tensors, *record.problem.results)
    return record.status in _STATUS and not any(
        t.dtype in _NOT_THERE or 0 in t.shape for t in tensors
    )


def _name(problem: Problem) -> str:
    import hashlib

    from portable.records import problem_to_json

    digest = hashlib.sha256(plain.dump(problem_to_json(problem)).encode()).hexdigest()[:8]
    return f"{problem.op}_{dtypes.short(problem.dtype)}_{digest}"


def _definition(problem: Problem) -> dict[str, Any]:
    axes: dict[str, Any] = {}

    def spec(tensor: TensorSpec) -> dict[str, Any]:
        for extent in tensor.shape:
            axes[f"n{extent}"] = {"type": "const", "value": extent}
        dtype = _THEIRS.get(tensor.dtype, tensor.dtype)
        return {"shape": [f"n{extent}" for extent in tensor.shape], "dtype": dtype}

    named = zip(problem.operands, problem.tensors, strict=True)
    inputs = {name: spec(tensor) for name, tensor in named}
    outputs = {f"out{i}": spec(tensor) for i, tensor in enumerate(problem.results)}
    return {
        "name": _name(problem),
        "description": str(problem),
        "op_type": problem.op,
        "axes": axes or {"one": {"type": "const", "value": 1}},
        "inputs": inputs,
        "outputs": outputs,
        "reference": _source(problem, ""),
    }


def _source(problem: Problem, backend: str) -> str:
    params = "".join(f", {name}={value!r}" for name, value in problem.params)
    arguments = ", ".join(problem.operands)
    call = ", ".join(f"{name}={name}" for name in problem.operands) + params
    scope = f"    with portable.using(backend={backend!r}):\n    " if backend else ""
    body = f"{scope}    return portable.{problem.op}({call})"
    return f"import portable\n\n\ndef run({arguments}):\n{body}\n"


def _solution(record: Record) -> dict[str, Any]:
    backend = f"{record.backend}[{record.runtime}]" if record.runtime else record.backend
    config = "".join(f"_{k}{v}" for k, v in sorted(record.config.items()))
    return {
        "name": f"portable_{backend}_{_name(record.problem)}{config}".replace("/", "_"),
        "definition": _name(record.problem),
        "author": "portable",
        "description": f"{record.implementation} {dict(record.config)}",
        "spec": {
            "language": "python",
            "target_hardware": [record.device.name],
            "entry_point": "main.py::run",
            "dependencies": ["portable-kernels"],
        },
        "sources": [{"path": "main.py", "content": _source(record.problem, backend)}],
    }


def _trace(
    record: Record, definition: Mapping[str, Any], solution: Mapping[str, Any]
) -> dict[str, Any]:
    status = _STATUS[record.status]
    evaluation: dict[str, Any] = {
        "status": status,
        "environment": {"hardware": record.device.name, "libs": dict(record.versions)},
        "timestamp": record.created,
        "log": MARK + plain.dump(record.to_json()),
    }
    if status in ("PASSED", "INCORRECT_NUMERICAL"):
        verdict = "inside" if status == "PASSED" else "outside"
        evaluation["correctness"] = {"extra": {"verdict": f"{verdict} of the op's error bound"}}
    if status == "PASSED":
        evaluation["performance"] = {"latency_ms": 1e3 * record.time}
    inputs = {name: {"type": "random"} for name in definition["inputs"]}
    return {
        "definition": definition["name"],
        "workload": {"axes": {}, "inputs": inputs, "uuid": record.digest[:32]},
        "solution": solution["name"],
        "evaluation": evaluation,
    }
