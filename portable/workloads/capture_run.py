"""Runs a program under capture: `python -m portable.workloads.capture_run OUT NAME -- ...`.

What follows is as for python itself: `app.py args`, or `-m module args`. Calls of our own ops are
counted as such; the aten calls that they make inside are not counted again.
"""

from __future__ import annotations

import contextlib
import importlib.util
import runpy
import sys
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from portable.workloads.capture import Captured, capture
from portable.workloads.workload import save

if TYPE_CHECKING:
    from portable.profiling import Profile


def main(arguments: Sequence[str]) -> None:
    """Run the program, then write its workload, also when it ends with an exception."""
    out, name, dashes, *command = arguments
    assert dashes == "--"
    ending: BaseException | None = None
    with _capturing() as seen:
        try:
            _run(command)
        except (Exception, SystemExit, KeyboardInterrupt) as error:
            ending = error
    save(seen.workload(name), out)
    sys.stderr.write(f"matrix FLOPs of PyTorch calls with an op of ours: {seen.coverage:.1%}\n")
    if ending is not None:
        raise ending


def _run(command: Sequence[str]) -> None:
    if command[0] == "-m":
        sys.argv = list(command[1:])
        sys.path.insert(0, str(Path.cwd()))
        runpy.run_module(command[1], run_name="__main__", alter_sys=True)
    else:
        sys.argv = list(command)
        sys.path.insert(0, str(Path(command[0]).resolve().parent))
        runpy.run_path(command[0], run_name="__main__")


@contextmanager
def _capturing() -> Iterator[Captured]:
    from portable import profiling

    with contextlib.ExitStack() as stack:
        seen = Captured()
        if importlib.util.find_spec("torch") is not None:
            seen = stack.enter_context(capture())
        profile = stack.enter_context(profiling.profile())
        _silence(profile, seen)
        yield seen
        seen.add_problems([(row.problem, row.calls, row.time) for row in profile.rows])


def _silence(profile: Profile, seen: Captured) -> None:
    """Do not note the aten calls inside of our own ops."""
    watch = profile.watch

    def quiet_watch(plan: Any) -> Callable[..., Any]:
        timed = watch(plan)

        def quiet(*arrays: Any) -> Any:
            seen.paused += 1
            try:
                return timed(*arrays)
            finally:
                seen.paused -= 1

        return quiet

    profile.watch = quiet_watch  # type: ignore[method-assign]


if __name__ == "__main__":
    main(sys.argv[1:])
