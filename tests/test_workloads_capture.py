from __future__ import annotations

import subprocess
import sys

import pytest

from portable import workloads
from portable.errors import UnknownNameError
from portable.op import TensorSpec
from portable.workloads.capture import capture
from portable.workloads.replay import caller, replay

torch = pytest.importorskip("torch")
nn = torch.nn
F = nn.functional


class Block(nn.Module):
    """A decoder layer as models have it: norm, attention, gated MLP."""

    def __init__(self, size=64, heads=4):
        super().__init__()
        self.heads = heads
        self.norm1, self.norm2 = nn.LayerNorm(size), nn.LayerNorm(size)
        self.qkv, self.out = nn.Linear(size, 3 * size), nn.Linear(size, size)
        self.gate = nn.Linear(size, 2 * size, bias=False)
        self.up = nn.Linear(size, 2 * size, bias=False)
        self.down = nn.Linear(2 * size, size, bias=False)

    def forward(self, x):
        b, t, size = x.shape
        parts = self.qkv(self.norm1(x)).chunk(3, -1)
        q, k, v = (p.view(b, t, self.heads, -1).transpose(1, 2) for p in parts)
        a = F.scaled_dot_product_attention(q, k, v, is_causal=True)
        x = x + self.out(a.transpose(1, 2).reshape(b, t, size))
        y = self.norm2(x)
        return x + self.down(F.silu(self.gate(y)) * self.up(y))


def count(workload, op):
    return sum(e.weight for e in workload.entries if e.op == op)


def test_a_transformer_is_captured_whole():
    model = nn.Sequential(Block(), Block())
    x = torch.randn(2, 16, 64)
    expected = model(x)
    with torch.no_grad(), capture() as seen:
        got = model(x)
    assert torch.equal(got, expected), "capturing changes nothing"
    found = seen.workload("t")
    assert seen.coverage == 1.0
    # by hand: 2 blocks x (qkv + out) linear, (gate + up + down) matmul, 1 attention, 2 norms
    assert count(found, "linear") == 4
    assert count(found, "matmul") == 6
    assert count(found, "attention") == 2
    assert count(found, "layer_norm") == 4
    assert count(found, "swiglu") == 2
    assert {e.what for e in found.unmapped} == {"add"}
    tokens, size = 32, 64
    linear = 2 * tokens * size * (4 * size + 6 * size)  # qkv, out; gate, up, down
    attention = 2 * 2 * 2 * 4 * 16 * 16 * 16
    assert seen.flops == 2 * (linear + attention)


def test_weights_and_shares_add_up_and_the_file_can_be_replayed(tmp_path):
    with torch.no_grad(), capture() as seen:
        for _ in range(3):
            Block()(torch.randn(2, 16, 64))
    found = seen.workload("t", steps=3)
    entries = [*found.entries, *found.unmapped]
    assert sum(e.weight for e in entries) * 3 == pytest.approx(seen.calls)
    assert sum(e.share for e in entries) == pytest.approx(1.0)
    path = tmp_path / "w.jsonl"
    workloads.save(found, path)
    again = workloads.load(str(path))
    assert again == found
    problems = workloads.problems(again, "full")
    assert sum(w.weight for w in problems) == pytest.approx(sum(e.weight for e in found.entries))
    told = []
    done = replay(again, scale="full", share=1.0, budget=0.01, progress=lambda *a: told.append(a))
    assert len(done.rows) == len(problems) == len(told)
    assert done.time == pytest.approx(sum(r.entry.weight * r.time for r in done.rows))
    assert done.sol_time is None or done.sol_time > 0


def test_backward_passes_are_seen_too():
    model, x = Block(), torch.randn(2, 16, 64)
    with capture() as forward:
        loss = model(x).sum()
    with capture() as backward:
        loss.backward()
    assert count(backward.workload("b"), "matmul") >= 2 * 5
    assert backward.flops == pytest.approx(2 * forward.flops, rel=0.1)
    assert 0.9 < backward.coverage < 1.0, "attention's backward has no op of ours"


CALLS = {
    "matmul": lambda: torch.randn(4, 8) @ torch.randn(5, 8).T,
    "batched": lambda: torch.randn(2, 3, 4, 8) @ torch.randn(2, 3, 8, 5),
    "bias": lambda: F.linear(torch.randn(4, 8), torch.randn(5, 8), torch.randn(5)),
    "residual": lambda: torch.addmm(torch.randn(4, 5), torch.randn(4, 8), torch.randn(8, 5)),
    "conv2d": lambda: F.conv2d(
        torch.randn(1, 4, 9, 9), torch.randn(6, 2, 3, 3), torch.randn(6), 2, 1, 1, 2
    ),
    "softmax": lambda: torch.randn(4, 8).softmax(0),
    "log_softmax": lambda: torch.randn(4, 8).log_softmax(-1),
    "gelu": lambda: F.gelu(torch.randn(8), approximate="tanh"),
    "sum": lambda: torch.randn(4, 8).sum((0, 1), keepdim=True),
    "mean": lambda: torch.randn(4, 8).mean(-1),
    "max": lambda: torch.randn(4, 8).amax(0),
    "argmax": lambda: torch.randn(4, 8).argmax(-1),
    "cumsum": lambda: torch.randn(4, 8).cumsum(1),
    "embedding": lambda: F.embedding(torch.arange(3), torch.randn(10, 4)),
}


@pytest.mark.parametrize("name", CALLS)
def test_each_call_becomes_a_problem_with_the_same_result_shape(name):
    with capture() as seen:
        out = CALLS[name]()
    found = seen.workload("x")
    (entry,) = found.entries
    assert not found.unmapped
    op = {"batched": "matmul", "bias": "linear", "residual": "linear"}.get(name, name)
    assert entry.op == op
    problem = workloads.bind(entry)
    shape = tuple(out.shape)
    assert problem.results[0].shape in (shape, (6, 4, 5)), "batched products are flattened"
    assert caller(problem)().shape == problem.results[0].shape


def test_layouts_are_kept():
    with capture() as seen:
        torch.randn(4, 8) @ torch.randn(5, 8).T
    (entry,) = seen.workload("x").entries
    assert entry.operands["b"] == TensorSpec((8, 5), "float32", (1, 8))


@pytest.mark.parametrize(
    ("call", "what"),
    [
        (lambda: torch.randn(4).exp(), "exp"),
        (
            lambda: torch.addmm(torch.randn(5), torch.randn(4, 8), torch.randn(8, 5), beta=2),
            "addmm",
        ),
        (lambda: F.conv1d(torch.randn(1, 2, 9), torch.randn(3, 2, 3)), "convolution"),
        (lambda: F.silu(torch.randn(8)), "silu"),
        (lambda: torch.fft.fft(torch.randn(8)), "_fft_r2c"),
        (lambda: torch.randn(4, 8, dtype=torch.complex64).sum(), "sum"),
    ],
)
def test_what_has_no_op_of_ours_is_listed(call, what):
    with capture() as seen:
        call()
    found = seen.workload("x")
    assert what in {e.what for e in found.unmapped}
    assert not found.entries
    if seen.flops:
        assert seen.coverage == 0.0


def test_causal_attention_with_other_lengths_says_what_differs():
    q, k = torch.randn(1, 2, 4, 8), torch.randn(1, 2, 6, 8)
    with capture() as seen:
        F.scaled_dot_product_attention(q, k, k, is_causal=True, scale=0.5)
    (entry,) = (e for e in seen.workload("x").entries if e.op == "attention")
    assert "aligned to the start" in entry.approx
    assert entry.params == {"causal": True, "scale": 0.5}


APP = """
import sys, torch, portable
assert sys.argv[1:] == ["--flag", "7"], sys.argv
a = torch.randn(8, 4)
a @ a.T
for _ in range(3):
    portable.softmax(a)
sys.exit(int(sys.argv[2]))
"""


def test_a_program_is_captured_without_being_changed(tmp_path):
    app, out = tmp_path / "app.py", tmp_path / "w.jsonl"
    app.write_text(APP)
    command = [sys.executable, "-m", "portable.workloads.capture_run", str(out), "app", "--"]
    done = subprocess.run(
        [*command, str(app), "--flag", "7"], capture_output=True, text=True, timeout=120
    )
    assert done.returncode == 7, done.stderr
    assert "100.0%" in done.stderr
    found = workloads.load(str(out))
    assert count(found, "matmul") == 1
    ours = [e for e in found.entries if e.note == "portable"]
    assert [(e.op, e.weight) for e in ours] == [("softmax", 3)]
    assert count(found, "softmax") == 3, "the aten call inside is not counted again"


def test_the_workload_command(tmp_path):
    from typer.testing import CliRunner

    from portable.cli_workload import app

    def run(*args):
        return CliRunner().invoke(app, list(args), catch_exceptions=False)

    listed = run("list")
    assert listed.exit_code == 0
    assert "bert-base" in listed.output
    shown = run("show", "gpt-oss-120b", "--limit", "3")
    assert "3 problems stand for" in shown.output
    assert "no op of ours: grouped_matmul 61%" in shown.output
    with pytest.raises(UnknownNameError):
        run("show", "nothing")
    program, out = tmp_path / "p.py", tmp_path / "w.jsonl"
    program.write_text("import torch; torch.ones(4, 4) @ torch.ones(4, 4)")
    captured = run("capture", "--out", str(out), "--", "python", str(program))
    assert captured.exit_code == 0, captured.output
    assert "1 problems" in captured.output
    assert workloads.load(str(out)).name == "p"
    assert (
        "one unit of the replayed part takes" in run("replay", str(out), "--budget", "0.01").output
    )
    assert run("capture", "--", "-m").exit_code == 2
    assert run("capture", "--", "python", "-c", "pass").exit_code == 2
