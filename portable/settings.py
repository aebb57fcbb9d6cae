"""What `using(...)` asks for, and the plans built under it.

Settings are interned: equal wishes share one object and so one table of plans. The table is read
without a lock on every call.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterator
from contextvars import ContextVar
from dataclasses import dataclass, field, replace
from typing import Any

from portable.errors import UnknownNameError

POLICIES = ("auto", "tune", "adaptive")
PRECISIONS = ("highest", "high")

Plans = dict[Any, Callable[..., Any]]


@dataclass(frozen=True, slots=True)
class Settings:
    """The caller's wishes; None means "no wish".

    Attributes:
        backend: name of the only backend that may run ("opencl", or "opencl[intel]" for one of
            its runtimes).
        device: id of the only device that may run.
        policy: "auto" never measures inside a call; "tune" measures at first sight of a problem;
            "adaptive" spends a bounded share of calls on checking its beliefs.
        precision: "highest" or "high" (tf32, bf16x3 allowed).
        deterministic: only implementations that give the same bits every time.
        offload: data may be moved to another device for the call.
        choices: path of a frozen choice table, as written by `portable tune --freeze`.
        observer: called as observer(plan, arrays) instead of the plan, see `portable.profile`.
        plans: call key -> what runs it. Not part of a setting's identity.
        matchers: call key -> one quick check whether a call has this key, where a family has it.
        latest: op -> (matcher, plan) of its latest call, tried before the table.
    """

    backend: str | None = None
    device: str | None = None
    policy: str = "auto"
    precision: str = "highest"
    deterministic: bool = False
    offload: bool = False
    choices: str | None = None
    observer: Any = None
    plans: Plans = field(default_factory=dict, compare=False, hash=False, repr=False)
    matchers: Plans = field(default_factory=dict, compare=False, hash=False, repr=False)
    latest: dict[str, Any] = field(default_factory=dict, compare=False, hash=False, repr=False)

    def forget(self) -> None:
        """Drop every plan."""
        for table in (self.latest, self.matchers, self.plans):
            table.clear()

    def __post_init__(self) -> None:
        for kind, value, allowed in (
            ("policy", self.policy, POLICIES),
            ("precision", self.precision, PRECISIONS),
        ):
            if value not in allowed:
                raise UnknownNameError(kind, value, allowed)


def fresh(settings: Settings, **wishes: Any) -> Settings:
    """A setting with other wishes and tables of its own."""
    return replace(settings, plans={}, matchers={}, latest={}, **wishes)


_interned: dict[Settings, Settings] = {}
_lock = threading.Lock()


def intern(settings: Settings) -> Settings:
    """The one object for these wishes."""
    with _lock:
        return _interned.setdefault(settings, settings)


def forget(settings: Settings) -> None:
    """Drop an interned setting, with its plans (for settings that carry an observer)."""
    with _lock:
        _interned.pop(settings, None)


DEFAULT = intern(Settings())
current: ContextVar[Settings] = ContextVar("portable_settings", default=DEFAULT)


def clear_plans() -> None:
    """Forget every plan: new evidence, a backend that failed, a test."""
    with _lock:
        for settings in _interned:
            settings.forget()


@contextlib.contextmanager
def scope(settings: Settings) -> Iterator[Settings]:
    """Make settings the current ones inside a `with` block (per thread and async task)."""
    token = current.set(settings)
    try:
        yield settings
    finally:
        current.reset(token)


def changed(**wishes: Any) -> Settings:
    """The current settings with some wishes changed; None leaves a wish as it is."""
    given = {name: value for name, value in wishes.items() if value is not None}
    return intern(fresh(current.get(), **given))
