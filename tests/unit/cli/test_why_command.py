"""``opscope why``: what the time went to, in every format."""

import csv
import io
import json

import pytest

from opscope.columns.schema import EventKind
from support.build_trace import build_trace, span

MS = 1_000


@pytest.fixture
def slow(tmp_path):
    """Steps that compute for 10 ms; in the third a collection takes 40 ms more."""
    spans, time = [], 0
    for step in range(5):
        took = 50 * MS if step == 2 else 10 * MS
        spans += [
            span(f"ProfilerStep#{step}", time, time + took),
            span("aten::mm", time, time + 10 * MS),
        ]
        if step == 2:
            spans.append(span("gc", time + 10 * MS, time + 50 * MS, kind=EventKind.GC_PAUSE))
        time += took
    spans.append(span("node", 30 * MS, 31 * MS, thread="autograd"))
    build_trace(sorted(spans, key=lambda one: one.start)).save(tmp_path / "slow.opscope")
    return tmp_path / "slow.opscope"


def test_text(command_line, slow):
    outcome = command_line("why", slow)
    assert outcome.code == 0
    lines = [line.rstrip() for line in outcome.out.splitlines()]
    assert lines[0].startswith("verdict: ")
    lines = lines[lines.index("") + 1 :]
    assert lines[0].startswith("Main thread (main); recording, 90.0 ms, 5 steps.")
    assert lines[2].split() == ["operators", "56%", "50.0", "ms", "10.0", "ms"]
    assert lines[3].split()[:4] == ["garbage", "collection", "44%", "40.0"]
    text = " ".join(lines)
    assert (
        "The slowest step, 2, took 50.0 ms, 5.0 times the median: 40.0 ms more of garbage" in text
    )
    assert "autograd: operators 1.1%." in text
    assert "Python functions were not recorded" in text
    assert "What to change" not in text  # one collection says nothing of how often they come


def test_every_format_says_the_same(command_line, slow):
    content = json.loads(command_line("why", slow, "--format", "json").out)
    assert content["wall_ns"] == 90_000_000
    assert [t["name"] for t in content["threads"]] == ["main", "autograd"]
    for thread in content["threads"]:
        assert sum(one["time_ns"] for one in thread["causes"]) == content["wall_ns"]
    third = content["steps"][2]
    assert third["causes"] == {"operator": 10_000_000, "collection": 40_000_000}
    assert content["findings"][0]["id"] == "garbage-collections"
    lines = command_line("why", slow, "--format", "md").out.splitlines()
    assert "| operators | 56% | 50.0 ms | 10.0 ms |  |" in lines
    rows = list(csv.DictReader(io.StringIO(command_line("why", slow, "--format", "csv").out)))
    assert rows[0]["cause"] == "operator"
    assert sum(int(row["time_ns"]) for row in rows if row["thread"] == "main") == 90_000_000


def test_a_trace_of_nothing_is_refused(command_line, tmp_path):
    build_trace("").save(tmp_path / "empty.opscope")
    assert "contains no events" in command_line("why", tmp_path / "empty.opscope").complaint
