"""The page of conformance counts: a piece is run, resumed, and told."""

from __future__ import annotations

import json

import pytest

from bench import conformance, conformance_table


@pytest.fixture
def state(tmp_path, monkeypatch):
    place = tmp_path / "build" / "conformance.jsonl"
    monkeypatch.setattr(conformance, "STATE", place)
    return place


def test_pieces_run_once_and_again_when_sources_change(state, monkeypatch, capsys):
    conformance.one_backend("numpy", float("inf"), "swiglu")
    found = conformance.results()
    assert {k[1:] for k in found} == {("swiglu", d) for d in
                                      ("float64", "float32", "float16", "bfloat16")}  # fmt: skip
    assert all(p["totals"]["passed"] > 30 and not p["totals"]["failed"] for p in found.values())
    conformance.one_backend("numpy", float("inf"), "swiglu")
    assert len(state.read_text().splitlines()) == 4
    monkeypatch.setattr(conformance, "kit", lambda op: "changed")
    conformance.one_backend("numpy", 0.0, "swiglu")
    assert "numpy: 4 pieces left" in capsys.readouterr().out


def test_a_lower_level_does_not_count_for_a_higher_one():
    piece = {"source": "s", "level": "hostile"}
    assert conformance.holds({"source": "s", "level": "hostile"}, piece)
    assert not conformance.holds({"source": "s", "level": "core"}, piece)
    assert conformance.holds({"source": "s", "level": "hostile"}, {**piece, "level": "core"})


def test_the_page_tells_counts_failures_reasons_and_what_is_owed(state):
    conformance.one_backend("numpy", float("inf"), "swiglu")
    pieces = list(conformance.results().values())
    failure = {"op": "swiglu", "dtype": "float32", "case": "c", "check": "bound",
               "reasons": ["far off"]}  # fmt: skip
    pieces[1] = {**pieces[1], "failures": [failure],
                 "totals": {**pieces[1]["totals"], "failed": 1}}  # fmt: skip
    text = "\n".join(conformance_table.lines(json.loads(json.dumps(pieces))))
    assert "| swiglu | f64 f16 bf16 |" in text
    assert "- swiglu float32 'c' (bound): far off" in text
    assert "x the family has no streams" in text
    assert "pieces (an op in a dtype) have not run" in text
    assert "| needs alignment | softmax | core | alignment |" in text
