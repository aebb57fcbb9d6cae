"""The cost of a port: what counts as a line, and what comes out for our own backends."""

from __future__ import annotations

import json
import re
from pathlib import Path

import pytest

from portable import port_cost, report
from portable.cli_report import port_cost_of
from portable.errors import RecordError
from portable.port_cost import SHARED, PortCost
from tests.report import made

ROOT = Path(__file__).parent.parent
SOURCE = '''"""Docstring
of a module."""

import os  # counts once

# a comment


def f(x):
    """Docstring."""
    text = """two
lines"""
    return x + len(text)
'''


def test_lines_without_blanks_comments_and_docstrings(tmp_path):
    (tmp_path / "__init__.py").write_text(SOURCE)
    (tmp_path / "k.cl").write_text("// comment\n/* more\ncomment */\nint x;\n\n  int y; // z\n")
    found = port_cost.code(tmp_path)
    assert found["__init__.py"] == [
        "import os  # counts once", "def f(x):", 'text = """two', 'lines"""',
        "return x + len(text)",
    ]  # fmt: skip
    assert found["k.cl"] == ["int x;", "int y;"]


def test_rows_of_our_backends():
    rows = {r.backend: r for r in port_cost.rows()}
    assert {"numpy", "torch", "jax", "opencl", "cuda", "triton"} <= set(rows)
    assert rows["numpy"].coverage == 1
    assert rows["numpy"].device_share == 0
    assert rows["cuda"].device_share > 0.3  # most of it is CUDA C++
    assert rows["opencl"].device_lines > 0
    for row in rows.values():
        assert 0 < row.own_lines <= row.lines
        assert row.per_op == pytest.approx(row.lines / row.ops)


def test_every_line_belongs_to_one_op_or_is_shared():
    lines = port_cost.by_op()
    totals = {r.backend: r.lines for r in port_cost.rows()}
    assert {name: sum(ops.values()) for name, ops in lines.items()} == totals
    assert lines["numpy"]["softmax"] < 60
    opencl = port_cost.code(ROOT / "backends" / "opencl")
    assert lines["opencl"]["argmax"] == len(opencl["argmax.py"]) + len(opencl["argmax.cl"])
    cuda = port_cost.code(ROOT / "backends" / "cuda")
    # _softmax.py serves log_softmax too, the kernel source bears the op's name.
    assert lines["cuda"]["softmax"] == len(cuda["softmax.py"]) + len(cuda["_softmax.cu"])
    assert lines["cuda"][SHARED] > len(cuda["_softmax.py"])


def test_the_report_shows_lines_device_share_coverage_divergence_and_gap():
    cost = PortCost(
        {"torch": {"matmul": 11}, "opencl": {"matmul": 370, SHARED: 30}},
        {"torch": 0, "opencl": 100}, {"torch": 1.0, "opencl": 0.6}, {"matmul": 0.98, "all": 0.87},
    )  # fmt: skip
    records = [made.record(made.matmul()), made.record(made.matmul(), "opencl[pocl]", 3e-3)]
    gap = 3e-3 / records[0].time
    page = report.render(report.build(records, port_cost=cost))
    opencl = re.search(r"<tr><th scope=.row.>opencl</th>.*?</tr>", page)[0]
    assert re.findall(r">([^<]+)</td>", opencl) == ["60%", "400", "25%", f"{gap:.2f}×"]
    assert re.search(r"Code divergence of all these backends: 87%", page)
    assert re.search(r"matmul</th>.*?>11<.*?>370<.*?>98%<", page)
    assert PortCost.from_json(json.loads(json.dumps(cost.to_json()))) == cost
    with pytest.raises(RecordError, match="unknown fields 'ops'"):
        PortCost.from_json({"ops": {}})


def test_a_file_without_a_port_cost_is_refused(tmp_path: Path):
    (tmp_path / "f.json").write_text('[{"numpy": 12}]')
    with pytest.raises(RecordError, match="has no port_cost .*writes one"):
        port_cost_of(str(tmp_path / "f.json"))


def test_what_is_counted_here_is_whole():
    cost = port_cost.counted()
    assert set(cost.lines) == set(cost.device_lines) == set(cost.coverage)
    assert cost.divergence == port_cost.divergence()


def test_divergence_is_between_one_source_and_nothing_shared():
    found = port_cost.divergence()
    assert set(found) > {"matmul", "all"}
    assert all(0 < value <= 1 for value in found.values())
