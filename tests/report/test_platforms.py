"""Platforms of one machine: how H is formed and declared, and performance portability by hand."""

from __future__ import annotations

import pytest

from portable import benching, report
from portable.benching import Benched, WorkloadBench
from portable.contest import Result
from portable.errors import UnknownNameError
from portable.records.files import read_jsonl
from portable.report import platforms
from portable.report.rows import build_rows
from portable.report.weights import from_mapping
from tests.report import made

A, B = made.matmul(64, 512, 512), made.problem("softmax", x=(96, 512))
HOST, POCL, INTEL = (
    f"{made.LABEL} · {route}" for route in ("host libraries", "OpenCL PoCL", "OpenCL Intel")
)
NO_GPU = "no GPU is visible"


def times(**changed):
    """[s] by candidate: matmul, softmax."""
    return {
        "numpy": (2e-3, 1e-3), "torch": (1e-3, 4e-3), "opencl[pocl]": (4e-3, 2e-3),
        "opencl[intel]": (2.5e-3, 5e-3), **changed,
    }  # fmt: skip


def one_machine(**changed):
    found = [
        made.record(what, name, time)
        for name, both in times(**changed).items()
        for what, time in zip((A, B), both, strict=True)
    ]
    found += [made.record(p, "triton", status="unsupported", reason=NO_GPU) for p in (A, B)]
    return found


def weights(a=10.0, b=1.0, name="w"):
    return from_mapping(name, {A: (a, ""), B: (b, "")})


def result(study, application, scope=""):
    return next(r for r in study.results if (r.application, r.scope) == (application, scope))


def test_three_platforms_of_one_machine_with_every_number_by_hand():
    """Best on the device: 1 ms (matmul, torch) and 1 ms (softmax, numpy); weights 10 and 1."""
    first, second = weights(), weights(1.0, 2.0, "other")
    built = report.build(
        one_machine(), workloads=[first, second], chosen={A: "torch", B: "numpy"},
        hardware=["H200 SXM", "MI300X", "B200", "TPU v6e"],
    )  # fmt: skip
    study = built.studies[0]
    assert study.platforms == (HOST, INTEL, POCL)
    ideal = 10 * 1 + 1 * 1
    efficiencies = {
        HOST: ideal / (10 * 1 + 1 * 1), INTEL: ideal / (10 * 2.5 + 5), POCL: ideal / (10 * 4 + 2)
    }  # fmt: skip
    portable = result(study, "portable")
    assert portable.app.efficiencies == pytest.approx(efficiencies)
    by_hand = 3 / sum(1 / e for e in efficiencies.values())
    assert by_hand == pytest.approx(3 / (11 / 11 + 30 / 11 + 42 / 11))
    assert portable.app.value == pytest.approx(by_hand)
    sol = {r.problem: r.sol.time for r in built.rows}
    bound = 10 * sol[A] + sol[B]
    arch = [bound / 11e-3, bound / 30e-3, bound / 42e-3]
    assert portable.arch.value == pytest.approx(3 / sum(1 / e for e in arch))
    assert [(p, round(e, 6)) for p, e, _ in portable.cascade] == [
        (HOST, 1.0), (INTEL, round(11 / 30, 6)), (POCL, round(11 / 42, 6)),
    ]  # fmt: skip
    assert [pp for _, _, pp in portable.cascade] == pytest.approx([1.0, 2 / (1 + 30 / 11), by_hand])
    # The other workload weighs the same times anew: best 1 + 2, PoCL 4 + 4, Intel 2.5 + 10.
    other = next(s for s in built.studies if s.weights == "other")
    assert result(other, "portable").app.value == pytest.approx(3 / (1 + 12.5 / 3 + 8 / 3))
    # Projected devices are no platforms of H.
    assert [p.spec.name for p in built.projected] != []
    assert not {p.spec.name for p in built.projected} & {p.place.label for p in study.members}


def test_a_backend_that_does_not_reach_a_platform_has_no_portability_and_says_why():
    study = report.build(one_machine(), workloads=[weights()]).studies[0]
    opencl, numpy, triton = (result(study, n) for n in ("opencl", "numpy", "triton"))
    assert (opencl.app.value, numpy.app.value, triton.app.value) == (0.0, 0.0, 0.0)
    assert opencl.why == {HOST: "it reaches this device by OpenCL Intel and OpenCL PoCL only"}
    assert opencl.app.coverage == pytest.approx(2 / 3)
    # Over the supported platforms only, and never called PP.
    assert opencl.app.subset == pytest.approx(2 / (30 / 11 + 42 / 11))
    assert set(numpy.why) == {POCL, INTEL}
    assert numpy.app.efficiencies == pytest.approx({HOST: 11 / 21})
    assert triton.why == dict.fromkeys((HOST, INTEL, POCL), f"unsupported: {NO_GPU}")


def test_one_problem_that_fails_makes_the_platform_unsupported_with_its_own_words():
    records = [r for r in one_machine() if (r.runtime, r.problem) != ("pocl", B)]
    records.append(made.record(B, "opencl[pocl]", status="compile_error", reason="no half"))
    study = report.build(records, workloads=[weights()]).studies[0]
    portable = result(study, "portable")
    assert portable.app.value == 0
    assert "no correct result for 1 of 2 problems (softmax float32)" in portable.why[POCL]
    assert "compile_error: no half" in result(study, "opencl").why[POCL]
    assert result(study, "portable", "matmul").app.value > 0


def test_platforms_formed_by_device():
    records = one_machine()
    records += made.elsewhere([r for r in records if r.backend == "torch"], made.H100, 40)
    by_device = report.build(records, workloads=[weights()], platform_by="device")
    assert [s.formed_by for s in by_device.studies] == ["device", "route"]
    first, aside = by_device.studies
    assert len(first.platforms) == 2
    assert len(aside.platforms) == 4
    assert aside.aside
    torch = result(first, "torch").app
    assert torch.value == pytest.approx(2 / (14 / 11 + 1))
    by_route = report.build(records, workloads=[weights()])
    assert [s.formed_by for s in by_route.studies] == ["route", "device"]
    assert by_route.studies[0].platforms[-1].endswith(" · CUDA")
    with pytest.raises(UnknownNameError, match="route"):
        report.build(records, platform_by="vendor")


@pytest.mark.parametrize(
    "names",
    [
        ["cpu-amd-zen5/pocl", "cpu-amd-zen5/intel"],
        [f"{made.LABEL}/OpenCL PoCL", "CPU-AMD-ZEN5/OpenCL Intel"],
        [POCL, INTEL, POCL],
    ],
)
def test_h_declared_by_names(names):
    built = report.build(one_machine(), workloads=[weights()], platforms=names)
    (study,) = built.studies
    assert study.platforms == (POCL, INTEL)
    # Both against the best time on that CPU, whoever reached it.
    assert result(study, "opencl").app.value == pytest.approx(2 / (30 / 11 + 42 / 11))
    assert result(study, "numpy").app.value == 0


def test_a_device_and_a_name_without_records():
    built = report.build(
        one_machine(), workloads=[weights()], platforms=["cpu-amd-zen5", "H200 SXM"]
    )
    (study,) = built.studies
    assert study.platforms == (made.LABEL, "H200 SXM")
    assert result(study, "torch").app.value == 0
    why = result(study, "torch").why["H200 SXM"]
    assert why.startswith("there is no record of it")
    assert POCL in why
    assert [p.measured for p in study.members] == [True, False]


def test_a_runtime_that_was_never_tried_is_no_platform():
    records = [*one_machine(), made.record(A, "triton[interpreter]", status="unsupported",
                                           reason="only on demand")]  # fmt: skip
    rows, places = build_rows(records)
    found = platforms.formed(rows, places, "route")
    assert [p.key for p in found] == ["host", "intel", "pocl"]


def test_the_page_and_the_files_tell_platforms():
    built = report.build(one_machine(), workloads=[weights()])
    page = report.render(built)
    for text in ("OpenCL PoCL", "host libraries", "it reaches this device by", NO_GPU):
        assert text in page
    assert {row["platform"] for row in report.rows_as_dicts(built)} == {HOST, POCL, INTEL}
    said = " ".join(report.summary.sentences(built))
    assert "on 1 device by 3 routes" in said
    assert "no single backend runs on all of them" in said
    assert f"triton ({NO_GPU})" in said


def test_a_record_file_tells_who_was_not_let_in(tmp_path):
    result = Result(
        A, [made.record(A, "torch"), made.record(A, "opencl[pocl]", 2e-3)],
        refused={"triton": NO_GPU, "torch": "not on this other device", "cuda": ""},
        skipped={"opencl[intel]": "expected 9 times slower than the best"},
    )  # fmt: skip
    weights = report.from_entries("w", [(A, 2.0, "mlp")])
    bench = WorkloadBench(weights, [Benched(A, 2.0, "mlp", result, "torch")])
    assert benching.write(str(tmp_path / "r.jsonl"), [bench]) == 4
    found = {r.backend + r.runtime: r for r in read_jsonl(tmp_path / "r.jsonl")}
    assert {n: r.status for n, r in found.items()} == {
        "torch": "ok", "openclpocl": "ok", "triton": "unsupported", "openclintel": "skipped",
    }  # fmt: skip
    assert found["triton"].reason == NO_GPU
    assert found["triton"].device == made.CPU
    built = report.build(found.values())
    # Who never ran is no platform and no software of the machine.
    assert [p.key for p in built.platforms] == ["host", "pocl"]
    assert set(built.places[0].runtimes) == {"torch", "opencl[pocl]"}
    assert "2 measurements of 1 problem by 2 backends" in report.summary.sentences(built)[0]


def test_the_demo_page_is_of_what_was_measured(tmp_path):
    records = [r for r in one_machine() if r.problem == A and r.backend != "triton"]
    weights = report.from_entries("w", [(A, 2.0, "mlp")], covered=0.8, tokens=100)
    bench = WorkloadBench(weights, [Benched(A, 2.0, "mlp", Result(A, records), "numpy")])
    compiled = [{"target": "sm_90", "registers": 128}]
    built = benching.write_html(str(tmp_path / "r.html"), [bench], ["H200 SXM"], compiled)
    assert [r.candidate for r in built.rows if r.chosen] == ["numpy"]
    assert built.workloads[0].tokens == 100
    page = (tmp_path / "r.html").read_text(encoding="utf-8")
    for text in ("sm_90", "H200", "Cost of a port", "OpenCL PoCL"):
        assert text in page
