"""Tables of other commands' JSON."""

from portable import report
from portable.report.foreign import tables_of
from tests.report import made


def row(target, status="ok", findings=(), **built):
    return {
        "unit": {"backend": "cuda", "op": "softmax", "label": "f32 rows", "kernel": "rows",
                 "config": {}, "source": {"text": "x" * 10_000}},
        "target": {"name": target, "architecture": target, "hardware": ""},
        "built": {"status": status, "registers": 39, "log": "y" * 10_000, **built},
        "occupancy": 0.75, "roof_share": None, "findings": list(findings),
    }  # fmt: skip


def test_cross_compilation_is_counted_and_its_findings_are_ordered():
    data = {
        "rows": [
            row("sm_90", findings=[{"kind": "narrow", "cost": 1.3, "text": "16 bit a lane"}]),
            row("gfx942", findings=[{"kind": "spills", "cost": 9, "text": "spills 64 B"}]),
            row("sm_70", status="error", message="not built for sm_70"),
        ],
        "skipped": ["triton: not installed"],
    }
    overview, findings, resources, skipped = tables_of(data)
    assert overview[1] == ["backend", "op", "sm_90", "gfx942", "sm_70"]
    assert overview[2] == [["cuda", "softmax", "1/1", "1/1", "0/1"]]
    assert [line[-1] for line in findings[2]] == [
        "not built for sm_70", "spills 64 B", "16 bit a lane",
    ]  # fmt: skip
    assert resources[2][0][-2:] == ["75%", "–"]
    assert skipped[2] == [["triton: not installed"]]
    page = report.render(report.build([made.record(made.matmul())], crosscompile=data))
    assert "spills 64 B" in page
    assert "yyyyy" not in page
    assert "xxxxx" not in page


def test_any_list_of_objects_is_a_table():
    assert tables_of([{"a": 1, "b": None}, {"a": 2.5, "c": [1, {"d": True}]}]) == [
        ("", ["a", "b", "c"], [["1", "", ""], ["2.5", "", "1, d yes"]])
    ]
    assert tables_of({"x": [{"a": "z" * 900}], "y": 3})[0][2][0][0].endswith(" …")
    assert tables_of(None) == []
    assert tables_of({"rows": [3]}) == []
