"""Functions that fail in every way; run in child processes by test_isolate."""

from __future__ import annotations

import ctypes
import os
import sys
import time


def add(a, b):
    print("adding")
    return a + b


def pid():
    return os.getpid()


def variable(name):
    return os.environ.get(name)


def raises():
    raise ValueError("nope")


def no_json():
    return object()


def segfault():
    ctypes.string_at(0)


def abort():
    os.abort()


def leave(code):
    os._exit(code)


def system_exit():
    sys.exit(2)


def hang():
    import signal

    signal.signal(signal.SIGTERM, signal.SIG_IGN)
    while True:
        time.sleep(0.01)


def hang_with_grandchild(path):
    import subprocess

    child = subprocess.Popen([sys.executable, "-c", "import time; time.sleep(600)"])
    with open(path, "w") as file:  # noqa: PTH123
        file.write(str(child.pid))
    time.sleep(600)


def eat_memory():
    return len([bytearray(64 << 20) for _ in range(100)])


def fill_memory(size):
    hoard = [b"x" * min(size, 16 << 20) for _ in range(max(size >> 24, 1))]
    time.sleep(60 if size > 1 << 24 else 0)  # until it is killed
    return sum(map(len, hoard))


def die_of_bad_alloc():
    os.write(2, b"terminate called after throwing an instance of 'std::bad_alloc'\n")
    os.abort()


def flood():
    print("x" * 100 + "\n", end="", flush=True)
    for _ in range(20_000):
        print("y" * 100)
    return "done"


def write_to_the_reply_pipe():
    """What a careless native library does: writes to descriptor 1."""
    os.write(1, b'{"status": "ok", "reason": "", "value": "forged"}\n')
    return "true"
