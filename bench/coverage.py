"""The coverage table of the README: op x backend x dtype, from what implementations refuse.

    python -m bench.coverage            print the table
    python -m bench.coverage --write    put it into README.md between its marks
    python -m bench.coverage --check    exit 1 when README.md is out of date

A cell lists the dtypes for which at least one core case is taken; "-" is a hole, and its reasons
stand below. GPU backends are asked for an H100 (sm_90) without one being there: the table says
what they take, not that it ran.
"""

from __future__ import annotations

import argparse
import importlib.util
import sys
from pathlib import Path

from portable import cases, dtypes, registry
from portable.device import Device, DeviceInfo

README = Path(__file__).parent.parent / "README.md"
MARKS = ("<!-- coverage: begin -->", "<!-- coverage: end -->")
ORDER = ("numpy", "torch", "jax", "opencl", "triton", "cuda")
H100 = Device(
    "cuda:0",
    DeviceInfo("NVIDIA H100 80GB HBM3", "NVIDIA", "gpu", "sm_90", units=132, memory_size=80 << 30),
)


def main() -> None:
    """Print, write or check."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--write", action="store_true")
    parser.add_argument("--check", action="store_true")
    wish = parser.parse_args()
    text = "\n".join(lines())
    if not (wish.write or wish.check):
        print(text)
        return
    before, _, rest = README.read_text(encoding="utf-8").partition(MARKS[0])
    old, _, after = rest.partition(MARKS[1])
    if wish.check:
        sys.exit("README.md: run python -m bench.coverage --write" if old.strip() != text else 0)
    README.write_text(f"{before}{MARKS[0]}\n{text}\n{MARKS[1]}{after}", encoding="utf-8")


def lines() -> list[str]:
    """The table as Markdown, then the holes with their reasons."""
    found = {name: coverage(name) for name in ORDER}
    rows = [
        "| op | " + " | ".join(ORDER) + " |",
        "|" + "---|" * (len(ORDER) + 1),
    ]
    holes: list[str] = []
    for op in registry.op_names():
        cells = []
        for name in ORDER:
            taken, reasons = found[name].get(op, ((), ("not there",)))
            cells.append(" ".join(dtypes.short(d) for d in taken) or "-")
            if not taken:
                holes.append(f"- {op} on {name}: {'; '.join(sorted(set(reasons)))}")
        rows.append(f"| {op} | " + " | ".join(cells) + " |")
    return [*rows, "", *(holes or ["No holes: every backend has every op."])]


def coverage(name: str) -> dict[str, tuple[tuple[str, ...], tuple[str, ...]]]:
    """op -> (dtypes taken, reasons of refusal) of one backend."""
    entry = registry.registered()[name]
    backend = entry.backend
    if backend is None or any(importlib.util.find_spec(r) is None for r in backend.requires):
        return {}
    device = backend.devices()[0] if entry.usable else H100
    found = {}
    for op_name in registry.op_names():
        implementation = backend.implementation(op_name)
        if implementation is not None:
            found[op_name] = asked(op_name, implementation, device)
    return found


def asked(op_name: str, implementation, device: Device):
    """Which dtypes an implementation takes, by its own answers on the core cases."""
    op = registry.op(op_name)
    taken: dict[str, None] = {}
    reasons: dict[str, None] = {}
    for case in op.cases():
        for dtype in cases.dtypes_of(op, case):
            problem = cases.problem_of(op, cases.arrays(op, case, dtype), case)
            refused = implementation.why_not(problem, device)
            if refused:
                reasons.update(dict.fromkeys(refused))
            else:
                taken[dtype] = None
    ordered = tuple(d for d in dtypes.DTYPES if d in taken)
    return ordered, tuple(reasons)


if __name__ == "__main__":
    main()
