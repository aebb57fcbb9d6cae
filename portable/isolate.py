"""Run a function in a child process with a watchdog: a crash there costs an outcome, not the app.

The function is named ("package.module:function") and takes and returns plain JSON data, so nothing
is pickled and the child imports exactly what it needs. What went wrong has a status:

    exception   it raised                       hang    it ran past its time and was killed
    oom         it ran out of memory            crash   the process died (signal, exit code)

A `Worker` keeps its child for the next task and starts a new one after a death; `run` is for one
task. Each child is a fresh interpreter (spawned, not forked): no threads or device contexts leak
into it.
"""

from __future__ import annotations

import contextlib
import importlib
import json
import os
import queue
import signal
import subprocess
import sys
import threading
import time
from collections import deque
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import IO, Any

from portable.measure import TOO_MUCH_MEMORY, classify

DEFAULT_TIMEOUT = 60.0
WATCH_SECONDS = 0.02
"""Between two looks at a child's memory."""
_MAX_REPLY = 64 << 20  # bytes


@dataclass(frozen=True, slots=True)
class Outcome:
    """What became of a task.

    Attributes:
        status: "ok", "exception", "crash", "hang" or "oom".
        reason: what happened, for people; "" when ok.
        value: what the function returned; None unless ok.
        seconds: from sending the task to its end [s].
        output: the last lines the child wrote to stdout and stderr during the task.
    """

    status: str
    reason: str = ""
    value: Any = None
    seconds: float = 0.0
    output: str = ""

    @property
    def ok(self) -> bool:
        """Whether the function returned."""
        return self.status == "ok"


def run(
    target: str,
    *args: Any,
    timeout: float = DEFAULT_TIMEOUT,
    memory: int | None = None,
    resident: int | None = None,
    environment: Mapping[str, str] | None = None,
) -> Outcome:
    """Call "module:function" with JSON arguments in a fresh process.

    Args:
        target: an importable function; it returns JSON data.
        args: JSON data.
        timeout: [s] including the child's start; then it is killed: "hang".
        memory: most data memory of the child [B], where the system can limit it (Linux); what a
            device driver reserves without using it counts.
        resident: most resident memory of the child [B], looked at every 20 ms where the system
            tells it (Linux); then it is killed: "oom".
        environment: variables to add to the child's.
    """
    with Worker(memory=memory, resident=resident, environment=environment) as worker:
        return worker.run(target, *args, timeout=timeout)


class Worker:
    """A child process that runs one task after another; replaced when it dies. Not thread-safe."""

    def __init__(
        self,
        *,
        memory: int | None = None,
        resident: int | None = None,
        environment: Mapping[str, str] | None = None,
    ) -> None:
        self.memory, self.resident = memory, resident
        self.environment = dict(environment or {})
        self.starts = 0
        """How many processes were started so far."""
        self._child: _Child | None = None

    def __enter__(self) -> Worker:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def run(self, target: str, *args: Any, timeout: float = DEFAULT_TIMEOUT) -> Outcome:
        """Call "module:function" with JSON arguments; see `run` for the limits.

        Raises:
            ValueError: the target has no ":" or the arguments are not JSON data.
        """
        if ":" not in target:
            raise ValueError(f"target is {target!r} ('package.module:function' is needed)")
        try:
            task = json.dumps({"target": target, "args": args})
        except TypeError as error:
            raise ValueError(f"arguments of {target} are not JSON data: {error}") from None
        if self._child is None:
            self._child = _Child(self.memory, self.resident, self.environment)
            self.starts += 1
        outcome = self._child.run(task, timeout)
        if not self._child.alive():
            self.close()
        return outcome

    def close(self) -> None:
        """End the child process."""
        if self._child is not None:
            self._child.kill()
            self._child = None


class _Child:
    """One process: tasks go in as JSON lines, replies come out on its original stdout."""

    def __init__(
        self, memory: int | None, resident: int | None, environment: Mapping[str, str]
    ) -> None:
        self.resident = resident
        # sys.path goes along, so that what the parent can import the child can import too.
        path = os.pathsep.join(p for p in sys.path if p)
        self.process = subprocess.Popen(
            [sys.executable, "-c", "from portable.isolate import serve; serve()", str(memory or 0)],
            stdin=subprocess.PIPE,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            env={**os.environ, "PYTHONPATH": path, **environment},
            start_new_session=True,
        )
        self.replies: queue.SimpleQueue[bytes] = queue.SimpleQueue()
        self.output: deque[str] = deque(maxlen=40)
        self.readers = [
            threading.Thread(target=reader, args=(pipe,), daemon=True)
            for reader, pipe in (
                (self._read_replies, self.process.stdout),
                (self._read_output, self.process.stderr),
            )
        ]
        for thread in self.readers:
            thread.start()

    def alive(self) -> bool:
        return self.process.poll() is None

    def run(self, task: str, timeout: float) -> Outcome:
        start = time.monotonic()
        self.output.clear()
        try:
            assert self.process.stdin is not None
            self.process.stdin.write(task.encode() + b"\n")
            self.process.stdin.flush()
            reply = self._reply(start + timeout)
        except queue.Empty:
            self.kill()
            return self._outcome("hang", f"no answer within {timeout:g} s", start)
        except _TooLarge as error:
            self.kill()
            return self._outcome("oom", str(error), start)
        except OSError:
            reply = b""
        if reply:
            with contextlib.suppress(ValueError, KeyError):
                data = json.loads(reply)
                return self._outcome(data["status"], data["reason"], start, data["value"])
        return self._died(start)

    def _reply(self, end: float) -> bytes:
        """The next reply; looks at the child's memory while it waits.

        Raises:
            queue.Empty: it is late.
            _TooLarge: the child takes more memory than it may.
        """
        while self.resident is not None and (left := end - time.monotonic()) > WATCH_SECONDS:
            with contextlib.suppress(queue.Empty):
                return self.replies.get(timeout=min(WATCH_SECONDS, left))
            used = resident_memory(self.process.pid)
            if used is not None and used > self.resident:
                raise _TooLarge(
                    f"took {used / (1 << 30):.3g} GiB of memory, {self.resident / (1 << 30):.3g} "
                    "are allowed"
                )
        return self.replies.get(timeout=max(end - time.monotonic(), 0.0))

    def _died(self, start: float) -> Outcome:
        with contextlib.suppress(subprocess.TimeoutExpired):
            self.process.wait(timeout=5.0)
        self.kill()
        for thread in self.readers:
            thread.join(timeout=5.0)
        code = self.process.returncode
        said = "\n".join(self.output)
        if any(mark in said for mark in TOO_MUCH_MEMORY) or "MemoryError" in said:
            return self._outcome("oom", f"ran out of memory and ended with {_ending(code)}", start)
        return self._outcome("crash", f"the process ended with {_ending(code)}", start)

    def _outcome(self, status: str, reason: str, start: float, value: Any = None) -> Outcome:
        seconds = time.monotonic() - start
        return Outcome(status, reason, value, seconds, "\n".join(self.output)[-4000:])

    def kill(self) -> None:
        """End the process and everything it started."""
        with contextlib.suppress(OSError):
            if hasattr(os, "killpg"):
                os.killpg(self.process.pid, signal.SIGKILL)
            else:
                self.process.kill()
        self.process.wait()
        for thread in self.readers:
            thread.join(timeout=5.0)
        for pipe in (self.process.stdin, self.process.stdout, self.process.stderr):
            if pipe is not None:
                with contextlib.suppress(OSError):
                    pipe.close()

    def _read_replies(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := pipe.readline(_MAX_REPLY):
                self.replies.put(line)
        self.replies.put(b"")  # the child is gone

    def _read_output(self, pipe: IO[bytes]) -> None:
        with contextlib.suppress(OSError, ValueError):
            while line := pipe.readline(10_000):
                self.output.append(line.decode(errors="replace").rstrip())


class _TooLarge(Exception):
    """The child takes more memory than it may."""


def resident_memory(pid: int) -> int | None:
    """Memory of a process that is not swapped out [B]; None where the system does not tell."""
    try:
        fields = Path(f"/proc/{pid}/statm").read_bytes().split()
        return int(fields[1]) * os.sysconf("SC_PAGE_SIZE")
    except (OSError, ValueError, IndexError, AttributeError):
        return None


def free_memory() -> int | None:
    """Memory that a new process can have [B], by the system and this container's limit; None
    where the system does not tell."""
    try:
        lines = Path("/proc/meminfo").read_text(encoding="ascii").splitlines()
        free = next(int(line.split()[1]) << 10 for line in lines if line.startswith("MemAvailable"))
    except (OSError, ValueError, IndexError, StopIteration):
        return None
    with contextlib.suppress(OSError, ValueError, StopIteration):  # "max" where there is no limit
        group = Path("/sys/fs/cgroup")
        limit = int((group / "memory.max").read_text(encoding="ascii"))
        used = int((group / "memory.current").read_text(encoding="ascii"))
        text = (group / "memory.stat").read_text(encoding="ascii")
        files = next(int(x.split()[1]) for x in text.splitlines() if x.startswith("file "))
        free = min(free, max(limit - (used - files), 0))  # cached files make way
    return free


def _ending(code: int | None) -> str:
    if code is None:
        return "no exit code"
    if code >= 0:
        return f"exit code {code}"
    try:
        name = signal.Signals(-code).name
    except ValueError:
        name = f"signal {-code}"
    if name == "SIGKILL":
        return "SIGKILL (often the system's out-of-memory killer)"
    return name


# --- the child's side --------------------------------------------------------------------------


def serve() -> None:
    """Answer tasks from stdin until it closes. What the task prints goes to stderr."""
    limit = int(sys.argv[1]) if len(sys.argv) > 1 else 0
    if limit:
        _limit_memory(limit)
    with os.fdopen(os.dup(1), "wb") as replies:
        os.dup2(2, 1)
        for line in sys.stdin.buffer:
            reply = json.dumps(_answer(json.loads(line)))
            sys.stdout.flush()
            sys.stderr.flush()
            replies.write(reply.encode() + b"\n")
            replies.flush()


def _answer(task: dict[str, Any]) -> dict[str, Any]:
    try:
        module, _, name = task["target"].partition(":")
        value = getattr(importlib.import_module(module), name)(*task["args"])
        json.dumps(value)
        return {"status": "ok", "reason": "", "value": value}
    except KeyboardInterrupt:
        raise
    except BaseException as error:
        status, reason = classify(error)
        return {"status": status, "reason": reason, "value": None}


def _limit_memory(limit: int) -> None:
    """Data memory, not address space: device drivers reserve far more space than they use."""
    with contextlib.suppress(ImportError, ValueError, OSError):
        import resource

        _, hard = resource.getrlimit(resource.RLIMIT_DATA)
        most = limit if hard == resource.RLIM_INFINITY else min(limit, hard)
        resource.setrlimit(resource.RLIMIT_DATA, (most, hard))
