"""What the machine's clocks did while something was recorded is said; how times are then, natively.

``native/tests/test_window_clock.cpp`` feeds clocks that jump and are set.
"""

import pytest
from tests.support.recorded import record

from opscope import _native
from opscope.cli.views.completeness import describe_completeness

torch = pytest.importorskip("torch", reason="records a program of torch's")


def test_clocks_that_do_as_they_should_are_not_mentioned():
    trace = record(lambda: torch.ones(2))
    assert "clock" not in trace.ledger
    assert "CLOCK" not in describe_completeness(trace)


def test_clocks_that_jump_or_are_set_are_in_the_ledger(monkeypatch):
    decode = _native.decode
    clocks = {"clock_jumped_ns": -3_000_000_000, "clock_set_by_ns": 5_000_000}

    def told(*arguments):
        window = decode(*arguments)
        return {**window, "account": {**window["account"], **clocks}}

    monkeypatch.setattr(_native, "decode", told)
    trace = record(lambda: torch.ones(2))
    assert trace.ledger["clock"] == {
        "jumped during the recording, so times are wrong; by ns": -3e9,
        "was set during the recording; forward by ns": 5e6,
    }
    said = describe_completeness(trace)
    assert "the CLOCK jumped during the recording, so times are wrong; by ns: -3,000,0" in said
    assert "the CLOCK was set during the recording; forward by ns: 5,000,000" in said
