"""Writers that are killed at random moments; run as
`python -m tests.records.killed_writers FILE ROUNDS SEED SECONDS`.

Every round forks 8 writers on one file. Each commits records one by one and acknowledges each
commit on a pipe; after a random time all are killed with SIGKILL. At the end everything that was
acknowledged must be there, and the file must be sound. Prints a summary as JSON.
"""

from __future__ import annotations

import json
import os
import random
import signal
import sqlite3
import sys
import time

from portable.records import Store
from tests.records.make import record

WRITERS = 8


def writer(location: str, number: int, acknowledge: int) -> None:
    store = Store(location)
    count = 0
    while True:
        store.add([record(number, reason=str(count))])
        os.write(acknowledge, f"{number} {count}\n".encode())
        count += 1


def one_round(location: str, first: int, delay: float) -> list[str]:
    read, write = os.pipe()
    children = []
    for number in range(first, first + WRITERS):
        pid = os.fork()
        if pid == 0:
            os.close(read)
            try:
                writer(location, number, write)
            finally:
                os._exit(9)
        children.append(pid)
    os.close(write)
    time.sleep(delay)
    for pid in children:
        os.kill(pid, signal.SIGKILL)
    with os.fdopen(read) as pipe:
        said = pipe.read().splitlines(keepends=True)
    died = [os.waitpid(pid, 0)[1] for pid in children]
    assert all(os.WTERMSIG(status) == signal.SIGKILL for status in died), died
    return [line.strip() for line in said if line.endswith("\n")]


def main(location: str, rounds: int, seed: int, seconds: float) -> None:
    rng = random.Random(seed)
    acknowledged: list[str] = []
    done, start = 0, time.monotonic()
    while done < rounds and time.monotonic() - start < seconds:
        i, done = done, done + 1
        acknowledged += one_round(location, i * WRITERS, rng.uniform(0.002, 0.05))
    found = Store(location)
    there = {f"{r.problem.tensors[0].shape[0]} {r.reason}" for r in found.records()}
    found.close()
    sound = sqlite3.connect(location).execute("PRAGMA integrity_check").fetchone()[0]
    lost = [line for line in acknowledged if line not in there]
    print(json.dumps({"acknowledged": len(acknowledged), "there": len(there),
                      "lost": len(lost), "sound": sound, "rounds": done}))  # fmt: skip


if __name__ == "__main__":
    main(sys.argv[1], int(sys.argv[2]), int(sys.argv[3]), float(sys.argv[4]))
