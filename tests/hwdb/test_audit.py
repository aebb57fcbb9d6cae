"""The database passes its audit, and a planted error of each trap class is caught."""

# ruff: noqa: E501  (tables of cases, one a line)
from __future__ import annotations

import copy
import re

import pytest

from portable.hwdb import architectures
from portable.hwdb.audit import audit, audit_entry
from portable.hwdb.load import entries, merged
from portable.hwdb.tables import audit_rows, read_rows, row


def planted(key, **changes):
    """Open findings of an entry with some of its values replaced ("peak__matrix__bfloat16")."""
    entry = copy.deepcopy(entries()[key])
    for path, value in changes.items():
        *parents, last = path.split("__")
        table = entry
        for name in parents:
            table = table.setdefault(name, {})
        if value is None:
            table.pop(last)
        else:
            table[last] = value
    return [f for f in audit_entry(key, entry) if not f.admitted]


def test_audit_has_no_open_findings():
    assert [str(f) for f in audit() if not f.admitted] == []


def test_exceptions_are_admitted_with_reasons():
    admitted = [f for f in audit() if f.admitted]
    assert {f.key for f in admitted} >= {
        "nvidia-h100-nvl-94gb",
        "huawei-ascend-910b4",
        "nvidia-rtx-5090",
    }


# One planted error per trap class: entry, change, check that must catch it, words of the message.
TRAPS = [
    ("1 sparse as dense", "nvidia-h100-sxm5-80gb", {"peak__matrix__bfloat16": 1978.9e12}, "sparsity", "sparse"),
    ("2 same number, two meanings", "nvidia-h20-96gb", {"peak__matrix__bfloat16": 296e12}, "ladder", "float8/matrix / bfloat16"),
    ("3 accumulate type", "nvidia-rtx-4090", {"peak__matrix__bfloat16": 330.3e12}, "sparsity", "bfloat16"),
    ("3 accumulate type, halved", "nvidia-l40s", {"peak__matrix__float16": 181e12}, "rate", "accumulate"),
    ("4 boost for matrix clock", "nvidia-h100-sxm5-80gb", {"peak__matrix__float16": 1070e12}, "rate", "boost clock"),
    ("5 capped part derived", "nvidia-h20-96gb", {"peak__matrix__float16": 585e12}, "ladder", "float16"),
    ("6 ladder break", "amd-mi100", {"peak__matrix__bfloat16": 184.6e12}, "ladder", "bfloat16/matrix / float16"),
    ("7 dtype that vanished", "amd-mi355x", {"peak__matrix__tfloat32": 1258e12}, "missing", "tfloat32"),
    ("8 chip for device", "google-tpu-v3", {"match__share": None}, "granularity", "only part"),
    ("8 module for die", "amd-mi250x-gcd", {"peak__matrix__float16": 383e12}, "sparsity", "float16"),
    ("9 bins", "apple-m1-max-32c", {"compute__units": None}, "bins", "cannot scale"),
    ("9 shared string without range", "amd-mi250-gcd", {"match__units": None}, "bins", "no range"),
    ("10 clock that is the data rate", "nvidia-gb10-dgx-spark", {"memory__bandwidth": 546e9}, "bandwidth", "data rate"),
    ("10 MHz for Hz", "nvidia-a40", {"compute__clock": 1740.0}, "magnitude", "MHz"),
    ("11 name of another device", "nvidia-h200-sxm", {"match__names": ["NVIDIA H100 NVL"]}, "names", "leads to"),
    ("11 pattern without anchor", "nvidia-l4", {"match__patterns": [".*L4"]}, "names", "anchored"),
    ("12 GiB for GB, bandwidth", "nvidia-h100-sxm5-80gb", {"memory__bandwidth": 3352.3e9 * 1.024**3}, "bandwidth", "1024s"),
    ("12 GiB for GB, size", "amd-mi250x-gcd", {"memory__size": 60e9}, "capacity", "listed size"),
    ("13 vector column for matrix", "nvidia-h100-sxm5-80gb", {"peak__matrix__float16": 133.8e12}, "rate", "vector figure"),
    ("13 copied row", "amd-mi300a", {"peak__matrix__float16": 1307.4e12}, "rate", "float16"),
    ("14 measured ceiling for peak", "nvidia-v100-sxm2", {"memory__bandwidth": 700e9}, "measured", "exceeds its roof"),
    ("units 1000 times off", "nvidia-rtx-5090", {"memory__bandwidth": 1.792e15}, "magnitude", "bandwidth"),
    ("ridge", "nvidia-t4", {"memory__bandwidth": 16e9}, "ridge", "FLOP/B"),
    ("no source", "nvidia-t4", {"memory__source": None}, "fields", "no source"),
    ("not dense", "nvidia-b200", {"peak__sparsity": "2:4"}, "sparsity", "not dense"),
]  # fmt: skip


@pytest.mark.parametrize(
    ("trap", "key", "change", "check", "words"), TRAPS, ids=[t[0] for t in TRAPS]
)
def test_planted_error_is_caught(trap, key, change, check, words):
    found = planted(key, **change)
    assert any(f.check == check and words in f.message for f in found), [str(f) for f in found]


def test_planted_cpu_error_is_caught(monkeypatch):
    """Trap 15: AVX-512 on 256-bit pipes does not double the rate."""
    arch = copy.deepcopy(architectures()["cpu-zen4"])
    for rates in arch["core_rates"]:
        if rates["needs"] == ["avx512f"]:
            rates["float32"] = 64
    monkeypatch.setitem(architectures(), "cpu-zen4", arch)
    found = audit_entry("cpu-amd-zen4", entries()["cpu-amd-zen4"])
    assert any(f.check == "cpu" and "pipes" in f.message for f in found)


def test_planted_power_ceiling_stays_out_of_peaks():
    """Trap 14: what a power-limited card reaches is `measured`; as a peak it breaks the identity."""
    found = planted("nvidia-l40", peak__vector__float32=50.9e12)
    assert any(f.check == "rate" and "float32/vector" in f.message for f in found)


def test_an_admitted_exception_is_no_licence_for_another_error():
    found = planted("nvidia-h100-nvl-94gb", peak__matrix__float16=1671e12)
    assert any(f.check == "rate" for f in found)


def test_a_stale_exception_is_a_finding():
    found = planted("nvidia-a10g", peak__matrix__float16=63e12, peak__matrix__bfloat16=63e12)
    assert [f.check for f in found] == ["exceptions"]


def test_parents_merge_and_nearer_wins():
    assert merged({"a": {"x": 1, "y": 2}, "b": 1}, {"a": {"y": 3}}) == {
        "a": {"x": 1, "y": 3},
        "b": 1,
    }


FOREIGN = [
    ("NVIDIA H100 80GB HBM3", "bf16", 1979, "sparse number"),
    ("H100 SXM", "bf16", 1070, "boost clock"),
    ("H100 SXM", "fp16", 133.8, "vector figure"),
    ("H100 PCIe", "bf16", 1513, "float8 figure"),
    ("A100", "bf16", 156, "tfloat32 figure"),
    ("MI250X GCD", "bf16", 383, "amd-mi250x-oam"),
    ("RTX 4090", "fp16", 330.3, "float16 accumulate"),
    ("H20", "bf16", 296, "float8 figure"),
    ("Trainium2", "bf16", 2563, "sparse number (4"),
    ("MI350X", "bf16", 312, "default for unknown"),
    ("H100 NVL", "bf16", 989.4, "nvidia-h100-sxm5-80gb"),
    ("A10G", "bf16", 125, "nvidia-a10"),
    ("MI355X", "bf16", 2307, "amd-mi350x"),
    ("RTX 5090", "bandwidth", 1.792e15, "1000 times off"),
    ("H100 SXM", "bandwidth", 3352.3 * 1.024**3, "GiB"),
    ("GB10", "bandwidth", 546, "doubled again"),
    ("MI325X", "bandwidth", 5300, "amd-mi300x"),
    ("B200", "bandwidth", 8000, "launch figure"),
]


@pytest.mark.parametrize(("device", "dtype", "value", "words"), FOREIGN)
def test_foreign_row_is_told_its_likely_mistake(device, dtype, value, words):
    (verdict,) = audit_rows([row(device, dtype, value)])
    assert verdict.status == "wrong"
    assert any(words in m for m in verdict.mistakes), verdict


def test_right_and_unknown_foreign_rows():
    right, gone, unknown, odd = audit_rows([
        row("H100 SXM", "bf16", 989), row("V100", "bf16", 125), row("Z999", "bf16", 1), row("H100 SXM", "fp4", 9),
    ])  # fmt: skip
    assert right.status == "ok"
    assert gone.status == "unknown"
    assert "no bfloat16 matrix mode" in gone.mistakes[0]
    assert unknown.status == "unknown"
    assert odd.status == "unknown"


def test_files_of_foreign_tables(tmp_path):
    table = tmp_path / "peaks.csv"
    table.write_text("# a comment\ndevice,dtype,value\nH200,bf16,989.5\nL4,fp16,242\n")
    assert [v.status for v in audit_rows(read_rows(table))] == ["ok", "wrong"]
    table.write_text("device,dtype,value\nH200,bf16,many\n")
    with pytest.raises(ValueError, match=r"row 1.*no number"):
        read_rows(table)
    table.write_text("device,dtype\nH200,bf16\n")
    with pytest.raises(ValueError, match=re.escape("has no value")):
        read_rows(table)
    records = tmp_path / "peaks.json"
    records.write_text('[{"device": "H200", "dtype": "bf16", "value": 989.5}]')
    assert [v.status for v in audit_rows(read_rows(records))] == ["ok"]
