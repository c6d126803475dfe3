"""Windows of long traces: nothing is lost where spans are merged, and a narrow one has them all."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from opscope.api.trace import Trace
from opscope.columns.schema import EventKind
from opscope.errors import TraceFormatError
from opscope.report import windows
from opscope.report.windows import Windows
from opscope.storage.long_trace import LongTrace
from opscope.timeline.tree.frame_text import own_texts
from support.build_trace import Span, build_trace, span

NAMES = ("aten::mm", "aten::add", "step", "load", "wait")


def nested(random: np.random.Generator, begin: float, end: float, thread: str) -> list[Span]:
    """Spans one after the other, with others inside; most are short, some are long."""
    found, at = [], begin
    while at < end and len(found) < 60:
        at += random.exponential((end - begin) / 15)
        until = min(at + random.exponential((end - begin) / 15) ** 1.2, end)
        if at >= until:
            break
        found.append(span(str(random.choice(NAMES)), at, until, thread))
        if until - at > 2:
            found += nested(random, at, until, thread)
        at = until
    return found


@pytest.fixture(params=range(2))
def trace(request: pytest.FixtureRequest) -> Trace:
    random = np.random.default_rng(request.param)
    spans = [one for thread in ("main", "other") for one in nested(random, 0, 10_000, thread)]
    return build_trace(sorted(spans, key=lambda one: one.start))


@pytest.fixture
def opened(trace: Trace, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Windows:
    """Windows over the trace as if it were a long one: most spans are on disk only."""
    monkeypatch.setattr(windows, "_FINEST_PARTS", 20)
    monkeypatch.setattr(windows, "_MOST_UNMERGED", 0)
    trace.save(tmp_path / "trace")
    return Windows(LongTrace.at(tmp_path / "trace"))


def busy_ns(start: np.ndarray, end: np.ndarray) -> int:
    """The length of the union of intervals."""
    total, until = 0, -1
    for begin, stop in sorted(zip(start.tolist(), end.tolist(), strict=True)):
        total += max(stop - max(begin, until), 0)
        until = max(until, stop)
    return total


def test_merged_spans_cover_what_they_stand_for(opened: Windows, trace: Trace) -> None:
    events = trace.events
    whole = (opened.begin_ns, opened.end_ns + 1)
    for parts in (2000, 200, 20, 4):
        spans, least = opened.between(*whole, max((whole[1] - whole[0]) // parts, 1))
        outer = events["parent"] < 0
        stands = spans.parent < 0
        # Of outermost spans none is lost, and gaps that are closed are shorter than is seen.
        there = int(np.maximum(spans.merged[stands], 1).sum())
        assert there == int(outer.sum())
        for thread in np.unique(events["thread"]):
            of, by = events["thread"] == thread, spans.thread == thread
            start = events["start_ns"][of]
            true = busy_ns(start, start + np.maximum(events["duration_ns"][of], 0))
            shown = busy_ns(spans.start_ns[by], spans.end_ns[by])
            assert true <= shown <= true + 2 * least * len(spans)


def test_long_spans_stay_themselves(opened: Windows, trace: Trace) -> None:
    least = opened.least_ns
    spans, _ = opened.between(opened.begin_ns, opened.end_ns + 1, least)
    long = np.flatnonzero(trace.events["duration_ns"] >= least)
    kept = spans.take(spans.row >= 0)
    assert sorted(kept.row.tolist()) == long.tolist()
    assert np.array_equal(kept.start_ns, trace.events["start_ns"][kept.row])
    assert np.array_equal(kept.name, trace.events["name"][kept.row])


def test_a_narrow_window_has_all_that_ran_then(
    opened: Windows, trace: Trace, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(windows, "_MOST_UNMERGED", 10_000)
    start = trace.events["start_ns"]
    end = start + np.maximum(trace.events["duration_ns"], 0)
    for share in (0.1, 0.5, 0.8):
        begin_ns = int(opened.begin_ns + share * (opened.end_ns - opened.begin_ns))
        end_ns = begin_ns + opened.least_ns // 2
        spans, least = opened.between(begin_ns, end_ns, 0)
        assert least == 0
        assert not spans.merged.any()
        expected = np.flatnonzero((end > begin_ns) & (start < end_ns))
        assert sorted(spans.row.tolist()) == expected.tolist()
        shown = opened.trace_of(spans)
        assert len(shown.events) == len(spans)


def test_every_occurrence_of_a_name_is_counted_and_found(opened: Windows, trace: Trace) -> None:
    names = trace.events["name"]
    for name in np.unique(names[names >= 0])[:5]:
        rows = np.flatnonzero(names == name)
        label = np.array([name], dtype=np.int64)
        assert opened.occurrences.count[name] == len(rows)
        moment, seen = opened.begin_ns - 1, []
        for _ in range(len(np.unique(trace.events["start_ns"][rows]))):
            found = opened.next_of(label, moment)
            assert found is not None
            moment = found[0]
            seen.append(moment)
        assert seen == np.unique(trace.events["start_ns"][rows]).tolist()
        again = opened.next_of(label, moment)
        assert again is not None
        assert again[0] == seen[0]  # from the first one on
        before = opened.next_of(label, seen[0], backwards=True)
        assert before is not None
        assert before[0] == seen[-1]


def test_frames_of_python_calls_are_read_with_their_spans(tmp_path: Path) -> None:
    frames = [("a.py", line, f"f{line}") for line in (1, 2, 3)]
    kind = EventKind.PYTHON_CALL
    trace = build_trace([span("f", i, i + 0.5, kind=kind, frame=frames[i % 3]) for i in range(300)])
    assert len(trace.table("frames")) == 3
    trace.save(tmp_path / "trace")
    opened = Windows(LongTrace.at(tmp_path / "trace"))
    assert opened.spans == 300
    found, _ = opened.between(opened.begin_ns, opened.end_ns + 1, 1)
    assert np.array_equal(found.frame, frames_of(trace))
    assert opened.occurrences.count.sum() == 300


def test_a_search_finds_all_that_the_page_shows_by_that_text(tmp_path: Path) -> None:
    kind = EventKind.MODULE_CALL
    calls = [
        span(f"Linear_{i % 3}", i, i + 0.5, kind=kind, module=f"Linear_{i % 3}") for i in range(9)
    ]
    trace = build_trace([*calls, span("aten::mm", 9, 10)])
    names, modules = trace.names, trace.table("modules")
    paths = {"path": np.full(len(modules), names.find("aten::mm"), dtype=np.int32)}
    trace = trace.with_tables({"modules": modules.replaced(paths)})
    trace.save(tmp_path / "trace")
    opened = Windows(LongTrace.at(tmp_path / "trace"))
    label, texts = own_texts(trace)
    assert "aten::mm (Linear)" in texts
    for number, text in enumerate(texts):
        found = opened.find(lambda all_, text=text: np.array([one == text for one in all_]), 0)
        assert found.count == np.count_nonzero(label == number)


def frames_of(trace: Trace) -> np.ndarray:
    frame = np.full(len(trace.events), -1)
    frame[trace.table("python_calls")["event"]] = trace.table("python_calls")["frame"]
    return frame


def test_a_trace_that_was_replaced_meanwhile_is_not_mixed_with_the_new_one(
    trace: Trace, opened: Windows, tmp_path: Path
) -> None:
    names = trace.with_tables(
        {"events": trace.events.replaced({"name": trace.events["name"][::-1]})}
    )
    names.save(tmp_path / "trace")
    with pytest.raises(TraceFormatError, match="was replaced or removed"):
        opened.window(opened.begin_ns, opened.begin_ns + 100_000, 0)
