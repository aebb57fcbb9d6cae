"""The conformance kit as pytest classes: a plugin's whole test file is two lines.

    from portable.testing import conformance_suite
    TestMine = conformance_suite("mine", level="full")

One test per op, dtype, device and level, so that `pytest -k matmul` or `-k "float16 and core"`
picks; a test fails with every case that is wrong. A backend that is not usable here fails too: in
CI a conformance test that skips itself proves nothing. Set `skip_missing = True` where machines
without the library run the same tests.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any, ClassVar

from portable.conformance.runner import Runnable

Group = tuple[str, str, str, str]
"""(op, dtype, candidate, level)."""


class ConformanceSuite:
    """Derive from it and name a backend; pytest does the rest.

    Attributes:
        backend: name of the backend, or of one runtime ("opencl[intel]").
        level: "core", "full" or "hostile".
        ops: names of ops; None: all that the backend lists.
        skip_missing: skip instead of fail where the backend is not usable.
    """

    backend: ClassVar[str] = ""
    level: ClassVar[str] = "core"
    ops: ClassVar[tuple[str, ...] | None] = None
    skip_missing: ClassVar[bool] = False

    def pytest_generate_tests(self, metafunc: Any) -> None:
        """One test per group of trials."""
        if "conformance_group" in metafunc.fixturenames:
            groups = sorted(_grouped(self._plan()))
            ids = ["-".join(part for part in group) for group in groups]
            metafunc.parametrize("conformance_group", groups, ids=ids)

    def test_contract(self) -> None:
        """The backend is usable and keeps the protocol."""
        from portable import registry
        from portable.conformance.contract import Contract

        self._skip_or_raise()
        outcome = Contract(registry.backend(self.backend.partition("[")[0])).run()
        assert not outcome.reasons, "; ".join(outcome.reasons)

    def test_conforms(self, conformance_group: Group) -> None:
        """All cases and probes of one op, dtype, candidate and level."""
        from portable.conformance import clocks

        outcomes = []
        try:
            for trial in _grouped(self._plan())[conformance_group]:
                outcomes.append(trial.run())
        finally:
            clocks.restore()
        failures = [
            f"{o.case} ({o.check}): {'; '.join(o.reasons)}"
            for o in outcomes
            if o.status == "failed"
        ]
        assert not failures, "\n".join(failures)

    def test_every_listed_op_runs(self) -> None:
        """At least one case of every op it lists is taken."""
        from portable.conformance.runner import uncovered

        self._skip_or_raise()
        outcomes, ran = [], set()
        for trial in self._plan():
            subject = trial.subject  # type: ignore[attr-defined]
            if (subject.candidate, subject.op.name) not in ran:
                outcomes.append(trial.run())
                if outcomes[-1].status != "refused":
                    ran.add((subject.candidate, subject.op.name))
        assert outcomes, f"backend {self.backend!r} has nothing to run"
        empty = uncovered(outcomes)
        assert not empty, "\n".join(f"{o.op}: {o.reasons[0]}" for o in empty)

    def _plan(self) -> list[Runnable]:
        from portable.conformance import plan
        from portable.errors import PortableError

        try:
            return plan(self.backend, ops=self.ops, level=self.level)[1:]
        except PortableError:
            return []  # test_contract tells

    def _skip_or_raise(self) -> None:
        import pytest

        from portable import registry
        from portable.errors import BackendMissingError

        try:
            registry.backend(self.backend.partition("[")[0])
        except BackendMissingError as error:
            if self.skip_missing:
                pytest.skip(str(error))
            raise


def _grouped(trials: Iterable[Any]) -> dict[Group, list[Any]]:
    found: dict[Group, list[Any]] = {}
    for trial in trials:
        subject = trial.subject
        key = (subject.op.name, trial.dtype, subject.candidate, trial.level)
        found.setdefault(key, []).append(trial)
    return found


def conformance_suite(
    backend: str,
    *,
    level: str = "core",
    ops: tuple[str, ...] | None = None,
    skip_missing: bool = False,
) -> type[ConformanceSuite]:
    """A ready test class for a backend; bind it to a name that starts with "Test"."""
    own = {"backend": backend, "level": level, "ops": ops, "skip_missing": skip_missing}
    return type("TestConformance", (ConformanceSuite,), own)


__all__ = ["ConformanceSuite", "conformance_suite"]
