"""CSV, JSON, Markdown, terminal, and the page as text."""

import csv
import html.parser
import io
import json
import re

import pytest
from rich.console import Console

from portable import report
from portable.port_cost import PortCost
from portable.report.export import csv_text, json_data, markdown_text
from portable.report.weights import from_mapping
from tests.report import made


@pytest.fixture(scope="module")
def built():
    records = made.several()
    problems = dict.fromkeys(r.problem for r in records)
    weights = from_mapping("w", dict.fromkeys(problems, (3.0, "mlp")), unmapped={"topk": 0.125})
    return report.build(
        records, workloads=[weights], chosen=dict.fromkeys(problems, "torch"),
        hardware=["H200 SXM"], baseline=made.several(1),
        crosscompile=[{"target": "sm_90", "op": "matmul", "registers": 128}],
        port_cost=PortCost(
            {"numpy": {"matmul": 12}, "opencl": {"matmul": 300, "softmax": 90}},
            {"numpy": 0, "opencl": 130}, {"numpy": 1.0, "opencl": 0.5}, {"matmul": 1.0, "all": 0.9},
        ),
    )  # fmt: skip


def test_csv_has_every_row_and_the_same_numbers(built):
    rows = list(csv.DictReader(io.StringIO(csv_text(built))))
    assert len(rows) == len(built.rows)
    for text, row in zip(rows, built.rows, strict=True):
        assert text["time"] == ("" if row.time is None else repr(row.time))
        steps = [float(v) for k, v in text.items() if k.startswith("step_") and v]
        if row.time:
            assert sum(steps) == pytest.approx(row.time)
    assert rows[0]["calls[w]"] == "3.0"


def test_a_text_that_looks_like_a_formula_is_defused():
    record = made.record(made.matmul(), status="exception", reason="=cmd|' /C calc'!A0")
    assert "'=cmd" in csv_text(report.build([record]))


def test_json_is_plain_and_complete(built):
    data = json.loads(json.dumps(json_data(built), allow_nan=False))
    assert len(data["rows"]) == len(built.rows)
    assert data["rows"][0]["problem_key"]["op"] == built.rows[0].problem.op
    assert all(p["measured"] is False for p in data["projected"])
    assert data["portability"][0]["platforms"]


def test_markdown_escapes_its_tables():
    record = made.record(made.matmul(), status="exception", reason="a|b")
    text = markdown_text(report.build([record], baseline=[made.record(made.matmul())]))
    assert "a\\|b" in text
    assert "| broken |" in text


def test_markdown_tells_portability_and_keeps_projected_devices_apart(built):
    text = markdown_text(built)
    assert "## Performance portability, w" in text
    assert "- P1: " in text
    assert "| jax | 0.0% |" in text
    assert "P2, P3: it reaches this device by host libraries only" in text
    head, _, projected = text.partition("## Projected, not measured")
    assert "| H200" in projected
    assert "| H200" not in head


def test_terminal_shows_what_matters(built):
    out = io.StringIO()
    report.show(built, Console(file=out, width=200, highlight=False))
    text = out.getvalue()
    for word in (
        "<- chosen",
        "what to fix first",
        "PROJECTED",
        "against the baseline",
        "PP (app.)",
    ):
        assert word in text


def test_without_records_every_view_says_so():
    empty = report.build([])
    assert "no records" in report.summary.sentences(empty)[0]
    assert csv_text(empty) == ""
    assert "no records" in markdown_text(empty)
    assert "There are no records" in report.render(empty)
    report.show(empty, Console(file=io.StringIO()))


class Tags(html.parser.HTMLParser):
    def __init__(self):
        super().__init__()
        self.loads, self.stack, self.wrong = [], [], []

    def handle_starttag(self, tag, attrs):
        given = dict(attrs)
        url = given.get("src") or (given.get("href") if tag in ("link", "use", "image") else None)
        if url and not url.startswith("data:"):
            self.loads.append((tag, url))
        if tag not in ("meta", "link", "input", "br", "path", "rect"):
            self.stack.append(tag)

    def handle_endtag(self, tag):
        if tag in ("path", "rect"):
            return
        if not self.stack or self.stack.pop() != tag:
            self.wrong.append(tag)


def test_the_page_is_whole_and_loads_nothing(built):
    page = report.render(built)
    tags = Tags()
    tags.feed(page)
    assert tags.loads == []
    assert tags.wrong == []
    assert tags.stack == []
    assert len(page) < 6e6
    assert not re.search(r"url\(|@import|fetch\(|XMLHttpRequest|WebSocket", page)


def test_the_page_tells_everything_without_a_script(built):
    page = report.render(built)
    body = re.sub(r"<script.*?</script>", "", page, flags=re.S)
    for text in ("What to fix first", "Porting-gap waterfall", "Performance portability",
                 "topk: 12%", "sm_90", "H200", "off by 3 ulp", "Set apart"):  # fmt: skip
        assert text in body, text


def test_what_records_say_cannot_become_markup():
    evil = "</script><img src=x onerror=alert(1)>"
    record = made.record(
        made.matmul(), status="exception", reason=evil, versions={evil: evil},
        device=made.DeviceKey("cpu", evil), config={"k": evil},
    )  # fmt: skip
    page = report.render(
        report.build([record], title=evil, sources=[evil], crosscompile=[{evil: evil}])
    )
    assert "<img" not in page
    assert page.count("</script>") == 2


@pytest.mark.parametrize("write", [
    report.write_html, report.write_csv, report.write_json, report.write_markdown,
])  # fmt: skip
def test_a_place_that_cannot_be_written_is_one_clear_error(built, tmp_path, write):
    from portable.errors import RecordError

    with pytest.raises(RecordError, match="cannot be written"):
        write(built, tmp_path / "no" / "such" / "folder" / "x")
