"""torch's implementations: bounds, gradients, transformations, and modes that lower precision."""

from __future__ import annotations

import math

import numpy as np
import pytest

torch = pytest.importorskip("torch")

import portable  # noqa: E402
from portable import cases, registry  # noqa: E402
from portable.backends.torch import _guard  # noqa: E402
from tests.backends.array_backends import failures  # noqa: E402

CALLS = {
    "matmul": lambda x, w: portable.matmul(x, w),
    "linear": lambda x, w: portable.linear(x, w, activation="gelu"),
    "softmax": lambda x, w: portable.softmax(x) * w.sum(),
    "log_softmax": lambda x, w: portable.log_softmax(x, axis=0) * w.sum(),
    "layer_norm": lambda x, w: portable.layer_norm(x, w[0], w[1]),
    "rms_norm": lambda x, w: portable.rms_norm(x, w[0]),
    "add_rms_norm": lambda x, w: portable.add_rms_norm(x, x * w[0], w[1])[0],
    "gelu": lambda x, w: portable.gelu(x * w[0]),
    "swiglu": lambda x, w: portable.swiglu(x, x * w[0]),
    "sum": lambda x, w: portable.sum(x * w[0], axis=1),
    "mean": lambda x, w: portable.mean(x * w[0]),
    "max": lambda x, w: portable.max(x * w[0], axis=0),
    "cumsum": lambda x, w: portable.cumsum(x * w[0], axis=1),
    "rope": lambda x, w: portable.rope(x, w[:3, :2], w[:3, 2:]),
    "transpose": lambda x, w: portable.transpose(x) * w[0, 0],
    "embedding": lambda x, w: portable.embedding(w, torch.tensor([2, 0, 2])) * x,
    "cross_entropy": lambda x, w: portable.cross_entropy(x @ w, torch.tensor([0, 3, 1])),
    "attention": lambda x, w: portable.attention(x[None, None], w[None, None], w[None, None],
                                                 causal=True),
    "conv2d": lambda x, w: portable.conv2d(x[None, None], w[None, None, :2, :2], padding=1),
}  # fmt: skip


@pytest.fixture(autouse=True)
def _defaults():
    """Whatever a test sets, torch's global modes are as they were afterwards."""
    before = torch.get_float32_matmul_precision()
    yield
    torch.set_float32_matmul_precision(before)


@pytest.mark.parametrize("op", registry.op_names())
def test_cases_are_within_bounds(op):
    count, wrong = failures("torch", op, share=0.5)
    assert count > 20
    assert not wrong, "\n".join(wrong[:5])


@pytest.mark.parametrize("op", CALLS)
def test_gradients_are_right(op):
    torch.manual_seed(0)
    x = torch.randn(3, 4, dtype=torch.float64, requires_grad=True)
    w = torch.randn(4, 4, dtype=torch.float64, requires_grad=True)
    assert torch.autograd.gradcheck(CALLS[op], (x, w))


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own use
@pytest.mark.parametrize("op", ["matmul", "softmax", "rms_norm", "attention", "sum"])
def test_functions_of_torch_func_go_through(op):
    torch.manual_seed(0)
    x, w = torch.randn(5, 3, 4), torch.randn(5, 4, 4)
    f = CALLS[op]
    each = torch.stack([f(a, b) for a, b in zip(x, w, strict=True)])
    torch.testing.assert_close(torch.func.vmap(f)(x, w), each)
    _, tangent = torch.func.jvp(lambda a: f(a, w[0]), (x[0],), (torch.ones_like(x[0]),))
    wide = x[0].double()
    slope = torch.func.jacfwd(lambda a: f(a, w[0].double()))(wide)
    torch.testing.assert_close(tangent.double(), slope.sum((-1, -2)), atol=1e-4, rtol=1e-4)
    value = torch.func.grad(lambda a: f(a, w[0]).sum())(x[0])
    torch.testing.assert_close(value.double(), slope.reshape(-1, 3, 4).sum(0), atol=1e-4, rtol=1e-4)


def test_parameters_that_want_no_gradient_may_go_anywhere():
    layer = torch.nn.Linear(4, 4)
    with torch.no_grad():
        portable.matmul(torch.ones(2, 4), layer.weight)
    y = portable.matmul(torch.ones(2, 4), layer.weight)
    assert y.requires_grad


def test_autocast_does_not_lower_what_portable_promises():
    x, w = torch.randn(16, 32), torch.randn(32, 8)
    with portable.using(backend="torch"):
        plain = portable.matmul(x, w)
        with torch.autocast("cpu"):
            assert torch.matmul(x, w).dtype == torch.bfloat16
            torch.testing.assert_close(portable.matmul(x, w), plain, rtol=0, atol=0)
            assert portable.linear(x, w).dtype == torch.float32
            half = x.bfloat16()
            assert portable.softmax(half).dtype == torch.bfloat16
            assert portable.layer_norm(half).dtype == torch.bfloat16
            assert portable.sum(half, axis=1).dtype == torch.bfloat16
            assert torch.is_autocast_enabled("cpu")


def test_full_precision_lifts_and_restores_the_switches():
    torch.set_float32_matmul_precision("medium")
    switches = _guard._switches("cpu")
    assert any(lowers() for lowers, _ in switches)
    with _guard._full_precision("cpu"):
        assert not any(lowers() for lowers, _ in switches)
    assert any(lowers() for lowers, _ in switches)
    assert torch.get_float32_matmul_precision() == "medium"


def test_a_lowered_switch_is_lifted_for_the_call_alone(monkeypatch):
    monkeypatch.setattr(_guard, "_cpu_can_lower", lambda: True)
    seen = []

    def product(a, b):
        seen.append([lowers() for lowers, _ in _guard._switches("cpu")])
        return torch.matmul(a, b)

    problem = cases.problem_of(registry.op("matmul"), [np.ones((3, 3), np.float32)] * 2)
    device = registry.backend("torch").devices()[0]
    kernel = _guard.guarded(product, problem, device)
    x = torch.ones(3, 3)
    kernel(x, x)
    torch.set_float32_matmul_precision("medium")
    kernel(x, x)
    assert torch.get_float32_matmul_precision() == "medium"
    assert len(seen) == 2
    assert not any(map(any, seen))


def test_gelu_of_infinity():
    for dtype in (torch.float32, torch.bfloat16, torch.float16):
        x = torch.full((64,), math.inf, dtype=dtype)
        with portable.using(backend="torch"):
            assert torch.isinf(portable.gelu(x)).all()


@pytest.mark.parametrize("causal", [False, True])
def test_attention_does_not_hide_nan(causal):
    q, k, v = (torch.randn(1, 1, 6, 8) for _ in range(3))
    q[0, 0, 2, 1] = math.nan
    with portable.using(backend="torch"):
        y = portable.attention(q, k, v, causal=causal)
        assert y.isnan().any(-1).flatten().tolist() == [False, False, True, False, False, False]
        k[0, 0, 0, 0] = math.nan
        assert portable.attention(q, k, v, causal=causal).isnan().all()


@pytest.mark.parametrize("transposed", [False, True])
def test_products_of_bools(transposed):
    """Any of the ands, as NumPy's."""
    rng = np.random.default_rng(0)
    a, b = (rng.random(s) < 0.3 for s in ((5, 9), (9, 7)))
    a[0], b[:, 0] = False, False
    if transposed:
        b = np.asfortranarray(b)
    with portable.using(backend="torch"):
        y = portable.matmul(torch.from_numpy(a), torch.from_numpy(b))
    assert y.dtype == torch.bool
    assert 0 < int(y.sum()) < y.numel()
    np.testing.assert_array_equal(y.numpy(), a @ b)


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16], ids=str)
@pytest.mark.parametrize("depth", [5, 33, 34, 64])
def test_nan_stays_in_its_row(dtype, depth):
    """oneDNN 3.12's AMX kernels read past a row's end."""
    x = torch.randn(33, depth).to(dtype)
    x[16] = math.nan
    w = torch.randn(depth, 64).to(dtype)
    only = [row == 16 for row in range(33)]
    with portable.using(backend="torch"):
        assert portable.matmul(x, w).isnan().any(1).tolist() == only
        assert portable.linear(x, w).isnan().any(1).tolist() == only
        images = x[:, :, None, None].expand(-1, -1, 9, 9).clone()
        y = portable.conv2d(images, torch.randn(16, depth, 3, 3).to(dtype), padding=1)
        assert y.isnan().flatten(1).any(1).tolist() == only
        images[16] = 0.0
        images[16, :, 4, 4] = math.nan
        y = portable.conv2d(images, torch.randn(16, depth, 3, 3).to(dtype), padding=1)
        assert int(y.isnan().any(1).sum()) == 9


def test_whether_rows_are_kept_is_asked_of_real_tensors():
    """Not of fakes, when the first plan is made inside a trace."""
    from torch._subclasses import FakeTensorMode

    from portable.backends.torch import _support

    _support.keeps_to_its_row.cache_clear()
    known = _support.keeps_to_its_row("bfloat16")
    _support.keeps_to_its_row.cache_clear()
    with FakeTensorMode():
        assert _support.keeps_to_its_row("bfloat16") is known


def test_nan_stays_in_its_row_of_attention_from_elementary_kernels():
    """As under torch.func.vmap, in the dtype of the operands."""
    from portable.backends.torch import attention

    q, k, v = (torch.randn(2, 1, 33, 24).bfloat16() for _ in range(3))
    q[0, 0, 16] = math.nan
    y = attention._composed(q, k, v, None, 0.2)
    assert y.dtype == torch.bfloat16
    assert y.isnan().any(-1).nonzero().tolist() == [[0, 0, 16]]
