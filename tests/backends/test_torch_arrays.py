"""torch's array family: keys, zero copy, gradients and traces, refusals."""

from __future__ import annotations

import ml_dtypes
import numpy as np
import pytest

torch = pytest.importorskip("torch")

import portable  # noqa: E402
from portable.backends.torch._arrays import TorchFamily  # noqa: E402
from portable.errors import DTypeError, FamilyError  # noqa: E402

FAMILY = TorchFamily()


def test_equal_keys_mean_equal_specs_and_constraints():
    x = torch.zeros(6, 8)
    wanted = torch.zeros(6, 8, requires_grad=True)
    variants = [x, x.T, x[::2], x.double(), x[:, :4], x[:1].expand(6, 8), wanted, x.int(),
                torch.zeros(8, 6)]  # fmt: skip
    assert len({FAMILY.key(v) for v in variants}) == len(variants)
    assert FAMILY.key(x) == FAMILY.key(torch.ones(6, 8))
    with torch.no_grad():
        assert FAMILY.key(wanted) == FAMILY.key(x)
    outside = FAMILY.key(x)
    torch.func.vmap(lambda t: _check_other(t, outside))(torch.zeros(3, 6, 8))


def _check_other(tensor, outside):
    assert FAMILY.key(tensor) != outside
    assert FAMILY.constraints(tensor) == {"differentiable", "traceable"}
    with pytest.raises(FamilyError, match="torch backend"):
        FAMILY.to_host(tensor)
    return tensor


@pytest.mark.parametrize("dtype", ["float64", "float32", "float16", "bfloat16", "float8_e4m3fn",
                                   "int8", "uint8", "int64", "uint16", "bool"])  # fmt: skip
def test_to_host_and_back_without_a_copy(dtype):
    t = torch.ones(4, 6).to(getattr(torch, dtype))
    for view in (t, t.T, t[1:, ::2], t[:1].expand(4, 6)):
        host = FAMILY.to_host(view)
        assert host.ctypes.data == view.data_ptr()
        assert host.dtype.name == dtype
        assert host.shape == tuple(view.shape)
        back = FAMILY.from_host(host, "cpu")
        assert back.data_ptr() == view.data_ptr()
        assert back.dtype == view.dtype
        assert back.stride() == view.stride()


def test_from_host_copies_negative_strides_and_takes_read_only_memory():
    x = np.arange(12, dtype=np.float32).reshape(3, 4)
    assert FAMILY.from_host(x[::-1], "cpu").tolist() == x[::-1].tolist()
    assert "negative" in FAMILY.why_copy(portable.op.TensorSpec((3, 4), "float32", (-4, 1)))
    x.flags.writeable = False
    assert FAMILY.from_host(x, "cpu").data_ptr() == x.ctypes.data  # and no warning
    odd = np.frombuffer(b"\0" + x.tobytes(), np.float32, offset=1)
    assert FAMILY.from_host(odd, "cpu").tolist() == x.ravel().tolist()
    half = x.astype(ml_dtypes.bfloat16)
    half.flags.writeable = False
    assert FAMILY.from_host(half, "cpu").data_ptr() == half.ctypes.data


def test_c_names_of_one_integer_type_are_one_type():
    """On 64-bit Linux NumPy has two unsigned types of 64 bits; torch knows one of them."""
    for char in "LQlq":
        host = np.arange(4, dtype=char)
        assert FAMILY.from_host(host, "cpu").tolist() == [0, 1, 2, 3]


def test_gradients_are_constraints_only_where_they_are_asked_for():
    x = torch.ones(3, requires_grad=True)
    assert FAMILY.constraints(x) == {"differentiable"}
    assert FAMILY.constraints(torch.nn.Parameter(torch.ones(3))) == {"differentiable"}
    assert FAMILY.constraints(x.detach()) == frozenset()
    with torch.no_grad():
        assert FAMILY.constraints(x) == frozenset()
    with torch.autograd.forward_ad.dual_level():
        assert FAMILY.constraints(torch.ones(3)) == {"differentiable"}


@pytest.mark.filterwarnings("ignore")
@pytest.mark.parametrize(
    ("make", "error", "fix"),
    [
        (lambda: torch.eye(3).to_sparse(), FamilyError, "to_dense"),
        (lambda: torch.eye(3).to_sparse_csr(), FamilyError, "to_dense"),
        (lambda: torch.nested.nested_tensor([torch.ones(2), torch.ones(3)]), FamilyError, "nested"),
        (lambda: torch.ones(3, device="meta"), FamilyError, "meta"),
        (lambda: torch.quantize_per_tensor(torch.eye(3), 0.1, 0, torch.qint8), DTypeError,
         "dequantize"),
    ],
    ids=["sparse", "csr", "nested", "meta", "quantized"],
)  # fmt: skip
def test_odd_tensors_are_refused_with_the_fix(make, error, fix):
    tensor = make()
    hash(FAMILY.key(tensor))
    with pytest.raises(error, match=fix):
        portable.softmax(tensor)


def test_lazy_negation_is_carried_out():
    x = torch.tensor([1 + 2j, 3 - 4j]).conj().imag
    assert x.is_neg()
    assert FAMILY.to_host(x).tolist() == [-2.0, 4.0]
    assert not FAMILY.normalize(x)(x).is_neg()
    assert portable.sum(x).item() == 2.0


def test_subclasses_stay_in_torch():
    from torch._subclasses.fake_tensor import FakeTensorMode

    with FakeTensorMode():
        fake = torch.ones(3, 4)
    assert FAMILY.constraints(fake) == {"differentiable", "traceable"}
    assert FAMILY.key(fake) != FAMILY.key(torch.ones(3, 4))
    result = portable.matmul(fake, fake.T)
    assert type(result) is type(fake)
    assert tuple(result.shape) == (3, 3)


@pytest.mark.filterwarnings("ignore:.*torch.jit.script:DeprecationWarning")  # torch's own use
def test_a_matcher_says_yes_only_to_equal_keys():
    a, b = torch.zeros(4, 6), torch.zeros(6, 8).T
    matches = FAMILY.matcher((a, b))
    assert matches is not None
    assert matches(torch.ones(4, 6), torch.ones(6, 8).T)
    twice = FAMILY.matcher((a, a))
    assert twice(a, a)
    assert not twice(a, b)
    wanting = torch.zeros(4, 6, requires_grad=True)
    for other in (a.T, a.double(), torch.zeros(5, 6), torch.zeros(4, 12)[:, ::2], wanting, 1.0):
        assert not matches(other, b)
    assert not matches(a, b.contiguous())
    with torch.autocast("cpu"):
        assert not matches(a, b)
    with torch.autograd.forward_ad.dual_level():
        assert not matches(torch.autograd.forward_ad.make_dual(a, a), b)
    torch.func.vmap(lambda t: _no_match(matches, t, b))(torch.zeros(3, 4, 6))
    assert FAMILY.matcher((wanting, b)) is None
    with torch.no_grad():
        silent = FAMILY.matcher((wanting, b))
        assert silent(wanting, b)
    assert not silent(wanting, b)


def _no_match(matches, tensor, b):
    assert not matches(tensor, b)
    return tensor
