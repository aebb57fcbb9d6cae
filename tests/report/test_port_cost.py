"""Lines of code: what counts and what does not."""

from portable import report
from portable.report.port_cost import SHARED, c_lines, python_lines
from tests.report import made

PYTHON = '''"""A docstring
of two lines."""

# a comment
import os  # counted


def f(x):
    """Another."""
    text = """not a
    docstring"""
    return (x,
            text)
'''


def test_python_lines_are_code_only():
    assert python_lines(PYTHON) == 6  # import, def, two lines of text, two of return


def test_c_lines_are_code_only(tmp_path):
    file = tmp_path / "x.cl"
    file.write_text(
        "// one\n\nint a; // two\n/* three\n four */ int b;\n/* five */\nint /* six */ c;\n"
        "__kernel void k() {}  /* seven\n eight */\n"
    )
    assert c_lines(file) == 4


def test_every_backend_here_is_counted_and_shown():
    found = report.lines_of_code()
    assert {"numpy", "torch", "jax", "opencl", "triton", "cuda"} <= set(found)
    assert all(lines["matmul"] > 5 and SHARED in lines for lines in found.values())
    page = report.render(report.build([made.record(made.matmul())], port_cost=found))
    assert "Cost of a port" in page
    assert f">{found['opencl']['matmul']}<" in page
