"""A few random programs that count what they do; ``make torture`` runs them by the hour."""

import os

import pytest

pytest.importorskip("torch", reason="records operators")

from torture.runner import Asked, run

PROGRAMS = 6


@pytest.mark.slow
@pytest.mark.skipif(
    "OPSCOPE_TORTURE" not in os.environ,
    reason="about one program in a hundred still fails; set OPSCOPE_TORTURE=1 to see",
)
def test_whatever_threads_do_each_window_holds_what_they_did_in_it():
    said: list[str] = []
    result = run(Asked(first=1, count=PROGRAMS, seconds=0), said.append)
    assert not result.findings, "\n".join(said)
    assert result.seeds == PROGRAMS
    assert result.windows > 0 and result.events > 0
