"""`portable hw`: output, exit codes, filters; the generated page is current."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from typer.testing import CliRunner

from portable import hwdb
from portable.cli_hw import app, lookup, rows
from portable.hwdb.detect import cpu_info
from portable.hwdb.docs import stale
from portable.hwdb.live import READERS
from portable.hwdb.svg import roofline_svg

DOCS = Path(__file__).parent.parent.parent / "docs"


def run(*arguments):
    return CliRunner().invoke(app, list(arguments))


def test_list_is_long_enough():
    result = run("list")
    assert result.exit_code == 0
    count, makers = result.output.strip().splitlines()[-1].split(" devices, ")
    assert int(count) >= 120
    assert int(makers.split()[0]) >= 15


def test_list_filters_and_sorts():
    only = rows(vendor="google", sort="peak")
    assert {s.vendor for s in only} == {"Google"}
    peaks = [s.peak("bfloat16", "matrix") for s in only]
    assert peaks == sorted(peaks, reverse=True)
    assert [s.architecture for s in rows(arch="gfx950")] == ["gfx950"] * 2
    assert all(s.kind == "cpu" for s in rows(kind="cpu"))
    ridges = [s for s in rows(kind="gpu", sort="ridge") if s.bandwidth and s.peaks]
    assert ridges[0].peak("bfloat16", "matrix") / ridges[0].bandwidth > 200
    with pytest.raises(ValueError, match="allowed: name, vendor"):
        rows(sort="colour")
    assert run("list", "--sort", "colour").exit_code == 2


def test_list_as_json():
    data = json.loads(run("list", "--vendor", "groq", "--json").output)
    assert data[0]["key"] == "groq-lpu-v1"


def test_show():
    text = run("show", "H200 SXM").output
    assert "nvidia-h200-sxm" in text
    assert "989.500" in text
    assert "sources" in text
    assert json.loads(run("show", "MI300X", "--json").output)["ridge"]["bfloat16/matrix"] == (
        pytest.approx(246.7, abs=0.1)
    )
    assert json.loads(run("show", "MI300X", "--raw").output)["memory"]["source"]
    unknown = run("show", "Z999")
    assert unknown.exit_code == 2
    assert "hwdb/devices" in unknown.output


@pytest.mark.parametrize(
    ("arguments", "key"),
    [
        (["NVIDIA H100 80GB HBM3"], "nvidia-h100-sxm5-80gb"),
        (["NVIDIA GH200 480GB"], "nvidia-gh200-96gb"),
        (["TPU v5 lite"], "google-tpu-v5e"),
        (["AMD Instinct MI300X", "--arch", "gfx942"], "amd-mi300x"),
        (["AMD Instinct MI250X/MI250", "--units", "110"], "amd-mi250x-gcd"),
        (["AMD Radeon Graphics", "--pci", "1002:74a5"], "amd-mi325x"),
        (["AMD EPYC 9654 96-Core Processor"], "cpu-amd-zen4"),
    ],
)
def test_find(arguments, key):
    result = run("find", *arguments)
    assert result.exit_code == 0
    assert f"({key})" in result.output


def test_find_unknown_gives_none_and_the_way_forward():
    result = run("find", "NVIDIA Z999")
    assert result.exit_code == 1
    assert "hwdb/devices" in result.output
    assert "T/s" not in result.output


def test_find_tells_a_name_of_ours_from_a_drivers():
    result = run("find", "H100")
    assert result.exit_code == 1
    assert "portable hw show 'H100'" in result.output
    assert "hw show" not in run("find", "NVIDIA Z999").output


def test_the_name_of_this_machine_stands_for_all_that_is_seen_of_it():
    here = cpu_info()
    assert lookup(here.name).architecture == here.architecture
    assert lookup(here.name, units=4).architecture == ""


def test_find_without_name_reads_this_machine():
    result = run("find")
    known = hwdb.find(cpu_info()) is not None
    assert f"cpu: {cpu_info().name!r}" in result.output
    assert result.exit_code == (0 if known else 1) or "\nnvml:" in result.output


def test_live_readers_answer_with_or_without_their_libraries():
    for name in ("cpu", "nvml", "kfd"):
        assert isinstance(READERS[name](), list)


def test_audit_exit_codes(tmp_path):
    result = run("audit")
    assert result.exit_code == 0
    assert "0 open findings" in result.output
    assert "admitted nvidia-h100-nvl-94gb" in result.output
    assert "admitted nvidia" not in run("audit", "--quiet").output
    table = tmp_path / "t.csv"
    table.write_text("device,dtype,value\nH100 SXM,bf16,1979\n")
    wrong = run("audit", str(table))
    assert wrong.exit_code == 1
    assert "sparse number" in wrong.output
    table.write_text("device,dtype,value\nH100 SXM,bf16,989\n")
    assert run("audit", str(table)).exit_code == 0
    table.write_text("device,dtype\nH100 SXM,bf16\n")
    assert run("audit", str(table)).exit_code == 2


def test_generated_pages_are_current():
    assert stale(DOCS) == [], "run: python -m portable.hwdb.docs"


def test_roofline_marks_the_ridge_point():
    svg = roofline_svg(hwdb.get("H200 SXM"))
    assert svg.startswith("<svg")
    assert "bf16 matrix 989.5 T" in svg
    assert len(svg) < 4000
