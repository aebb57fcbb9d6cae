"""Every device whose runtime strings are known is found from a driver dump, and nothing else is."""

# ruff: noqa: E501  (tables of cases, one a line)
from __future__ import annotations

import json
from pathlib import Path

import pytest

import portable.hwdb as hwdb
from portable.device import DeviceInfo
from portable.errors import UnknownNameError
from portable.hwdb.detect import READERS, cpu_info, from_dump
from portable.hwdb.load import architecture_of, entries

DATA = Path(__file__).parent.parent / "data" / "devices"
RECORDS = {path.stem: json.loads(path.read_text()) for path in sorted(DATA.glob("*.json"))}
DUMPS = [
    pytest.param(key, record, dump, id=f"{key}-{n}")
    for key, record in RECORDS.items()
    for n, dump in enumerate(record["dumps"])
]


def info(name, **known):
    return DeviceInfo(name, **known)


@pytest.mark.parametrize(("key", "record", "dump"), DUMPS)
def test_dump_leads_to_its_entry(key, record, dump):
    seen = from_dump(dump["kind"], dump["dump"])
    spec = hwdb.find(seen)
    assert spec is not None, hwdb.explain(seen)
    assert spec.key == key == record["key"]
    assert record["origin"]
    if "units" in record:
        assert spec.units == record["units"]


def test_every_known_runtime_string_has_a_dump():
    for key, entry in entries().items():
        match = entry.get("match", {})
        if any(match.get(k) for k in ("names", "shared_names", "patterns")):
            assert key in RECORDS, f"{key} has runtime strings but no tests/data/devices/{key}.json"
        elif architecture_of(entry)["kind"] == "cpu":
            assert key in RECORDS, f"{key} has no recorded or constructed dump"


def test_all_entries_build_and_are_many():
    specs = hwdb.all_specs()
    assert len(specs) >= 129
    assert len({s.vendor for s in specs}) >= 15
    for spec in specs:
        assert spec.key == hwdb.get(spec.key).key
        assert all(v > 0 for v in spec.peaks.values())


@pytest.mark.parametrize(
    ("name", "known", "key"),
    [
        ("NVIDIA H100 80GB HBM3", {}, "nvidia-h100-sxm5-80gb"),
        ("NVIDIA GH200 480GB", {}, "nvidia-gh200-96gb"),
        ("TPU v5 lite", {"kind": "accelerator"}, "google-tpu-v5e"),
        ("AMD Instinct MI300X", {"architecture": "gfx942:sramecc+:xnack-"}, "amd-mi300x"),
        # the PCI id wins over a name that libdrm does not know
        ("AMD Radeon Graphics", {"pci_id": "1002:74a1", "units": 304}, "amd-mi300x"),
        ("AMD Radeon Graphics", {"pci_id": "1002:74a2", "units": 80}, "amd-mi308x"),
        ("AMD Radeon Graphics", {"pci_id": "1002:1586"}, "amd-radeon-8060s-strix-halo"),
        # old drivers leave the maker out
        ("A100-SXM4-40GB", {}, "nvidia-a100-sxm4-40gb"),
        ("H100 PCIe", {}, "nvidia-h100-pcie-80gb"),
        ("nvidia l40s", {}, "nvidia-l40s"),
        ("Radeon RX 7900 XTX", {"architecture": "gfx1100", "units": 96}, "amd-rx-7900-xtx"),
        ("AMD Instinct MI250X/MI250", {"units": 104}, "amd-mi250-gcd"),
        ("AMD Instinct MI250X/MI250", {"units": 110}, "amd-mi250x-gcd"),
        ("AMD Instinct MI250X", {"pci_id": "1002:7408"}, "amd-mi250x-gcd"),
        ("Intel(R) Data Center GPU Max 1550", {"units": 512}, "intel-max-1550-stack"),
        ("Intel(R) Data Center GPU Max 1550", {"units": 1024}, "intel-max-1550"),
        ("Orin", {"units": 16}, "nvidia-jetson-agx-orin-64gb"),
        ("NVIDIA H100 80GB HBM3 MIG 1g.10gb", {"units": 16}, "nvidia-h100-sxm5-80gb"),
    ],
)
def test_find(name, known, key):
    spec = hwdb.find(info(name, **known))
    assert spec is not None
    assert spec.key == key


# Prefixes and inner substrings of section 3 of the notes: each string its own entry, or none.
COLLISIONS = [
    ("NVIDIA A10", "nvidia-a10"), ("NVIDIA A10G", "nvidia-a10g"),
    ("NVIDIA A100-SXM4-40GB", "nvidia-a100-sxm4-40gb"), ("NVIDIA A100 80GB PCIe", "nvidia-a100-pcie-80gb"),
    ("NVIDIA A100-PCIE-40GB", "nvidia-a100-pcie-40gb"), ("NVIDIA A100-SXM4-80GB", "nvidia-a100-sxm4-80gb"),
    ("NVIDIA H20", "nvidia-h20-96gb"), ("NVIDIA H20-3e", "nvidia-h20-3e"), ("NVIDIA H200", "nvidia-h200-sxm"),
    ("NVIDIA H200 NVL", "nvidia-h200-nvl"), ("NVIDIA GH200 480GB", "nvidia-gh200-96gb"),
    ("NVIDIA H100 NVL", "nvidia-h100-nvl-94gb"), ("NVIDIA H100", None), ("NVIDIA GH200", None),
    ("NVIDIA L4", "nvidia-l4"), ("NVIDIA L40", "nvidia-l40"), ("NVIDIA L40S", "nvidia-l40s"), ("NVIDIA L20", "nvidia-l20"),
    ("NVIDIA B200", "nvidia-b200"), ("NVIDIA GB200", "nvidia-gb200"), ("NVIDIA B300 SXM6 AC", "nvidia-b300"),
    ("NVIDIA B300", None), ("NVIDIA GB300", "nvidia-gb300"), ("NVIDIA GB10", "nvidia-gb10-dgx-spark"),
    ("TPU v5", "google-tpu-v5p"), ("TPU v5p", "google-tpu-v5p"), ("TPU v5 lite", "google-tpu-v5e"),
    ("TPU v4", "google-tpu-v4"), ("TPU v4 lite", "google-tpu-v4i"), ("TPU v6 lite", "google-tpu-v6e"), ("TPU7x", "google-tpu-v7x"),
    ("Apple M1", "apple-m1-8c"), ("Apple M1 Max", "apple-m1-max-32c"), ("Apple M1 Pro", "apple-m1-pro-16c"),
    ("Apple M2 Ultra", "apple-m2-ultra-76c"), ("GAUDI2", "intel-gaudi2"), ("GAUDI3", "intel-gaudi3"),
    ("AMD Instinct MI300A", "amd-mi300a"), ("AMD Instinct MI300X", "amd-mi300x"),
    ("Ascend910B3", "huawei-ascend-910b3"), ("Ascend910B", None), ("Ascend910_9391", "huawei-ascend-910c"),
    ("Tesla V100-SXM2-16GB", "nvidia-v100-sxm2"), ("Tesla V100-PCIE-16GB", "nvidia-v100-pcie"),
    ("NVIDIA RTX 6000 Ada Generation", "nvidia-rtx-6000-ada"), ("NVIDIA RTX A6000", "nvidia-rtx-a6000"),
    ("NVIDIA GeForce RTX 4090", "nvidia-rtx-4090"), ("NVIDIA GeForce RTX 4090 D", None),
    ("NVIDIA GeForce RTX 5090", "nvidia-rtx-5090"), ("NVIDIA GeForce RTX 5090 D", None),
    ("NVIDIA GeForce RTX 3080 Ti", None), ("NVIDIA PG506-230", None), ("NVIDIA Z999", None), ("", None),
    ("AMD Radeon Graphics", None), ("AMD Instinct MI250X/MI250", None), ("Orin", None),
    ("Intel(R) Data Center GPU Max 1550", None), ("wormhole_b0", None),
]  # fmt: skip


@pytest.mark.parametrize(("name", "key"), COLLISIONS)
def test_name_collisions(name, key):
    spec = hwdb.find(info(name))
    assert (spec and spec.key) == key


def test_architecture_that_contradicts_the_name_is_no_match():
    assert hwdb.find(info("AMD Instinct MI300X", architecture="gfx90a")) is None
    assert hwdb.find(info("NVIDIA H100 80GB HBM3", architecture="sm_80")) is None
    assert hwdb.find(info("Orin", units=8, architecture="sm_87")) is None


def test_unknown_device_says_how_to_add_one():
    text = hwdb.explain(info("NVIDIA Z999"))
    assert "hwdb/devices" in text
    assert "no other chip's numbers" in text
    with pytest.raises(UnknownNameError, match="hwdb/devices"):
        hwdb.get("Z999")


def test_shared_string_says_what_is_missing():
    assert "105 to 110 units" in hwdb.explain(info("AMD Instinct MI250X/MI250"))
    assert "needs 16 units on sm_87" in hwdb.explain(info("Orin"))


@pytest.mark.parametrize(
    ("name", "key"),
    [
        ("H200 SXM", "nvidia-h200-sxm"), ("h100", "nvidia-h100-sxm5-80gb"), ("MI300X", "amd-mi300x"),
        ("TPU v5e", "google-tpu-v5e"), ("MI355X", "amd-mi355x"), ("B200", "nvidia-b200"), ("A100", "nvidia-a100-sxm4-80gb"),
        ("rtx 4090", "nvidia-rtx-4090"), ("RX 7900 XTX", "amd-rx-7900-xtx"), ("Arc A770", "intel-arc-a770"),
        ("Gaudi 3", "intel-gaudi3"), ("M1 Max", "apple-m1-max-32c"), ("EPYC 9555", "cpu-amd-zen5"), ("H20", "nvidia-h20-96gb"),
        ("MI250X", "amd-mi250x-oam"), ("MI250X GCD", "amd-mi250x-gcd"), ("nvidia-l4", "nvidia-l4"), ("Trainium2", "aws-trainium2"),
    ],
)  # fmt: skip
def test_get_by_usual_name(name, key):
    assert hwdb.get(name).key == key


def test_ambiguous_name_lists_the_choices():
    with pytest.raises(UnknownNameError, match="Several fit") as caught:
        hwdb.get("A100 SXM4")
    assert caught.value.known == ["nvidia-a100-sxm4-40gb", "nvidia-a100-sxm4-80gb"]


def test_get_unknown_offers_near_names():
    with pytest.raises(UnknownNameError, match="amd-mi300"):
        hwdb.get("MI300Y")


def test_runtime_units_scale_peaks_and_say_so():
    whole = hwdb.get("nvidia-h100-sxm5-80gb")
    part = hwdb.find(info("NVIDIA H100 80GB HBM3 MIG 1g.10gb", units=16))
    assert part.peaks["bfloat16/matrix"] == pytest.approx(whole.peaks["bfloat16/matrix"] * 16 / 132)
    assert "peaks" in part.estimated
    assert "16 of 132" in part.name
    aurora = hwdb.find(info("Intel(R) Data Center GPU Max 1550", units=448))
    # 56 cores x 256 FLOP per clock x 1.6 GHz
    assert aurora.peaks["float32/vector"] == pytest.approx(56 * 256 * 1.6e9, rel=0.01)


def test_runtimes_that_count_in_other_units():
    xtx = hwdb.find(info("AMD Radeon RX 7900 XTX", units=48, architecture="gfx1100"))
    assert xtx.units == 96
    assert "peaks" not in xtx.estimated


def test_capped_parts_are_never_scaled_or_derived():
    h20 = hwdb.find(info("NVIDIA H20", units=39))
    assert h20.peaks["bfloat16/matrix"] == 148e12
    assert "not scaled" in h20.notes[0]
    assert "float16/vector" not in h20.peaks


def test_bins_without_unit_count_are_flagged():
    assert "peaks" in hwdb.find(info("Apple M1 Max")).estimated
    small = hwdb.find(info("Apple M1 Max", units=24))
    assert small.peaks["float32/vector"] == pytest.approx(10.6e12 * 24 / 32)
    big = hwdb.find(info("Apple M3 Ultra", units=80))
    assert big.units == 80


@pytest.mark.parametrize(
    ("name", "kind", "chip", "share"),
    [
        ("TPU v2", "jax", "google-tpu-v2", 0.5),
        ("TPU v3", "jax", "google-tpu-v3", 0.5),
        ("TPU v4", "jax", "google-tpu-v4", 1.0),
        ("TPU v5p", "jax", "google-tpu-v5p", 1.0),
        ("TPU7x", "jax", "google-tpu-v7x", 0.5),
        ("NC_v3d", "jax", "aws-trainium2", 0.25),
        ("NC_v3", "jax", "aws-trainium2", 0.125),
        ("Ascend910_9391", "name", "huawei-ascend-910c", 0.5),
    ],
)
def test_one_runtime_device_may_be_a_share_of_the_chip(name, kind, chip, share):
    dump = {"device_kind": name, "platform": "tpu"} if kind == "jax" else {"name": name}
    spec, whole = hwdb.find(from_dump(kind, dump)), hwdb.get(chip)
    assert spec.peaks["bfloat16/matrix"] == pytest.approx(whole.peaks["bfloat16/matrix"] * share)
    assert spec.bandwidth == pytest.approx(whole.bandwidth * share)


def test_figures_that_are_not_stated_dense_are_no_roofs():
    for key in ("cerebras-wse3", "mthreads-s5000"):
        assert hwdb.get(key).peaks == {}


def test_clock_seen_scales_each_unit_by_its_own_clock():
    spec = hwdb.at_clock(hwdb.get("H100 SXM"), 1410e6)
    assert spec.peaks["bfloat16/matrix"] == pytest.approx(989.4e12 * 1410 / 1830)
    assert spec.peaks["float32/vector"] == pytest.approx(66.9e12 * 1410 / 1980)
    assert spec.peaks["float64/matrix"] == pytest.approx(66.9e12 * 1410 / 1980)
    with pytest.raises(ValueError, match="cannot scale"):
        hwdb.at_clock(hwdb.get("TPU v5e"), 1e9)


def test_memory_option_nearest_to_what_the_driver_shows():
    big = hwdb.find(info("Tesla V100-SXM2-32GB", memory_size=34_000_000_000))
    assert big.memory_size == 32_000_000_000


def test_names_agree_and_peak_is_the_best_legal_way():
    assert hwdb.get("V100").peak("bfloat16", "matrix") == hwdb.get("V100").peak("float32", "vector")
    mi250x = hwdb.get("MI250X GCD")
    assert mi250x.peak("float32", "vector") == 47.9e12  # packed
    spr = hwdb.get("Xeon Platinum 8480+")
    assert spr.peak("bfloat16", "vector") == spr.peak("float32", "vector")  # avx512_bf16 is slower


def test_this_machine():
    seen = cpu_info()
    assert seen.kind == "cpu"
    assert seen.units >= 1
    assert seen.memory_size > 0
    spec = hwdb.find(seen)
    if spec is None:  # a core type without an entry: then the way forward is told
        assert "hwdb" in hwdb.explain(seen)
    else:
        assert spec.peak("float32", "vector") > 1e10
        assert "peaks" in spec.estimated


def test_masked_epyc_is_zen5_with_an_honest_clock():
    record = RECORDS["cpu-amd-zen5"]["dumps"][0]
    spec = hwdb.find(from_dump("cpu", record["dump"]))
    assert spec.key == "cpu-amd-zen5"
    assert (
        spec.clock == 5.0e9
    )  # highest boost of the family, not the 2.6 GHz of the time-stamp counter
    assert spec.peak("float32", "vector") == 2 * 64 * 5.0e9
    assert spec.peak("bfloat16", "matrix") == 2 * 128 * 5.0e9
    assert spec.peak("float16", "vector") == spec.peak("float32", "vector")  # widened
    assert {"peaks", "bandwidth", "clock"} <= spec.estimated
    assert "upper limits" in spec.notes[0]


def test_named_part_uses_its_own_boost_and_threads_do_not_count():
    record = RECORDS["cpu-amd-zen4"]["dumps"][0]
    spec = hwdb.find(from_dump("cpu", record["dump"]))
    assert spec.clock == 3.7e9
    assert spec.units == 2  # two cores, four hardware threads
    assert spec.peak("float32", "vector") == 2 * 32 * 3.7e9  # AVX-512 does not double on Zen 4


def test_affinity_and_features_count():
    dump = dict(RECORDS["cpu-amd-zen4"]["dumps"][0]["dump"], affinity=[0, 1])
    dump["cpuinfo"] = dump["cpuinfo"].replace("avx512_bf16", "")
    spec = hwdb.find(from_dump("cpu", dump))
    assert spec.units == 1
    assert "bfloat16/vector" not in spec.peaks


def test_system_maximum_clock_counts_where_the_model_is_not_named():
    dump = dict(RECORDS["cpu-amd-zen5"]["dumps"][0]["dump"], max_khz=5_500_000)
    assert hwdb.find(from_dump("cpu", dump)).clock == 5.5e9


def test_a_processor_of_unknown_core_type_has_no_entry():
    text = "processor : 0\nvendor_id : GenuineIntel\ncpu family : 6\nmodel : 1\nmodel name : X\nflags : fma\n"
    assert hwdb.find(from_dump("cpu", {"cpuinfo": text})) is None


def test_arm_core_of_an_unknown_maker_is_not_guessed():
    dump = dict(RECORDS["cpu-aws-graviton4"]["dumps"][0]["dump"], board_vendor="Google")
    assert hwdb.find(from_dump("cpu", dump)) is None


def test_readers_of_dumps():
    with pytest.raises(ValueError, match="known: cpu, cupy"):
        from_dump("metal", {})
    assert set(READERS) >= {"torch", "cupy", "nvml", "rocminfo", "opencl", "jax", "xpu", "cpu"}
    cupy = from_dump(
        "cupy", {"name": b"NVIDIA H200", "major": 9, "minor": 0, "multiProcessorCount": 132}
    )
    assert (cupy.name, cupy.architecture, cupy.units) == ("NVIDIA H200", "sm_90", 132)
    nvml = from_dump(
        "nvml", {"name": "NVIDIA H200", "pciDeviceId": 0x233510DE, "maxSmClockMHz": 1980}
    )
    assert (nvml.pci_id, nvml.clock) == ("10de:2335", 1980e6)
    rocm = from_dump("torch", {"name": "AMD Instinct MI300X", "gcnArchName": "gfx942:sramecc+:xnack-",
                               "multi_processor_count": 304})  # fmt: skip
    assert (rocm.vendor, rocm.architecture) == ("AMD", "gfx942")
    amd = from_dump("opencl", {"NAME": "gfx942:sramecc+", "BOARD_NAME_AMD": "AMD Instinct MI300X",
                               "VENDOR": "Advanced Micro Devices, Inc.", "TYPE": "GPU", "MAX_COMPUTE_UNITS": 304})  # fmt: skip
    assert hwdb.find(amd).key == "amd-mi300x"
    pocl = from_dump("opencl", {"NAME": "cpu-znver5", "TYPE": "CPU", "MAX_COMPUTE_UNITS": 4})
    assert (pocl.kind, pocl.units) == ("cpu", 0)  # hardware threads are no cores
    gpu = from_dump(
        "jax",
        {"platform": "gpu", "device_kind": "NVIDIA H100 80GB HBM3", "compute_capability": "9.0"},
    )
    assert hwdb.find(gpu).key == "nvidia-h100-sxm5-80gb"
    assert from_dump("rocminfo", {"Marketing Name": "AMD EPYC", "Device Type": "CPU"}).kind == "cpu"
