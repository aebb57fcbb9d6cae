"""torch.compile: portable's functions are nodes of one graph, before and after Dynamo is loaded."""

from __future__ import annotations

import subprocess
import sys

import pytest

torch = pytest.importorskip("torch")

SCRIPT = """
import sys
import torch
import portable
from portable.backends.torch._compile import install

if {late}:
    import torch._dynamo
install({{"matmul": portable.matmul, "softmax": portable.softmax, "linear": portable.linear}})
assert ("torch._dynamo" in sys.modules) == {late}

def f(a, b):
    return portable.softmax(portable.linear(portable.matmul(a, b), b, activation="silu"), axis=-1)

def plain(a, b):
    return torch.softmax(torch.nn.functional.silu((a @ b) @ b), -1)

compiled = torch.compile(f, backend="aot_eager", fullgraph=True)
a, b = torch.randn(5, 8), torch.randn(8, 8)
torch.testing.assert_close(compiled(a, b), plain(a, b))
x = torch.randn(5, 8, requires_grad=True)
compiled(x, b).square().sum().backward()
y = x.detach().clone().requires_grad_()
plain(y, b).square().sum().backward()
torch.testing.assert_close(x.grad, y.grad)
dynamic = torch.compile(f, backend="aot_eager", fullgraph=True, dynamic=True)
for n in (2, 3, 7):
    a = torch.randn(n, 8)
    torch.testing.assert_close(dynamic(a, b), plain(a, b))
graph = torch.fx.experimental.proxy_tensor.make_fx(f)(a, b).code
assert "aten.mm" in graph and "aten._softmax" in graph, graph
exported = torch.export.export(
    type("M", (torch.nn.Module,), {{"forward": lambda self, a, b: f(a, b)}})(), (a, b)
)
torch.testing.assert_close(exported.module()(a, b), plain(a, b))
print("fine")
"""


@pytest.mark.parametrize("late", [False, True], ids=["before dynamo", "after dynamo"])
def test_compiled_functions(late):
    done = subprocess.run(
        [sys.executable, "-W", "ignore", "-c", SCRIPT.format(late=late)],
        capture_output=True,
        text=True,
        timeout=240,
    )
    assert done.stdout.strip() == "fine", done.stderr[-3000:]
