"""The cost of a port: what counts as a line, and what comes out for our own backends."""

from __future__ import annotations

from pathlib import Path

import pytest

from portable import port_cost, report
from portable.port_cost import SHARED
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


def test_the_report_shows_the_lines():
    lines = port_cost.by_op()
    page = report.render(report.build([made.record(made.matmul())], port_cost=lines))
    assert "Cost of a port" in page
    assert f">{lines['opencl']['matmul']}<" in page


def test_divergence_is_between_one_source_and_nothing_shared():
    found = port_cost.divergence()
    assert set(found) > {"matmul", "all"}
    assert all(0 < value <= 1 for value in found.values())
