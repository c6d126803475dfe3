"""What the kernel says of the thread that opens a window."""

from __future__ import annotations

import pytest

import opscope.recording.listeners as processor_time
from opscope.columns.ledger import COMPUTED, PROCESSOR, WAITED
from opscope.recording import ledger
from opscope.recording.decoded import Decoded
from opscope.recording.ledger import Recorded
from opscope.recording.listeners import ProcessorTime


def decoded():
    return Decoded({}, None, None)


@pytest.fixture
def counts(monkeypatch):
    """What the kernel answers, one after the other."""
    given = []
    monkeypatch.setattr(processor_time, "processor_counts", lambda thread: given.pop(0))
    return given


def test_the_difference_is_recorded_and_goes_to_the_ledger(counts):
    counts += [(1_000, 50), (4_000, 250)]
    listener = ProcessorTime()
    listener.begin()
    listener.before_end()
    found = listener.added_to(decoded())
    assert found.processor == {COMPUTED: 3_000, WAITED: 200}
    rows = list(ledger.processor(Recorded(found, {})))
    assert rows == [(PROCESSOR, COMPUTED, 3_000), (PROCESSOR, WAITED, 200)]


@pytest.mark.parametrize("answers", [[None, (1, 1)], [(1, 1), None]])
def test_a_kernel_that_does_not_count_records_nothing(counts, answers):
    counts += answers
    listener = ProcessorTime()
    listener.begin()
    listener.before_end()
    assert listener.added_to(decoded()).processor == {}


def test_what_the_kernel_writes_is_read(monkeypatch, tmp_path):
    file = tmp_path / "schedstat"
    file.write_text("878091 17 1\n")
    monkeypatch.setattr(
        processor_time, "open", lambda *_, **__: file.open(encoding="ascii"), raising=False
    )
    assert processor_time.processor_counts(1) == (878_091, 17)
    file.write_text("nothing\n")
    assert processor_time.processor_counts(1) is None
