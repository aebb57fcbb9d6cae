"""The backend without a GPU: reasons, devices, plans and configs; nothing is compiled or run."""

from __future__ import annotations

import pytest

from portable.cases import problem_of_shapes
from portable.device import Device, DeviceInfo
from portable.op import Problem, TensorSpec
from portable.registry import op

pytest.importorskip("triton", reason="triton is not installed")
torch = pytest.importorskip("torch", reason="torch is not installed")

from portable.backends.triton import _layout, _target, _tiles, backend  # noqa: E402
from portable.backends.triton._plan import T, signature, tensor_dtypes  # noqa: E402


def gpu(architecture, units=132):
    return Device("cuda:0", DeviceInfo("x", architecture=architecture, units=units))


def matmul(m, n, k, dtype="bfloat16"):
    return problem_of_shapes(op("matmul"), [(m, k), (k, n)], dtype, {})


@pytest.mark.skipif(torch.cuda.is_available(), reason="a GPU is here")
def test_without_a_gpu_it_says_what_it_needs(monkeypatch):
    monkeypatch.delenv("TRITON_INTERPRET", raising=False)
    missing = backend.why_missing()
    assert "needs a CUDA or ROCm device" in missing.reason
    monkeypatch.setenv("TRITON_INTERPRET", "1")  # alone it is not enough to be offered
    assert backend.why_missing() is not None


def test_it_has_every_op():
    from portable.registry import op_names

    assert set(backend.ops()) == set(op_names())


@pytest.mark.parametrize(
    ("name", "shapes", "dtype", "params", "architecture", "reason"),
    [
        ("softmax", [(4, 4)], "float32", {}, "zen5", "architecture is zen5"),
        ("softmax", [(4, 4)], "float32", {}, "sm_70", "sm_75 or later"),
        ("softmax", [(4, 4)], "bfloat16", {}, "sm_75", "bfloat16 on sm_75"),
        ("matmul", [(4, 4), (4, 4)], "int32", {}, "sm_90", "dtype is int32 (takes"),
        ("attention", [(1, 1, 4, 512)] * 3, "float16", {}, "sm_90", "512 (at most 256)"),
        ("attention", [(1, 1, 4, 256)] * 3, "float16", {}, "gfx1100", "256 (at most 128)"),
    ],
)  # fmt: skip
def test_what_it_cannot_do_is_refused_with_value_and_limit(
    name, shapes, dtype, params, architecture, reason
):
    problem = problem_of_shapes(op(name), shapes, dtype, params)
    found = backend.implementation(name).why_not(problem, gpu(architecture))
    assert any(reason in phrase for phrase in found), found


@pytest.mark.parametrize("architecture", ["sm_80", "sm_86", "sm_90", "sm_120", "gfx942", "gfx1100"])
@pytest.mark.parametrize("dtype", ["float64", "float32", "bfloat16"])
@pytest.mark.parametrize("shape", [(4096, 4096, 4096), (1, 4096, 4096), (17, 33, 65), (1, 1, 1)])
def test_every_problem_has_configs_that_fit_shared_memory(architecture, dtype, shape):
    target = _target.parse(architecture)
    problem = matmul(*shape, dtype)
    configs = backend.implementation("matmul").configs(problem, gpu(architecture))
    assert configs
    for config in configs:
        assert config["num_warps"] * target.warp <= 1024
        if config["variant"] == "tile":
            tile = tuple(config[k] for k in
                         ("block_m", "block_n", "block_k", "num_warps", "num_stages"))  # fmt: skip
            size = problem["a"].itemsize
            assert _tiles.shared_bytes(tile, size, target) <= target.shared


def test_few_tiles_split_k_and_one_row_takes_the_vector_kernel():
    configs = backend.implementation("matmul").configs(matmul(16, 512, 16384), gpu("sm_90"))
    assert configs[0]["split_k"] > 1
    configs = backend.implementation("matmul").configs(matmul(1, 4096, 4096), gpu("sm_90"))
    assert configs[0]["variant"] == "vector"


def test_tf32_only_when_the_caller_allows_it():
    from dataclasses import replace

    from portable.backends.triton._gemm_plan import input_precision

    exact, target = matmul(64, 64, 64, "float32"), _target.parse("sm_90")
    assert input_precision(exact, target) == "ieee"
    assert input_precision(replace(exact, precision="high"), target) == "tf32"
    assert input_precision(replace(exact, precision="high"), _target.parse("gfx1100")) == "ieee"


def test_fp8_keeps_float32_sums_unless_the_caller_allows_less():
    from dataclasses import replace

    from portable.backends.triton.quantized_matmul import form

    shapes = [(256, 256), (256, 256), (), ()]
    problem = problem_of_shapes(op("quantized_matmul"), shapes, "float8_e4m3fn",
                                {"out_dtype": "bfloat16"})  # fmt: skip
    assert form(problem, _target.parse("sm_90")) == "half"
    assert form(replace(problem, precision="high"), _target.parse("sm_90")) == "native"
    assert form(problem, _target.parse("gfx950")) == "native"
    assert form(replace(problem, precision="high"), _target.parse("sm_80")) == "half"


def test_tensors_past_2_31_elements_get_64_bit_offsets():
    large = TensorSpec((4, 4), "float32", (2**30, 1))
    problem = Problem("softmax", 1, ("x",), (large,), (("axis", 1),),
                      (TensorSpec((4, 4), "float32"),))  # fmt: skip
    assert _layout.wide(problem)
    module = backend.implementation("softmax")
    config = module.configs(problem, gpu("sm_90"))[0]
    (launch,) = module.plan(problem, _target.parse("sm_90"), config).launches
    assert launch.arguments["WIDE"] is True
    assert not _layout.wide(matmul(64, 64, 64))


def test_signatures_specialise_as_a_launch_would():
    module, problem = backend.implementation("matmul"), matmul(64, 48, 50)
    config = {**module.configs(problem, gpu("sm_90"))[0]}
    plan = module.plan(problem, _target.parse("sm_90"), config)
    launch = plan.launches[0]
    kinds, constants, attributes = signature(launch, tensor_dtypes(problem, plan))
    index = {parameter.name: i for i, parameter in enumerate(launch.kernel.params)}
    assert kinds["a"] == "*bf16"
    assert kinds["K"] == "i32"
    assert (index["N"],) in attributes  # 48 is a multiple of 16, 50 is not
    assert (index["K"],) not in attributes
    assert constants["ak"] == 1  # equal to one: a constant


def test_float_arguments_are_refused():
    from portable.backends.triton._plan import Launch
    from portable.backends.triton._softmax import softmax_kernel

    launch = Launch(softmax_kernel, 1, {"x": T("x"), "y": T("x"), "rows": 0.5})
    with pytest.raises(TypeError, match="constexpr"):
        signature(launch, {"x": "float32"})
    with pytest.raises(TypeError, match="lacks the argument 'y'"):
        signature(Launch(softmax_kernel, 1, {"x": T("x")}), {"x": "float32"})


@pytest.mark.parametrize(
    ("shape", "strides", "merged"),
    [
        ((2, 3, 4), (12, 4, 1), ([24], [1])),
        ((2, 3, 4), (4, 8, 1), ([2, 3, 4], [4, 8, 1])),
        ((2, 1, 4), (4, 99, 1), ([8], [1])),
        ((5, 6), (0, 1), ([5, 6], [0, 1])),
        ((), (), ([], [])),
    ],
)
def test_axes_that_are_one_in_memory_are_merged(shape, strides, merged):
    extents, (steps,) = _layout.collapse(shape, [strides])
    assert (extents, steps) == merged
