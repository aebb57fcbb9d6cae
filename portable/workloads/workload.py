"""A workload: problems that a real model or trace computes, with how often and from where.

The files are JSON lines: a head, then one entry per line; `bench/suites/README.md` has the schema.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any

from portable import dtypes, plain
from portable.errors import DTypeError, RecordError, UnknownNameError
from portable.op import TensorSpec, contiguous_strides

MAX_ENTRIES = 100_000
_HEAD = frozenset({"suite", "kind", "source", "weight_unit", "tokens", "devices", "assumptions"})
_ENTRY = frozenset({"op", "operands", "params", "weight", "share", "note", "approx", "cpu"})
_UNMAPPED = frozenset({"unmapped", "dtype", "what", "weight", "share", "note"})
_TENSOR = re.compile(r"(\w+)\[([0-9x]*)\](?: (transposed|strides=-?[0-9]+(?:,-?[0-9]+)*))?")


@dataclass(frozen=True, slots=True)
class Entry:
    """One line of a workload.

    Attributes:
        op: name of the op.
        operands: specs by operand name.
        params: parameters that differ from the op's defaults.
        weight: calls per unit of the workload.
        share: share of the workload's roofline time on an H200; all entries, mapped or not, sum
            to 1. In a captured workload: share of the time that was measured.
        note: which layer or call it is.
        approx: what differs from the original call; "" when nothing does.
        cpu: (operands, params) of the same problem at the scale of a small CPU; None: the same.
    """

    op: str
    operands: Mapping[str, TensorSpec]
    params: Mapping[str, Any]
    weight: float
    share: float
    note: str = ""
    approx: str = ""
    cpu: tuple[Mapping[str, TensorSpec], Mapping[str, Any]] | None = None


@dataclass(frozen=True, slots=True)
class Unmapped:
    """A line without an op of ours: kept, so that its share is known.

    Attributes:
        what: the op of the source that is missing here.
        weight, share, note: as in `Entry`.
        details: shapes and parameters in the source's words.
    """

    what: str
    weight: float
    share: float
    note: str = ""
    details: Mapping[str, Any] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Workload:
    """Weighted problems with their origin.

    Attributes:
        name: of the suite, or of the file.
        kind: "llm-inference", "trace", "kernel-list", "capture", ...
        source: where the shapes and weights are from.
        weight_unit: what a weight of 1 means.
        assumptions: what was assumed where the source does not say.
        entries: what has an op of ours.
        unmapped: what has not.
        tokens: tokens that one unit reads and writes; 0 where that has no meaning.
        devices: devices that work on one unit together; the problems are those of one of them.
    """

    name: str
    kind: str
    source: tuple[str, ...]
    weight_unit: str
    assumptions: tuple[str, ...]
    entries: tuple[Entry, ...]
    unmapped: tuple[Unmapped, ...] = ()
    tokens: float = 0.0
    devices: int = 1


def names() -> tuple[str, ...]:
    """The suites that come with the package."""
    folder = resources.files("portable.workloads") / "suites"
    if not folder.is_dir():
        return ()
    files = (file.name for file in folder.iterdir())
    return tuple(sorted(name.removesuffix(".jsonl") for name in files if name.endswith(".jsonl")))


def load(name: str) -> Workload:
    """A suite by name, a workload file by path, or a FlashInfer-Trace folder.

    Raises:
        UnknownNameError: neither a suite nor a file.
        RecordError: a line of the file is not as it must be; the message has its number.
    """
    if name in names():
        file = resources.files("portable.workloads") / "suites" / f"{name}.jsonl"
        return parse(file.read_text(encoding="utf-8").splitlines(), name)
    path = Path(name)
    if (path / "definitions").is_dir():
        from portable.workloads import flashinfer

        return flashinfer.load_workload(path)
    if not path.is_file():
        raise UnknownNameError("workload", name, names(), "A path of a workload file works too.")
    with path.open(encoding="utf-8", errors="replace") as lines:
        return parse(lines, path.stem)


def parse(lines: Iterable[str], name: str) -> Workload:
    """A workload from the lines of its file.

    Raises:
        RecordError: a line is not as it must be.
    """
    head: dict[str, Any] | None = None
    entries: list[Entry] = []
    unmapped: list[Unmapped] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        if number > MAX_ENTRIES:
            raise RecordError(f"{name}: more than {MAX_ENTRIES} lines")
        try:
            data = plain.parse(line)
            if head is None:
                head = _head(data)
            elif "unmapped" in data:
                unmapped.append(_unmapped(data))
            else:
                entries.append(_entry(data))
        except RecordError as error:
            raise RecordError(f"{name}, line {number}: {error}") from None
    if head is None:
        raise RecordError(f"{name}: empty (a head line is needed)")
    return Workload(
        plain.text(head, "suite"), plain.text(head, "kind", ""),
        tuple(map(str, plain.sequence(head, "source", 100))), plain.text(head, "weight_unit", ""),
        tuple(map(str, plain.sequence(head, "assumptions", 100))), tuple(entries), tuple(unmapped),
        _positive(head, "tokens"), _devices(head),
    )  # fmt: skip


def _head(data: dict[str, Any]) -> dict[str, Any]:
    if "suite" not in data:
        raise RecordError('no "suite": the first line is the head of a workload')
    plain.unknown(data, "head", _HEAD)
    return data


def _entry(data: dict[str, Any]) -> Entry:
    plain.unknown(data, "entry", _ENTRY)
    operands, params = _problem(data)
    cpu = None
    if "cpu" in data:
        small = plain.mapping(data, "cpu")
        plain.unknown(small, "cpu", frozenset({"operands", "params"}))
        ours, theirs = _problem(small)
        cpu = (ours or operands, theirs if "params" in small else params)
    if not operands:
        raise RecordError("entry has no operands")
    return Entry(
        plain.text(data, "op"), operands, params, _positive(data, "weight"),
        _positive(data, "share"), plain.text(data, "note", ""), plain.text(data, "approx", ""), cpu,
    )  # fmt: skip


def _problem(data: dict[str, Any]) -> tuple[dict[str, TensorSpec], dict[str, Any]]:
    operands = {
        name: spec_of_text(text, name) for name, text in plain.texts(data, "operands").items()
    }
    return operands, plain.nested(data, "params", 2)


def _unmapped(data: dict[str, Any]) -> Unmapped:
    plain.unknown(data, "entry", _UNMAPPED)
    details = plain.nested(data, "what")
    if "dtype" in data:
        details = {"dtype": plain.text(data, "dtype"), **details}
    return Unmapped(
        plain.text(data, "unmapped"), _positive(data, "weight"), _positive(data, "share"),
        plain.text(data, "note", ""), details,
    )  # fmt: skip


def _positive(data: dict[str, Any], name: str) -> float:
    value = plain.number(data.get(name, 0.0), name)
    if value < 0:
        raise RecordError(f"{name} is {value} (a number >= 0 is needed)")
    return value


def _devices(head: dict[str, Any]) -> int:
    count = plain.integer(head, "devices", 1)
    if count < 1:
        raise RecordError(f"devices is {count} (at least 1)")
    return count


def spec_of_text(text: str, name: str = "tensor") -> TensorSpec:
    """ "bf16[384x768]", "f32[8x8] transposed" or "f32[8x8] strides=1,16" as a spec.

    Raises:
        RecordError: the text is none of these.
    """
    found = _TENSOR.fullmatch(text)
    if found is None:
        raise RecordError(f'{name} is {text!r} ("bf16[384x768]", " transposed" or " strides=1,16")')
    dtype, extents, layout = found.groups()
    try:
        canonical = dtypes.canonical(dtype)
        shape = tuple(int(n) for n in extents.split("x")) if extents else ()
    except (DTypeError, ValueError) as error:
        raise RecordError(f"{name} is {text!r}: {error}") from None
    if len(shape) > plain.MAX_NDIM or any(n > plain.MAX_EXTENT for n in shape):
        raise RecordError(f"{name} is {text!r} (at most {plain.MAX_NDIM} axes below 2**63)")
    if layout is None:
        return TensorSpec(shape, canonical)
    if layout == "transposed":
        if len(shape) < 2:
            raise RecordError(f"{name} is {text!r} (two axes are needed to be transposed)")
        return TensorSpec(shape, canonical, _transposed(shape))
    strides = tuple(int(n) for n in layout.removeprefix("strides=").split(","))
    if len(strides) != len(shape) or any(abs(n) > plain.MAX_EXTENT for n in strides):
        raise RecordError(f"{name} is {text!r} (one stride per axis is needed)")
    return TensorSpec(shape, canonical, strides)


def text_of_spec(spec: TensorSpec) -> str:
    """The inverse of `spec_of_text`."""
    text = f"{dtypes.short(spec.dtype)}[{'x'.join(map(str, spec.shape))}]"
    if spec.strides is None or spec.contiguous:
        return text
    if spec.ndim >= 2 and spec.strides == _transposed(spec.shape):
        return f"{text} transposed"
    return f"{text} strides={','.join(map(str, spec.strides))}"


def _transposed(shape: Sequence[int]) -> tuple[int, ...]:
    swapped = contiguous_strides((*shape[:-2], shape[-1], shape[-2]))
    return (*swapped[:-2], swapped[-1], swapped[-2])


def save(workload: Workload, path: str | Path) -> None:
    """Write a workload file."""
    lines = [_head_json(workload)]
    lines += [_entry_json(entry) for entry in workload.entries]
    lines += [_unmapped_json(entry) for entry in workload.unmapped]
    text = "".join(
        json.dumps(line, separators=(",", ":"), allow_nan=False) + "\n" for line in lines
    )
    Path(path).write_text(text, encoding="utf-8")


def _head_json(workload: Workload) -> dict[str, Any]:
    more: dict[str, Any] = {"tokens": workload.tokens} if workload.tokens else {}
    more |= {"devices": workload.devices} if workload.devices > 1 else {}
    return {
        "suite": workload.name,
        "kind": workload.kind,
        "source": list(workload.source),
        "weight_unit": workload.weight_unit,
        **more,
        "assumptions": list(workload.assumptions),
    }


def _entry_json(entry: Entry) -> dict[str, Any]:
    data: dict[str, Any] = {"op": entry.op, **_problem_json(entry.operands, entry.params)}
    data |= {"weight": entry.weight, "share": entry.share}
    data |= {k: v for k, v in (("note", entry.note), ("approx", entry.approx)) if v}
    if entry.cpu is not None:
        data["cpu"] = {"params": {}, **_problem_json(*entry.cpu)}
    return data


def _problem_json(operands: Mapping[str, TensorSpec], params: Mapping[str, Any]) -> dict[str, Any]:
    data: dict[str, Any] = {"operands": {n: text_of_spec(s) for n, s in operands.items()}}
    if params:
        data["params"] = dict(params)
    return data


def _unmapped_json(entry: Unmapped) -> dict[str, Any]:
    return {
        "unmapped": entry.what, "what": dict(entry.details), "weight": entry.weight,
        "share": entry.share, "note": entry.note,
    }  # fmt: skip
