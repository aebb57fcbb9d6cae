"""Records: what was measured, under which circumstances, and where it is kept."""

from __future__ import annotations

from portable.records.machine import machine
from portable.records.problem_json import problem_from_json, problem_to_json
from portable.records.record import FORMAT, STATUSES, DeviceKey, Key, Record
from portable.records.source import source_hash
from portable.records.store import Store, default_store

__all__ = [
    "FORMAT",
    "STATUSES",
    "DeviceKey",
    "Key",
    "Record",
    "Store",
    "default_store",
    "machine",
    "problem_from_json",
    "problem_to_json",
    "source_hash",
]
