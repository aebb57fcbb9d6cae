"""From a public function's call to a running kernel.

The warm path is one look-up: the key of a call (op, parameters, and a cheap key per array) finds
what runs it. Everything else happens on a miss, once per key: look at the arrays, bind the
problem, choose, compile, and join the conversions.
"""

from __future__ import annotations

import importlib
import threading
import warnings
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, NoReturn, Protocol, cast

from portable import arrays as arrays_
from portable import registry
from portable.arrays import KEYS, Inputs, Step
from portable.backend import Kernel, trait
from portable.errors import (
    ArgumentError,
    ParameterError,
    PortableError,
    ShapeError,
    UnknownNameError,
)
from portable.op import Op, Problem
from portable.settings import Settings, clear_plans, current, forget, fresh, intern, scope

if TYPE_CHECKING:
    from portable.selector import Candidate, Choice

Run = Callable[..., Any]


def call(op: Op, arrays: tuple[Any, ...], params: tuple[Any, ...]) -> Any:
    """Run an op on arrays in its operand order (None for an absent one).

    Raises:
        ArgumentError: the caller's mistake, the same whatever backend would have run.
        UnsupportedError, BackendMissingError: nobody (asked for) can run it.
    """
    settings = current.get()
    key = (op.name, params, *[KEYS[type(x)](x) for x in arrays])
    try:
        run = settings.plans.get(key)
    except TypeError:
        raise _unhashable(op, arrays, params, settings) from None
    if run is None:
        run = plan(op, arrays, params, settings, key)
    try:
        return run(*arrays)
    except Exception as error:
        return recover(op, arrays, params, settings, key, error)


def call_pair(op: Op, a: Any, b: Any) -> Any:
    """`call` for two operands and no parameters, without building lists: the shortest warm path."""
    settings = current.get()
    latest = settings.latest.get(op.name)
    if latest is not None and latest[0](a, b):
        run = latest[1]
    else:
        try:
            key = (op.name, (), KEYS[type(a)](a), KEYS[type(b)](b))
            run = settings.plans[key]
        except KeyError:
            return call(op, (a, b), ())
        matcher = settings.matchers.get(key) if settings.matchers else None
        if matcher is not None:
            settings.latest[op.name] = (matcher, run)
    try:
        return run(a, b)
    except Exception as error:
        key = (op.name, (), KEYS[type(a)](a), KEYS[type(b)](b))
        return recover(op, (a, b), (), settings, key, error)


def _unhashable(op: Op, arrays: tuple[Any, ...], params: Any, settings: Settings) -> Exception:
    """The error for a parameter that cannot be a key: the op's own words where it has some."""
    try:
        bind_problem(op, arrays, params, settings)
    except ArgumentError as error:
        return error
    return ParameterError(f"{op.name}: parameters must be plain values, got {params!r}")


@dataclass(frozen=True, slots=True)
class Plan:
    """A choice made ready for the caller's arrays.

    Attributes:
        choice: what runs, and why.
        inputs: what the arrays were.
        run: takes the call's arrays, absent ones included.
    """

    choice: Choice
    inputs: Inputs
    run: Run


_plans: dict[tuple[Settings, Any], Plan] = {}
_building: dict[Any, threading.RLock] = {}
_lock = threading.Lock()


def plan(op: Op, arrays: tuple[Any, ...], params: Any, settings: Settings, key: Any) -> Run:
    """What runs a call that was not seen before; built once, also when many threads ask."""
    if settings.observer is _CAPTURE:
        raise _Captured(op, arrays, params)
    with _lock:
        own = _building.setdefault((settings, key), threading.RLock())
    with own:
        run = settings.plans.get(key)
        if run is None:
            built = build(op, arrays, params, settings)
            _plans[settings, key] = built
            run = built.run
            if settings.observer is not None:
                run = settings.observer.watch(built)
            settings.plans[key] = run
            if settings.policy == "adaptive" and settings.observer is None:
                importlib.import_module("portable.adaptive").watch(built, settings, key)
            else:
                _keep_matcher(settings, op, key, arrays, built.inputs.family, run)
        with _lock:
            _building.pop((settings, key), None)
        return run


def drop(settings: Settings) -> None:
    """Forget a setting that will not come back, with its plans."""
    forget(settings)
    for pair in [p for p in _plans if p[0] is settings]:
        _plans.pop(pair, None)


def replace_plan(settings: Settings, key: Any, built: Plan) -> None:
    """Run a call by another plan from now on."""
    _plans[settings, key] = built
    settings.plans[key] = built.run


def _keep_matcher(
    settings: Settings, op: Op, key: Any, arrays: tuple[Any, ...], family: Any, run: Run
) -> None:
    """Where a family can compare a whole call at once, the latest plan of an op is tried so."""
    make = getattr(family, "matcher", None)
    if make is None or len(arrays) != 2 or key[1] != ():
        return
    matcher = make(arrays)
    if matcher is not None:
        settings.matchers[key] = matcher
        settings.latest[op.name] = (matcher, run)


def build(op: Op, arrays: tuple[Any, ...], params: Any, settings: Settings) -> Plan:
    """Look, bind, choose, compile and join the conversions."""
    inputs, problem = bind_problem(op, arrays, params, settings)
    if settings.policy == "tune" and not inputs.constraints:
        importlib.import_module("portable.tuning").tune_here(problem, inputs.device)
    from portable import selector

    choice = selector.choose(op, problem, inputs, settings)
    return Plan(choice, inputs, finish(choice.kernel, choice.candidate, inputs))


def finish(kernel: Kernel, candidate: Candidate, inputs: Inputs) -> Run:
    """What takes the arrays of a call, absent ones included, and runs a kernel on them."""
    run = join(kernel, candidate, inputs)
    present = tuple(i for i, spec in enumerate(inputs.specs) if spec is not None)
    return run if len(present) == len(inputs.specs) else _without_absent(run, present)


def bind_problem(
    op: Op, arrays: tuple[Any, ...], params: Any, settings: Settings
) -> tuple[Inputs, Problem]:
    """What the arrays are, and the problem they pose.

    Raises:
        ArgumentError: the caller's mistake.
    """
    names = op.operand_names
    inputs = arrays_.look_at(arrays, names)
    specs = {n: s for n, s in zip(names, inputs.specs, strict=True) if s is not None}
    problem = op.bind(specs, dict(zip(op.params, params, strict=True)))
    return inputs, replace(problem, precision=settings.precision)


def join(kernel: Kernel, candidate: Candidate, inputs: Inputs) -> Run:
    """The kernel between the steps that bring its arrays and take its results away."""
    route = candidate.route
    assert route is not None
    steps = [_chain(fix, route.take) for fix in inputs.fixes]
    if not any(steps) and route.give is None:
        return kernel
    give = route.give

    def run(*arrays: Any) -> Any:
        native = [s(x) if s else x for s, x in zip(steps, arrays, strict=True)]
        result = kernel(*native)
        if give is None:
            return result
        if isinstance(result, tuple):
            return tuple(give(r) for r in result)
        return give(result)

    return _on_callers_stream(run, candidate, inputs.family.name)


def _on_callers_stream(run: Run, candidate: Candidate, family: str) -> Run:
    """Arrays of another library on the device: the kernel queues where that library does, so that
    nobody waits for events between two streams and graphs can be captured."""
    backend = registry.backend(candidate.backend)
    on_stream_of = getattr(backend, "on_stream_of", None)
    device = candidate.device
    if on_stream_of is None or family in backend.families or device.id == "cpu":
        return run

    def on_stream(*arrays: Any) -> Any:
        with on_stream_of(family, device):
            return run(*arrays)

    return on_stream


def _chain(first: Step | None, second: Step | None) -> Step | None:
    if first is None or second is None:
        return first or second
    return lambda x: second(first(x))


def _without_absent(run: Run, present: tuple[int, ...]) -> Run:
    def compact(*arrays: Any) -> Any:
        return run(*[arrays[i] for i in present])

    return compact


def recover(
    op: Op, arrays: tuple[Any, ...], params: Any, settings: Settings, key: Any, error: Exception
) -> Any:
    """A kernel failed at run time: set it aside, warn once, let the next best take over.

    A backend that the caller asked for is never replaced: its error is raised. So is the error
    when nobody else can take over.
    """
    failed = _plans.get((settings, key))
    if failed is None or isinstance(error, ArgumentError):
        raise error
    choice = failed.choice
    if settings.backend is not None or "traceable" in failed.inputs.constraints:
        raise error
    if len(choice.candidates) < 2:
        raise error
    reason = f"{type(error).__name__}: {str(error).splitlines()[0] if str(error) else ''}"
    from portable import selector

    selector.set_aside(choice.candidate, choice.problem, reason)
    forget_plans(choice.candidate.name)
    try:
        run = plan(op, arrays, params, settings, key)
        result = run(*arrays)
    except Exception:
        raise error from None
    now = _plans[settings, key].choice.candidate.name
    warnings.warn(
        f"{choice.candidate.name} failed on {choice.problem} ({reason}); {now} takes over. "
        f"using(backend={choice.candidate.backend!r}) shows the error itself.",
        RuntimeWarning,
        stacklevel=4,
    )
    return result


def forget_plans(candidate: str | None = None) -> None:
    """Drop the plans that use a candidate, or all of them."""
    if candidate is None:
        clear_plans()
        _plans.clear()
        return
    for (settings, key), built in list(_plans.items()):
        if built.choice.candidate.name == candidate:
            settings.plans.pop(key, None)
            settings.matchers.pop(key, None)
            settings.latest.clear()
            _plans.pop((settings, key), None)


class _Captured(Exception):
    """Carries a public function's call to whoever asked for it instead of running it."""

    def __init__(self, op: Op, arrays: tuple[Any, ...], params: Any) -> None:
        super().__init__(op.name)
        self.op, self.arrays, self.params = op, arrays, params


_CAPTURE = object()


def captured(name: str, *args: Any, **kwargs: Any) -> tuple[Op, tuple[Any, ...], Any]:
    """Op, arrays and parameters that a call of the public function `name` would run with.

    Raises:
        UnknownNameError: no such op.
    """
    if name not in registry.op_names():
        raise UnknownNameError("op", name, registry.op_names())
    function = getattr(importlib.import_module(f"portable.ops.{name}"), name)
    asking = fresh(current.get(), observer=_CAPTURE)
    try:
        with scope(asking):
            function(*args, **kwargs)
    except _Captured as found:
        return found.op, found.arrays, found.params
    raise PortableError(f"portable.{name} did not reach the engine")  # pragma: no cover


class Bound(Protocol):
    """A callable for one signature; other arrays raise ShapeError.

    Attributes:
        choice: what runs, and why.
    """

    choice: Choice

    def __call__(self, *arrays: Any) -> Any:
        """Run on arrays like those that were bound."""


def bind(name: str, *args: Any, **kwargs: Any) -> Bound:
    """A callable for calls like this one, chosen and compiled now.

    It takes the arrays of the call in the op's operand order, absent ones as None; parameters
    are fixed. Same errors as the public function.
    """
    op, arrays, params = captured(name, *args, **kwargs)
    built = build(op, arrays, params, current.get())
    signatures = [(type(x), _signature(type(x), built), x) for x in arrays]
    checks = [(kind, read, read(x)) for kind, read, x in signatures]
    bound: Any
    if len(checks) != 2:
        bound = _bound_any(built, checks)
    elif all(_is_layout_free(kind, built) for kind, _, _ in checks):
        bound = _bound_layout_free_pair(built, *arrays)
    else:
        bound = _bound_pair(built, *checks)
    bound.choice = built.choice
    return cast(Bound, bound)


Check = tuple[type, Callable[[Any], Any], Any]
"""Type of an array, how to read its signature, and the signature that was bound."""


def _signature(kind: type, built: Plan) -> Callable[[Any], Any]:
    """What must stay equal: all of the key, or less where the kernel minds only shape and dtype."""
    family: Any = registry.family_of_type(kind)
    read: Callable[[Any], Any] = (
        family.shape_and_dtype if _is_layout_free(kind, built) else KEYS[kind]
    )
    return read


def _is_layout_free(kind: type, built: Plan) -> bool:
    candidate = built.choice.candidate
    own = candidate.route is not None and candidate.route.native == built.inputs.family.name
    return bool(
        own
        and candidate.implementation
        and trait(candidate.implementation, "LAYOUT_FREE", False)
        and hasattr(registry.family_of_type(kind), "shape_and_dtype")
    )


def _bound_layout_free_pair(built: Plan, one: Any, other: Any) -> Callable[[Any, Any], Any]:
    """The commonest bound call, with shape and dtype compared in place: 0.1 us less for torch."""
    run, kind_a, kind_b = built.run, type(one), type(other)
    shape_a, dtype_a, shape_b, dtype_b = one.shape, one.dtype, other.shape, other.dtype

    def bound(a: Any, b: Any) -> Any:
        if (
            type(a) is not kind_a
            or type(b) is not kind_b
            or a.shape != shape_a
            or b.shape != shape_b
            or (a.dtype is not dtype_a and a.dtype != dtype_a)
            or (b.dtype is not dtype_b and b.dtype != dtype_b)
        ):
            _refuse(built, (a, b))
        return run(a, b)

    return bound


def _bound_pair(built: Plan, first: Check, second: Check) -> Callable[[Any, Any], Any]:
    run, (kind_a, read_a, bound_a), (kind_b, read_b, bound_b) = built.run, first, second

    def bound(a: Any, b: Any) -> Any:
        if (
            type(a) is not kind_a
            or type(b) is not kind_b
            or read_a(a) != bound_a
            or read_b(b) != bound_b
        ):
            _refuse(built, (a, b))
        return run(a, b)

    return bound


def _bound_any(built: Plan, checks: list[Check]) -> Callable[..., Any]:
    run, count = built.run, len(checks)

    def bound(*arrays: Any) -> Any:
        if len(arrays) != count:
            _refuse(built, arrays)
        for (kind, read, signature), x in zip(checks, arrays, strict=True):
            if type(x) is not kind or read(x) != signature:
                _refuse(built, arrays)
        return run(*arrays)

    return bound


def _refuse(built: Plan, arrays: tuple[Any, ...]) -> NoReturn:
    given = ", ".join(str(getattr(x, "shape", type(x).__name__)) for x in arrays)
    raise ShapeError(
        f"bound for {built.choice.problem} of {built.inputs.family.name} arrays; these differ in "
        f"number, shape, dtype, strides or library: {given}. Bind again for them."
    )


def refresh_evidence() -> None:
    """New records: the next misses read them; plans that stand keep standing."""
    from portable import evidence

    evidence.forget_records()


def refresh() -> None:
    """Forget plans, evidence and device facts: backends, records or roofs have changed."""
    from portable import evidence, machine, selector

    forget_plans()
    KEYS.clear()
    evidence.forget()
    machine.forget()
    selector.heal()


__all__ = ["Bound", "Plan", "bind", "build", "call", "captured", "intern", "recover", "refresh"]
