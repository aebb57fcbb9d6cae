from __future__ import annotations

import gzip
import json

import pytest

from portable import plain
from portable.errors import RecordError
from portable.records import files as record_files
from portable.records import load_jsonl, merge, read_jsonl, summarize, write_jsonl
from tests.records.make import record


@pytest.mark.parametrize("name", ["r.jsonl", "r.jsonl.gz"])
def test_written_records_come_back(tmp_path, name):
    path = tmp_path / name
    assert write_jsonl(path, [record(1), record(2)]) == 2
    assert read_jsonl(path) == [record(1), record(2)]
    assert [p.name for p in tmp_path.iterdir()] == [name]


def test_a_bad_line_is_named_and_the_others_count(tmp_path):
    path = tmp_path / "r.jsonl"
    good = plain.dump(record(1).to_json())
    newer = json.dumps({**record(2).to_json(), "format": 9})
    lines = [good, "", "{", newer, good.replace("1", "2"),
             '{"a": "' + "x" * plain.MAX_LINE + '"}', good]  # fmt: skip
    path.write_text("\n".join(lines), encoding="utf-8")
    loaded = load_jsonl(path)
    assert [number for number, _ in loaded.errors][:2] == [3, 4]
    assert (6, f"longer than {plain.MAX_LINE} characters") in loaded.errors
    assert loaded.records[0] == record(1)
    assert loaded.records[-1] == record(1)
    with pytest.raises(RecordError, match=r"r.jsonl, line 3: not JSON.*more lines"):
        read_jsonl(path)


def test_files_that_are_no_record_files(tmp_path):
    binary = tmp_path / "b.jsonl"
    binary.write_bytes(b"\xff\xfe\x00" * 100)
    with pytest.raises(RecordError, match="no text file"):
        read_jsonl(binary)
    with pytest.raises(RecordError, match="cannot be read"):
        read_jsonl(tmp_path / "missing.jsonl")
    fake = tmp_path / "fake.jsonl.gz"
    fake.write_text("not gzip")
    with pytest.raises(RecordError, match="cannot be read"):
        read_jsonl(fake)
    cut = tmp_path / "cut.jsonl.gz"
    cut.write_bytes(gzip.compress(b'{"a": 1}\n' * 1000)[:-20])
    with pytest.raises(RecordError):
        read_jsonl(cut)
    prose = tmp_path / "prose.jsonl"
    prose.write_text("hello\n" * 2000)
    with pytest.raises(RecordError, match="is no record file"):
        load_jsonl(prose)


def test_a_line_without_end_is_not_read_into_memory(tmp_path, monkeypatch):
    monkeypatch.setattr(plain, "MAX_LINE", 100)
    path = tmp_path / "long.jsonl"
    path.write_text("x" * 10_000 + "\n{}\n")
    assert [number for number, _ in load_jsonl(path).errors] == [1, 2]
    monkeypatch.setattr(record_files, "MAX_LINES", 1)
    with pytest.raises(RecordError, match="more than 1 lines"):
        load_jsonl(path)


def test_a_write_that_fails_leaves_the_old_file(tmp_path):
    path = tmp_path / "r.jsonl"
    write_jsonl(path, [record(1)])

    def broken():
        yield record(2)
        raise OSError("disk full")

    with pytest.raises(RecordError, match="disk full"):
        write_jsonl(path, broken())
    assert read_jsonl(path) == [record(1)]
    assert len(list(tmp_path.iterdir())) == 1


def test_merge_keeps_each_record_once_in_order_of_time(tmp_path):
    late = record(1, created="2026-02-01T00:00:00+00:00")
    early = record(2, created="2026-01-01T00:00:00+00:00")
    write_jsonl(tmp_path / "a.jsonl", [late, early])
    write_jsonl(tmp_path / "b.jsonl", [early, record(3)])
    merged = merge([tmp_path / "a.jsonl", tmp_path / "b.jsonl"])
    assert merged == [early, record(3), late]


def test_summary():
    found = summarize([record(1), record(1), record(2, backend="torch", samples=(), status="oom")])
    assert found.records == 3
    assert found.duplicates == 1
    assert found.status == {"ok": 2, "oom": 1}
    assert found.backends == {"numpy": 2, "torch": 1}
    assert found.first == found.last == record().created
    assert summarize([]).records == 0
