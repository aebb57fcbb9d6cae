from __future__ import annotations

import os
import time

import pytest

from portable.isolate import Worker, free_memory, run

T = "tests.isolate_targets:"
posix = pytest.mark.skipif(os.name != "posix", reason="signals and limits as POSIX has them")


@pytest.fixture(scope="module")
def worker():
    with Worker() as found:
        yield found


def test_a_value_comes_back_and_what_was_printed_is_kept(worker):
    done = worker.run(T + "add", 2, 3)
    assert (done.status, done.value, done.reason) == ("ok", 5, "")
    assert done.ok
    assert done.seconds > 0
    assert worker.run(T + "add", [1], [2]).value == [1, 2]


@pytest.mark.parametrize(
    ("target", "args", "status", "reason"),
    [
        ("raises", (), "exception", "ValueError: nope"),
        ("no_json", (), "exception", "not JSON"),
        ("system_exit", (), "exception", "SystemExit: 2"),
        ("missing", (), "exception", "AttributeError"),
        ("leave", (0,), "crash", "exit code 0"),
        ("leave", (3,), "crash", "exit code 3"),
        pytest.param("segfault", (), "crash", "SIGSEGV", marks=posix),
        pytest.param("abort", (), "crash", "SIGABRT", marks=posix),
        pytest.param("die_of_bad_alloc", (), "oom", "SIGABRT", marks=posix),
    ],
)
def test_every_way_to_fail_has_a_status_and_the_worker_goes_on(
    worker, target, args, status, reason
):
    done = worker.run(T + target, *args, timeout=30)
    assert done.status == status, done
    assert reason in done.reason
    assert done.value is None
    assert worker.run(T + "add", 1, 1).value == 2, "the next task runs"


def test_a_process_is_kept_until_it_dies():
    with Worker() as worker:
        first = worker.run(T + "pid").value
        assert worker.run(T + "raises").status == "exception"
        assert worker.run(T + "pid").value == first
        assert first != os.getpid()
        worker.run(T + "leave", 1)
        assert worker.run(T + "pid").value != first
        assert worker.starts == 2


def test_a_hang_is_killed_in_time():
    with Worker() as worker:
        worker.run(T + "add", 1, 1)
        done = worker.run(T + "hang", timeout=0.3)
        assert done.status == "hang"
        assert "0.3 s" in done.reason
        assert worker.run(T + "add", 1, 1).value == 2
        assert worker.starts == 2


@posix
def test_what_a_hanging_task_started_is_killed_too(tmp_path):
    file = tmp_path / "pid"
    with Worker() as worker:
        worker.run(T + "add", 1, 1)  # has started when its time begins
        done = worker.run(T + "hang_with_grandchild", str(file), timeout=5)
    assert done.status == "hang"
    grandchild = int(file.read_text())
    for _ in range(100):
        if not alive(grandchild):
            break
        time.sleep(0.05)
    assert not alive(grandchild)


def alive(pid):
    try:
        with open(f"/proc/{pid}/stat") as stat:  # noqa: PTH123
            return stat.read().split(")")[1].split()[0] != "Z"
    except FileNotFoundError:
        return False


@posix
def test_memory_has_a_limit():
    done = run(T + "eat_memory", memory=512 << 20)
    assert done.status == "oom", done
    assert "MemoryError" in done.reason


@pytest.mark.skipif(free_memory() is None, reason="needs /proc")
def test_resident_memory_is_watched():
    with Worker(resident=400 << 20) as worker:
        assert worker.run(T + "add", 1, 1).value == 2
        done = worker.run(T + "fill_memory", 1 << 30)
        assert done.status == "oom", done
        assert "GiB of memory, 0.391 are allowed" in done.reason
        assert worker.run(T + "fill_memory", 1 << 20).value == 1 << 20, "the next task runs"


def test_much_output_neither_blocks_nor_forges_a_reply(worker):
    assert worker.run(T + "flood", timeout=60).value == "done"
    assert worker.run(T + "write_to_the_reply_pipe").value == "true"


def test_environment_and_import_errors():
    assert run(T + "variable", "PORTABLE_X", environment={"PORTABLE_X": "7"}).value == "7"
    done = run("no_such_module_anywhere:f")
    assert done.status == "exception"
    assert "no_such_module_anywhere" in done.reason


def test_wrong_calls_are_refused_here():
    with Worker() as worker:
        with pytest.raises(ValueError, match="function' is needed"):
            worker.run("os.getpid")
        with pytest.raises(ValueError, match="not JSON"):
            worker.run(T + "add", object())
        assert worker.starts == 0
