from __future__ import annotations

import json
import math
from dataclasses import replace

import pytest
from hypothesis import given
from hypothesis import strategies as st

from portable import plain
from portable.device import Device, DeviceInfo
from portable.errors import RecordError
from portable.op import Problem, TensorSpec
from portable.records import (
    DeviceKey,
    Key,
    Record,
    machine,
    problem_from_json,
    problem_to_json,
    source_hash,
)
from tests.records.make import CPU, problem, record


def round_trip(r: Record) -> Record:
    return Record.from_json(plain.parse(plain.dump(r.to_json())))


def test_round_trip_keeps_everything_even_the_order_of_operands():
    p = Problem(
        "attention", 2, ("q", "k", "v", "mask"),
        (TensorSpec((1, 2, 3, 4), "bfloat16"), TensorSpec((1, 1, 5, 4), "bfloat16"),
         TensorSpec((1, 1, 5, 6), "bfloat16", (30, 30, 6, -1)), TensorSpec((), "bool", ())),
        (("causal", True), ("scale", 0.5)), (TensorSpec((1, 2, 3, 6), "bfloat16"),), "high",
    )  # fmt: skip
    assert round_trip(record(problem=p)) == record(problem=p)
    assert round_trip(record(status="crash", reason="SIGSEGV", samples=())).reason == "SIGSEGV"


def test_time_is_the_median_and_spread_is_robust():
    r = record(samples=(1.0, 2.0, 3.0, 4.0, 1000.0))
    assert r.time == 3.0
    assert r.spread == pytest.approx(1 / 3)
    assert record(samples=(2.0, 4.0)).time == 3.0
    assert record(samples=(5.0,)).spread == 0.0
    failed = record(samples=(), status="hang")
    assert failed.time == math.inf
    assert not failed.ok


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"status": "fine"}, "status is 'fine'"),
        ({"cache": "hot"}, "cache is 'hot'"),
        ({"samples": ()}, "needs samples"),
        ({"samples": (math.nan,)}, "sample nan"),
        ({"samples": (-1.0,)}, "sample -1.0"),
    ],
)
def test_a_record_that_says_nothing_is_refused(changes, message):
    with pytest.raises(RecordError, match=message):
        record(**changes)


def break_json(**changes):
    data = record().to_json()
    for path, value in changes.items():
        *outer, last = path.split("__")
        target = data
        for name in outer:
            target = target[int(name)] if name.isdigit() else target[name]
        if value is KeyError:
            del target[last]
        else:
            target[last] = value
    return data


@pytest.mark.parametrize(
    ("changes", "message"),
    [
        ({"surprise": 1}, "unknown fields 'surprise'"),
        ({"format": 99}, "format is 99"),
        ({"backend": 7}, "backend is 7"),
        ({"backend": "x" * 5000}, "5000 characters"),
        ({"samples": [1.0] * 10_001}, "10001 entries"),
        ({"samples": "abc"}, "samples is 'abc'"),
        ({"samples": [True]}, "sample is True"),
        ({"samples": [10**400]}, "finite number"),
        ({"samples": [-1]}, "sample -1.0"),
        ({"created": "yesterday"}, "ISO 8601"),
        ({"device__units": -1}, "units is -1"),
        ({"device__units": 2**70}, "units is"),
        ({"device__name": KeyError}, "name is None"),
        ({"device__serial": "1"}, "unknown fields 'serial'"),
        ({"config": {"a": [1]}}, "config.a"),
        ({"config": {str(i): i for i in range(300)}}, "300 entries"),
        ({"versions": {"numpy": 2}}, "numpy is 2|versions is 2"),
        ({"roofs": {"a": {"b": {"c": {"d": {"e": {}}}}}}}, "a number is needed"),
        ({"problem": []}, "problem is"),
        ({"problem__operands": []}, "no operands"),
        ({"problem__operands": [{"name": "a", "shape": [1], "dtype": "float3"}]}, "unknown dtype"),
        ({"problem__operands__0__shape": [-1]}, "has -1"),
        ({"problem__operands__0__shape": [1.5]}, "whole numbers"),
        ({"problem__operands__0__shape": [1] * 40}, "40 entries"),
        ({"problem__operands__1__strides": [1]}, "1 strides for 2 axes"),
        ({"problem__operands__1__name": "a"}, "there twice"),
        ({"problem__params": {"a": {"b": 1}}}, "no problem has"),
        ({"problem__precision": "low"}, "precision is 'low'"),
    ],
)
def test_data_from_others_is_checked(changes, message):
    with pytest.raises(RecordError, match=message):
        Record.from_json(break_json(**changes))


@pytest.mark.parametrize(
    "text",
    ["", "[]", "{", "[" * 100_000, '{"a": NaN}', '{"a": Infinity}', "null", '{"a": 1}' * 2,
     '{"a": "' + "x" * (1 << 21) + '"}'],
)  # fmt: skip
def test_text_that_is_no_object_is_refused(text):
    with pytest.raises(RecordError):
        plain.parse(text)


short = st.text(max_size=5)
json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | short,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(short, inner, max_size=3),
    max_leaves=8,
)
fields = st.sampled_from([*record().to_json()])


@given(fields, json_values)
def test_any_value_in_any_field_gives_a_record_or_a_record_error(field, value):
    data = {**json.loads(json.dumps(record().to_json())), field: value}
    try:
        found = Record.from_json(data)
    except RecordError:
        return
    assert round_trip(found) == found


@given(json_values)
def test_any_problem_gives_a_problem_or_a_record_error(value):
    data = value if isinstance(value, dict) else {"operands": value}
    with pytest.raises(RecordError):
        problem_from_json(data)


def test_problem_round_trip():
    p = problem()
    assert problem_from_json(problem_to_json(p)) == replace(p, params=tuple(sorted(p.params)))
    with pytest.raises(RecordError, match="cannot be stored"):
        problem_to_json(replace(p, params=(("f", object()),)))


KEY = record().key


@pytest.mark.parametrize(
    ("changes", "reason"),
    [
        ({"backend": "torch"}, "backend is 'numpy' (now 'torch')"),
        ({"runtime": "pocl"}, "runtime is '' (now 'pocl')"),
        ({"implementation": "x.y"}, "implementation is"),
        ({"cache": "cold"}, "cache is 'warm' (now 'cold')"),
        ({"method": "event"}, "method is 'wall'"),
        ({"config": {"block_m": 32}}, "config is"),
        ({"source_hash": "def"}, "source has changed"),
        ({"versions": {"numpy": "2.1"}}, "numpy was 2.0 (now 2.1)"),
        ({"versions": {"numpy": "2.0", "mkl": "1"}}, "mkl was unknown (now 1)"),
        ({"device": replace(CPU, name="Intel Xeon")}, "device name is"),
        ({"device": replace(CPU, units=1)}, "device units is 2 (now 1)"),
        ({"device": replace(CPU, driver="6.2")}, "device driver is '6.1' (now '6.2')"),
        ({"device": replace(CPU, architecture="zen4")}, "device architecture"),
        ({"problem": problem(9)}, "problem is"),
        ({"problem": problem(op="linear")}, "op is 'matmul'"),
        ({"problem": replace(problem(), version=2)}, "contract version of matmul is 1 (now 2)"),
        ({"problem": replace(problem(), precision="high")}, "precision is 'highest'"),
        ({"problem": problem(dtype="float16")}, "problem is"),
    ],
)
def test_a_key_forgets_nothing(changes, reason):
    assert record().mismatch(KEY) is None
    assert reason in record().mismatch(replace(KEY, **changes))


def test_empty_fields_of_a_key_match_anything():
    assert record().mismatch(Key(problem())) is None
    assert record().mismatch(replace(KEY, versions={"portable": "9"})) is None, "kept, not compared"
    assert record().mismatch(replace(KEY, device=replace(CPU, id="cpu:1"))) is None
    assert record().mismatch(replace(KEY, device=replace(CPU, hardware=""))) is None


def test_device_key_takes_what_the_driver_said():
    info = DeviceInfo("H200", architecture="sm_90", units=132, driver="550")
    found = DeviceKey.of(Device("cuda:0", info), "nvidia-h200-sxm")
    assert found == DeviceKey("cuda:0", "H200", "nvidia-h200-sxm", "sm_90", 132, "550")


def test_device_key_of_the_host_names_the_processor_whatever_the_library_says():
    import os

    keys = {
        DeviceKey.of(Device("cpu", DeviceInfo(name, kind="cpu", units=units), runtime))
        for name, units, runtime in [("x86_64", 64, ""), ("cpu-haswell", 2, "pocl"), ("CPU", 0, "")]
    }
    (key,) = keys
    assert key.name not in ("x86_64", "cpu-haswell", "CPU")
    assert 1 <= key.units <= (os.cpu_count() or 1)


def test_digest_is_of_the_content():
    assert record().digest == round_trip(record()).digest
    assert record().digest != record(reason="x").digest


def test_machine_is_a_stable_fingerprint_without_names():
    import platform

    assert machine() == machine()
    assert len(machine()) == 16
    assert platform.node() not in machine()


def test_source_hash_follows_the_sources(tmp_path, monkeypatch):
    import sys

    monkeypatch.syspath_prepend(tmp_path)
    (tmp_path / "kernel_one.py").write_text("SOURCES = ('k.cl',)\n")
    (tmp_path / "kernel_two.py").write_text("SOURCES = ('l.cl',)\n")
    (tmp_path / "k.cl").write_text("a")
    (tmp_path / "l.cl").write_text("b")
    import kernel_one
    import kernel_two

    first, second = source_hash(kernel_one), source_hash(kernel_two)
    assert len(first) == 16
    assert first != second
    assert source_hash(object()) == "", "builtins have no file"
    (tmp_path / "l.cl").unlink()
    from portable.records import source

    source._hash.cache_clear()
    assert source_hash(kernel_two) == "", "a missing source is no hash of the rest"
    for name in ("kernel_one", "kernel_two"):
        del sys.modules[name]
