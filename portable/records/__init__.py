"""Records: what was measured, under which circumstances, and where it is kept."""

from __future__ import annotations

from portable.records.files import (
    Loaded,
    Summary,
    load_jsonl,
    merge,
    read_jsonl,
    summarize,
    write_jsonl,
)
from portable.records.machine import machine
from portable.records.problem_json import problem_from_json, problem_to_json
from portable.records.record import FORMAT, STATUSES, DeviceKey, Key, Record
from portable.records.source import source_hash
from portable.records.store import Store, StoreWarning, default_store

__all__ = [
    "FORMAT",
    "STATUSES",
    "DeviceKey",
    "Key",
    "Loaded",
    "Record",
    "Store",
    "StoreWarning",
    "Summary",
    "default_store",
    "load_jsonl",
    "machine",
    "merge",
    "problem_from_json",
    "problem_to_json",
    "read_jsonl",
    "source_hash",
    "summarize",
    "write_jsonl",
]
