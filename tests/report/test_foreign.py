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
        "occupancy": 0.75, "limited_by": ["registers"], "roof_share": None,
        "findings": list(findings),
    }  # fmt: skip


def test_cross_compilation_is_counted_and_its_findings_are_ordered():
    data = {
        "rows": [
            row("sm_90", findings=[{"kind": "narrow", "cost": 1.3, "text": "16 bit a lane"}]),
            row("gfx942", findings=[{"kind": "spill", "cost": 9, "text": "spills 64 B"}]),
            row("sm_70", status="error", message="not built for sm_70"),
        ],
        "skipped": ["triton: not installed"],
        "unbuilt": ["cuda softmax rows for sm_80"],
        "compilers": {"cuda": {"nvrtc": "13.5"}},
        "assumptions": "An upper limit.",
    }
    targets, overview, findings, resources, unbuilt, skipped = tables_of(data)
    assert targets[1][2:5] == ["builds", "without error", "spill"]
    assert [line[0] for line in targets[2]] == ["sm_90", "gfx942", "sm_70"]
    assert [line[2:] for line in targets[2]] == [
        ["1", "1", "0", "–"], ["1", "1", "1", "–"], ["1", "0", "0", "–"],
    ]  # fmt: skip
    assert unbuilt[2] == [["cuda softmax rows for sm_80"]]
    assert overview[1] == ["backend", "op", "sm_90", "gfx942", "sm_70"]
    assert overview[2] == [["cuda", "softmax", "1/1", "1/1", "0/1"]]
    assert [line[-1] for line in findings[2]] == [
        "not built for sm_70", "spills 64 B", "16 bit a lane",
    ]  # fmt: skip
    assert resources[2][0][-3:] == ["75%", "registers", "–"]
    assert skipped[2] == [["triton: not installed"]]
    page = report.render(report.build([made.record(made.matmul())], crosscompile=data))
    assert "spills 64 B" in page
    assert "3 builds for 3 targets, 2 without error. Compilers: nvrtc 13.5. An upper" in page
    assert "yyyyy" not in page
    assert "xxxxx" not in page


def test_the_section_says_what_to_do_when_nothing_could_be_built():
    data = {"rows": [], "skipped": ["triton: not installed. pip install 'portable-kernels[x]'"]}
    page = report.render(report.build([made.record(made.matmul())], crosscompile=data))
    assert 'id="crosscompile"' in page
    assert "No kernel was built here" in page
    assert "triton: not installed. pip install &#39;portable-kernels[x]&#39;" in page


def test_the_data_of_a_real_run_fills_the_section():
    from portable.crosscompile import Built, Report, Unit, resolve, show
    from portable.crosscompile.judge import judge

    unit = Unit("triton", "matmul", "mlp", "gemm", {"block_m": 64}, 0, 264, factor="bfloat16")
    built = Built("ok", registers=123, shared=65536, threads=128, matrix={"wgmma bf16": 4})
    rows = (judge(unit, resolve("sm_90"), built),)
    data = show.data(Report(rows, ("cuda: absent",), {"triton": {"triton": "3"}}))
    page = report.render(report.build([made.record(made.matmul())], crosscompile=data))
    section = page[page.index('<section id="crosscompile"') :].partition("</section>")[0]
    for fact in ("123", "wgmma bf16 4", "nvidia-h200-sxm", "block_m 64", "triton 3", "mlp"):
        assert fact in section
    assert "Estimated share of the roof" in section


def test_any_list_of_objects_is_a_table():
    assert tables_of([{"a": 1, "b": None}, {"a": 2.5, "c": [1, {"d": True}]}]) == [
        ("", ["a", "b", "c"], [["1", "", ""], ["2.5", "", "1, d yes"]])
    ]
    assert tables_of({"x": [{"a": "z" * 900}], "y": 3})[0][2][0][0].endswith(" …")
    assert tables_of(None) == []
    assert tables_of({"rows": [3]}) == []
