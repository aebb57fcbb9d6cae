from __future__ import annotations

import json
from pathlib import Path

import pytest

from portable import registry, workloads
from portable.errors import RecordError, ShapeError, UnknownNameError
from portable.op import TensorSpec
from portable.workloads import load, names, parse, save, select, spec_of_text, text_of_spec

ROOT = Path(__file__).parent.parent
HEAD = {"suite": "s", "kind": "k", "source": ["x"], "weight_unit": "calls", "assumptions": []}
ENTRY = {"op": "matmul", "operands": {"a": "f32[4x8]", "b": "f32[8x2] transposed"}, "weight": 2,
         "share": 0.5, "note": "n"}  # fmt: skip


def lines(*entries, head=HEAD):
    return [json.dumps(e) for e in (head, *entries)]


def test_there_are_suites_of_every_kind():
    found = names()
    assert len(found) >= 30
    assert {"llama3.1-8b", "bert-base", "resnet50-inference", "deepbench-gemm"} <= set(found)
    assert all(load(name).source for name in found)
    assert sum(p.stat().st_size for p in (ROOT / "bench/suites").glob("*")) < 3_000_000


@pytest.mark.parametrize("name", names())
def test_every_suite_binds_at_both_scales_and_its_shares_sum_to_one(name):
    suite = load(name)
    shares = [e.share for e in suite.entries] + [e.share for e in suite.unmapped]
    assert sum(shares) == pytest.approx(1.0, abs=2e-3)
    known = sum(e.share for e in suite.entries if e.op in registry.op_names())
    for scale in workloads.SCALES:
        found = workloads.problems(suite, scale)
        assert sum(w.share for w in found) == pytest.approx(known, abs=1e-9)
        assert len({w.problem for w in found}) == len(found)
        assert [w.share for w in found] == sorted((w.share for w in found), reverse=True)
    missing = workloads.unmapped(suite)
    assert sum(missing.values()) == pytest.approx(sum(shares) - known, abs=1e-9)


def test_cpu_scale_is_smaller_with_the_same_weights():
    suite = load("llama3.1-8b")
    full, small = workloads.problems(suite, "full"), workloads.problems(suite, "cpu")
    assert sum(w.weight for w in full) == pytest.approx(sum(w.weight for w in small))

    def flops(found):
        return sum(registry.op(w.problem.op).cost(w.problem).flops for w in found)

    assert flops(small) < 0.5 * flops(full)
    cost = [registry.op(w.problem.op).cost(w.problem).bytes for w in small]
    assert max(cost) < 2**31, "every problem fits a small machine"


def test_llama_is_what_its_configuration_says():
    suite = load("llama3.1-8b")
    qkv = next(e for e in suite.entries if e.note == "decode qkv_proj")
    assert qkv.operands["b"] == TensorSpec((4096, 6144), "bfloat16", (1, 4096))
    attention = next(e for e in suite.entries if e.note == "prefill causal gqa")
    assert attention.operands["q"].shape[1] == 32
    assert attention.operands["k"].shape[1] == 8
    assert attention.params == {"causal": True}


def test_equal_problems_are_merged():
    suite = parse(lines(ENTRY, {**ENTRY, "note": "m"}, {**ENTRY, "weight": 1, "share": 0.1}), "x")
    (found,) = workloads.problems(suite)
    assert (found.weight, found.share) == (5.0, pytest.approx(1.1))
    assert found.note == "n; m"


def test_a_selection_covers_what_it_says():
    suite = load("llama3.1-8b")
    whole = select(suite, share=1.0)
    assert whole.share + sum(whole.unmapped.values()) == pytest.approx(1.0, abs=2e-3)
    assert whole.left == pytest.approx(0.0, abs=1e-9)
    half = select(suite, share=0.5)
    assert 0.5 * whole.share <= half.share < 0.6
    assert half.problems == whole.problems[: len(half.problems)], "the weightiest first"
    assert select(suite, share=0.5).problems == half.problems, "always the same"
    few = select(suite, share=1.0, limit=3)
    assert len(few.problems) == 3
    assert few.share + few.left == pytest.approx(whole.share)
    only = select(suite, ops=["rms_norm", "add_rms_norm"], limit=5)
    assert {w.problem.op for w in only.problems} <= {"rms_norm", "add_rms_norm"}
    for wrong in ({"share": 0.0}, {"share": 1.5}, {"limit": 0}):
        with pytest.raises(ValueError, match=str(*wrong)):
            select(suite, **wrong)


def test_unmapped_and_unknown_ops_are_kept_with_their_share():
    nothing = {"unmapped": "topk", "dtype": "float32", "what": {"k": 8}, "weight": 1, "share": 0.2}
    other = {**ENTRY, "op": "not_an_op", "share": 0.3}
    suite = parse(lines(ENTRY, nothing, other), "x")
    assert workloads.unmapped(suite) == {"not_an_op": 0.3, "topk": 0.2}
    assert suite.unmapped[0].details == {"dtype": "float32", "k": 8}
    found = select(suite)
    assert [w.problem.op for w in found.problems] == ["matmul"]


def test_a_saved_workload_is_the_same_workload(tmp_path):
    for name in ("bert-base", "gpt-oss-120b", "resnet50-inference"):
        save(load(name), tmp_path / "w.jsonl")
        assert load(str(tmp_path / "w.jsonl")) == load(name)


def test_names_and_files_that_are_not_there():
    with pytest.raises(UnknownNameError, match=r"workload 'llama3.1-8'.*Did you mean 'llama3.1"):
        load("llama3.1-8")
    with pytest.raises(UnknownNameError, match="scale 'huge'"):
        workloads.problems(load("bert-base"), "huge")


@pytest.mark.parametrize(
    "text",
    ["f32[]", "f32[4]", "bf16[0x3]", "f32[4x8] transposed", "i64[2x3x4] transposed",
     "f32[4x8] strides=16,1", "f8e4m3[2x2] strides=0,-1"],
)  # fmt: skip
def test_tensors_as_text(text):
    assert text_of_spec(spec_of_text(text)) == text


def test_tensor_texts_mean_what_numpy_means():
    import numpy as np

    x = np.zeros((2, 8, 4), "f4").swapaxes(1, 2)
    assert spec_of_text("f32[2x4x8] transposed").strides == tuple(s // 4 for s in x.strides)
    assert spec_of_text("f32[4x8]").strides is None


@pytest.mark.parametrize(
    "text",
    ["", "f32", "f32[4x]", "f33[4]", "f32[4] transposed", "f32[4x8] strides=1", "f32[4x8] sliced",
     "f32[-1]", "f32[99999999999999999999]", "f32[" + "1x" * 40 + "1]", "f32[4x8] strides=1,1e3"],
)  # fmt: skip
def test_texts_that_are_no_tensors(text):
    with pytest.raises(RecordError):
        spec_of_text(text)


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ([], "empty"),
        (["{"], "line 1: not JSON"),
        (lines(head=ENTRY), "line 1: no \"suite\""),
        (lines({**ENTRY, "extra": 1}), "line 2: entry has unknown fields 'extra'"),
        (lines({**ENTRY, "weight": -1}), "weight is -1"),
        (lines({**ENTRY, "operands": {}}), "no operands"),
        (lines({**ENTRY, "operands": {"a": 3}}), "a is 3"),
        (lines({**ENTRY, "cpu": {"op": "x"}}), "cpu has unknown fields"),
        (lines({**ENTRY, "params": {"a": {"b": {"c": {}}}}}), "params"),
    ],
)  # fmt: skip
def test_files_that_are_no_workloads(text, message):
    with pytest.raises(RecordError, match=message):
        parse(text, "x")


def test_an_entry_that_does_not_fit_its_op_says_where():
    wrong = {**ENTRY, "operands": {"a": "f32[4x8]", "b": "f32[9x2]"}}
    with pytest.raises(ShapeError) as caught:
        workloads.problems(parse(lines(wrong), "x"))
    assert "'n' of matmul" in caught.value.__notes__[0]


def test_tokens_of_a_unit_are_the_rows_of_its_token_embedding():
    llama = workloads.load("llama3.1-8b")
    rows = sum(e.weight * e.operands["indices"].size for e in llama.entries if e.op == "embedding")
    assert llama.tokens == pytest.approx(rows, abs=0.01)
    bert = workloads.load("bert-base")  # looks up word, position and segment
    rows = sum(e.weight * e.operands["indices"].size for e in bert.entries if e.op == "embedding")
    assert bert.tokens == pytest.approx(rows / 3, rel=1e-4)
    assert workloads.load("resnet50-inference").tokens == 0
    for name in workloads.names():
        suite = workloads.load(name)
        if suite.kind in ("llm-inference", "encoder-inference", "encdec-inference"):
            assert suite.tokens > 0, name


def test_devices_of_a_unit():
    assert workloads.load("llama3.1-70b-tp4").devices == 4
    assert workloads.load("llama3.1-8b").devices == 1
    with pytest.raises(RecordError, match="devices is 0"):
        parse(lines(head={**HEAD, "devices": 0}), "x")
    with pytest.raises(RecordError, match="tokens is -1"):
        parse(lines(head={**HEAD, "tokens": -1}), "x")


def test_a_selection_tells_what_was_scaled_down():
    entry = {**ENTRY, "cpu": {"operands": {"a": "f32[2x8]", "b": "f32[8x2]"}}}
    small = workloads.select(parse(lines(entry), "x"), share=1.0)
    assert small.scaled == small.share > 0
    assert workloads.select(parse(lines(entry), "x"), share=1.0, scale="full").scaled == 0


def test_the_converter_and_the_suites_agree():
    folder = ROOT / "../shared/workloads"
    if not folder.is_dir():
        pytest.skip("the collected workload files are not here")
    from bench.convert_suites import suite

    for path in sorted(folder.glob("[!_]*.json"))[::5]:
        converted = suite(json.loads(path.read_text(encoding="utf-8")))
        written = (ROOT / "bench/suites" / f"{path.stem}.jsonl").read_text(encoding="utf-8")
        assert [json.loads(line) for line in written.splitlines()] == converted
