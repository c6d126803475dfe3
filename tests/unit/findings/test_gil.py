"""Waiting for Python's lock."""

import pytest

from opscope.columns.codes import WaitsFor
from opscope.columns.schema import EventKind
from opscope.findings.find import find_findings
from support.build_trace import build_trace, span
from support.thread_samples import sampled

MS = 1_000
MAIN, OTHER = 1001, 1002


def waiting(
    waits_for=WaitsFor.GIL, other_ms=90, samples=True, delayed_ms=0, until_ms=10, within=()
):
    """An operator, 90 ms of waiting in a second one, and another thread meanwhile.

    Args:
        until_ms: the second operator begins then.
        within: further spans.
        delayed_ms: of the 90, what the first thread waited for a processor.
    """
    spans = [
        span("aten::mm", 0, 10 * MS),
        span("spin", 0, 101 * MS, "other"),
        span("aten::add", until_ms * MS, 101 * MS),
        *within,
    ]
    rows = [
        (MAIN, 0, 0, 0, WaitsFor.NOTHING),
        (MAIN, 10, 10, 0, WaitsFor.NOTHING),
        (MAIN, 50, 10, delayed_ms / 2, waits_for),
        (MAIN, 100, 10, delayed_ms, waits_for),
        (MAIN, 101, 11, delayed_ms, WaitsFor.NOTHING),
        (OTHER, 0, 0, 0, WaitsFor.NOTHING),
        (OTHER, 101, other_ms, 0, WaitsFor.NOTHING),
    ] * samples
    spans.sort(key=lambda one: one.start)
    return sampled(build_trace(spans), *((*row, 0, waits) for *row, waits in rows))


def found(trace):
    findings = find_findings(trace, which="all")
    return next((one for one in findings if one.id == "waiting-for-the-gil"), None)


def test_waits_are_saved_and_who_computed_meanwhile_is_named():
    finding = found(waiting())
    assert finding.saved_share == pytest.approx(90 / 101, abs=0.02)
    assert finding.events.tolist() == [2]
    assert "thread 1002 (other) computed 89% of the time" in finding.explanation


def test_the_line_is_that_of_the_thread_that_computes():
    call = {"kind": EventKind.PYTHON_CALL, "frame": ("page.py", 7, "render")}
    finding = found(waiting(within=[span("render", 1 * MS, 100 * MS, "other", **call)]))
    assert (finding.places[0].file, finding.places[0].function) == ("page.py", "render")


def test_a_wait_between_operators_is_that_of_the_next():
    """Without Python's calls nothing that was recorded runs there."""
    finding = found(waiting(until_ms=100))
    assert finding.saved_share == pytest.approx(90 / 101, abs=0.02)
    assert finding.events.tolist() == [2]


def test_a_wait_counts_as_far_as_another_thread_computes():
    """A thread that has the GIL and no CPU makes others wait on a busy machine only."""
    assert found(waiting(other_ms=1)) is None
    little = found(waiting(other_ms=9))
    assert little.saved_share == pytest.approx(9 / 101, abs=0.02)
    assert "(other)" not in little.explanation


def test_who_asks_for_the_lock_on_a_machine_that_is_not_busy_is_not_said_to_wait_for_a_processor():
    """It waits for one to ask for the lock again, so the kernel counts some of both."""
    trace = waiting(delayed_ms=60)
    assert find_findings(trace, which="all").waited_share == 0
    assert found(trace).saved_share == pytest.approx(90 / 101, abs=0.02)
    delayed = waiting(WaitsFor.NOTHING, delayed_ms=60)
    assert find_findings(delayed, which="all").waited_share > 0.5


@pytest.mark.parametrize("waits_for", [WaitsFor.LOCK, WaitsFor.TIMER])
def test_other_waits_are_not_for_the_lock(waits_for):
    assert found(waiting(waits_for)) is None


def test_without_samples_nothing_is_known_of_it():
    trace = waiting(samples=False)
    assert found(trace) is None
    findings = find_findings(trace, which="all")
    assert "waiting-for-the-gil" in [one.id for one in findings.unchecked]
    assert "waiting-for-the-gil" not in findings.absent
