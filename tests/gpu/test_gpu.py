"""What only a GPU can show: kernels on the device, streams, graph capture, allocator manners.

Skipped without one; `docs/verification.md` lists these checks as owed until they have run.
"""

from __future__ import annotations

import importlib.util

import pytest

import portable
from portable import machine, registry
from portable.conformance import conform


def gpu() -> str:
    """Id of the first GPU that a backend drives, or ""."""
    found = [key for key in machine.devices() if key.startswith(("cuda:", "rocm:"))]
    return found[0] if found else ""


pytestmark = pytest.mark.skipif(
    importlib.util.find_spec("torch") is None or not gpu(), reason="no GPU that a backend drives"
)


@pytest.mark.parametrize("name", ["cuda", "triton", "torch"])
def test_conformance_on_the_device(name):
    entry = registry.registered()[name]
    if not entry.usable:
        pytest.fail(f"{name} cannot be used although a GPU is there: {entry.why}")
    result = conform(name, level="full", devices=[gpu()])
    assert result.passed, str(result)


@pytest.mark.parametrize("name", ["cuda", "triton"])
def test_kernels_follow_the_callers_stream(name):
    import torch

    a = torch.randn(2048, 2048, device="cuda")
    with portable.using(backend=name):
        portable.matmul(a, a)
        side = torch.cuda.Stream()
        with torch.cuda.stream(side):
            b = torch.zeros_like(a)
            torch.cuda._sleep(50_000_000)
            b.copy_(a)
            y = portable.matmul(b, a)  # must wait for the copy on its own stream
        side.synchronize()
    torch.testing.assert_close(y, a @ a, rtol=1e-3, atol=1e-2)


@pytest.mark.parametrize("name", ["cuda", "triton"])
def test_calls_can_be_captured_in_a_graph(name):
    import torch

    a = torch.randn(256, 256, device="cuda", dtype=torch.bfloat16)
    with portable.using(backend=name):
        for _ in range(3):
            portable.softmax(portable.matmul(a, a))
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = portable.softmax(portable.matmul(a, a))
    a.normal_()
    graph.replay()
    torch.cuda.synchronize()
    torch.testing.assert_close(
        y, torch.softmax((a @ a).float(), -1).bfloat16(), rtol=2e-2, atol=2e-2
    )


def test_jax_leaves_the_memory_to_its_neighbours():
    jax = pytest.importorskip("jax")
    import torch

    if jax.default_backend() == "cpu":
        pytest.skip("this JAX has no GPU plugin")
    free_before, total = torch.cuda.mem_get_info()
    portable.matmul(jax.numpy.ones((64, 64)), jax.numpy.ones((64, 64)))
    free_after, _ = torch.cuda.mem_get_info()
    assert free_before - free_after < 0.2 * total


def test_device_facts_agree_with_the_database():
    found = machine.device(gpu())
    assert found.spec is not None, f"{found.info} has no entry in the hardware database"
    assert found.info.units == found.spec.units
