"""What the check of this machine reports."""

import pytest

from opscope.cli import doctor
from support.build_trace import build_trace, kernel


@pytest.mark.parametrize(("begins", "health"), [(30, "GOOD"), (12, "FATAL")])
def test_broken_rules_of_a_device_are_a_fault(monkeypatch, begins, health):
    work = [kernel("k", 10, 30, launch=0), kernel("l", begins, begins + 20, launch=0)]
    monkeypatch.setattr(doctor, "_record_trial", lambda: build_trace("a 0..100", gpu=work))
    found = [check for check in doctor._recording() if check.what == "devices"]
    assert [check.verdict for check in found] == [doctor.Health[health]]
