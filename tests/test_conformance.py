"""The conformance check: it must reject every wrong implementation, each for the right reason."""

from __future__ import annotations

import json

import pytest

from portable.conformance import conform
from portable.errors import UnknownNameError
from tests.fakes import Fake, FakeBackend, right_matmul
from tests.wrong.implementations import WRONG


@pytest.mark.parametrize("wrong", WRONG, ids=lambda w: w.name)
def test_wrong_implementations_are_rejected(backend, wrong):
    backend(FakeBackend("wrong", {wrong.op: wrong.implementation}))
    result = conform("wrong", level="hostile")
    assert not result.passed
    assert wrong.check in {o.check for o in result.failures}, result.failures[:3]


def test_a_right_implementation_passes(backend):
    backend(FakeBackend("right", {"matmul": Fake(right_matmul)}))
    result = conform("right", level="full")
    assert result.passed, str(result)
    assert "conforms at level full" in str(result)
    badge = json.loads(json.dumps(result.to_json()))
    assert badge["conforms"] is True
    assert badge["totals"]["passed"] > 100


def test_an_empty_or_refusing_backend_does_not_pass(backend):
    backend(FakeBackend("empty", {}))
    assert not conform("empty").passed
    backend(FakeBackend("refusing", {"matmul": Fake(right_matmul, refuse=["never"])}))
    result = conform("refusing")
    assert not result.passed
    assert result.to_json()["refusals"] == ["never"]


def test_unknown_names_raise():
    with pytest.raises(UnknownNameError, match="level"):
        conform("numpy", level="extreme")
    with pytest.raises(UnknownNameError, match="backend"):
        conform("nobody")
    with pytest.raises(UnknownNameError, match="op"):
        conform("numpy", ops=["matmull"])
