"""A few random programs that count what they do; ``make torture`` runs them by the hour."""

import os

import pytest

pytest.importorskip("torch", reason="records operators")

from torture.left_out import KNOWN_FAULTS
from torture.runner import Asked, run


@pytest.mark.slow
@pytest.mark.skipif(
    "OPSCOPE_TORTURE" not in os.environ,
    reason="about one program in a hundred still fails; set OPSCOPE_TORTURE=1 to see",
)
@pytest.mark.parametrize("first", [0, 40])
def test_whatever_threads_do_each_window_holds_what_they_did_in_it(first: int):
    said: list[str] = []
    result = run(Asked(first, 3, 0, without=KNOWN_FAULTS), said.append)
    assert not result.findings, "\n".join(said)
    assert result.seeds == 3
    assert result.windows > 0 and result.events > 0
