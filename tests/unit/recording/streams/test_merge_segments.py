"""Allocations of rows whose event lies in an earlier segment, or that no event surrounds."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Any

from opscope.columns.codes import Role
from opscope.columns.schema import TABLES
from opscope.columns.table import Table
from opscope.recording.streams.merge_segments import allocation_ids


@dataclass
class Segment:
    """As ``RecordingSegment``, in memory."""

    number: int
    first_event: int
    tables: dict[str, dict[str, Any]]

    @property
    def folder(self):
        return Path(f"{self.number:06d}")

    @property
    def rows(self):
        return {name: len(self.table(name)) for name in self.tables}

    def table(self, name):
        return Table(TABLES[name], self.tables.get(name, {}))

    def account(self):
        return {"end_ns": 90}


def test_results_of_an_earlier_event_are_of_the_memory_that_was_theirs():
    computes = {"start_ns": [10], "duration_ns": [70], "parent": [-1]}
    memory = {"time_ns": [20, 60], "address": [5, 5], "size_bytes": [8, -8], "action": [0, 1]}
    again = {"time_ns": [70], "address": [5], "size_bytes": [8], "action": [0]}
    result = {"event": [0], "role": [Role.OUTPUT], "impl": [1], "storage": [5]}
    first = Segment(0, 0, {"events": computes, "allocations": memory})
    second = Segment(1, 1, {"allocations": again, "tensors": result})
    # One without events begins at the same event as the one after it.
    freed = {"time_ns": [95, 96], "address": [5, 7], "size_bytes": [-8, -8], "action": [1, 1]}
    third = Segment(2, 1, {"allocations": freed})
    found = allocation_ids([first, second, third])
    first_ids, second_ids, third_ids = (
        found.of["allocations", one.folder].tolist() for one in (first, second, third)
    )
    assert (first_ids, second_ids, third_ids) == ([1, 1], [2], [2, 3])
    assert found.of["tensors", second.folder].tolist() == [2]  # seen when this one had begun
    assert found.unreported_frees == 0


def test_a_recording_without_memory_has_none():
    assert allocation_ids([Segment(0, 0, {})]).of == {}
