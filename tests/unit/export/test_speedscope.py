"""speedscope files: the schema's rules, and nothing lost."""

from __future__ import annotations

import json
from collections import Counter

from hypothesis import given, settings

from opscope.export.speedscope import speedscope_texts
from support.any_spans import ANY_SPANS
from support.build_trace import build_trace, kernel, span


def parsed(trace):
    return json.loads("".join(speedscope_texts(trace, "a name")))


def replayed(file, profile):
    """Closed frames as (name, from, to); asserts that events are in order and nest."""
    stack, closed, time = [], [], profile["startValue"]
    for event in profile["events"]:
        assert event["at"] >= time
        time = event["at"]
        if event["type"] == "O":
            stack.append((event["frame"], time))
        else:
            frame, start = stack.pop()
            assert frame == event["frame"]
            closed.append((file["shared"]["frames"][frame]["name"], start, time))
    assert stack == []
    assert time <= profile["endValue"]
    return closed


def test_threads_and_streams_are_profiles():
    file = parsed(
        build_trace(
            [span("step", 0, 10), span("aten::mm", 1, 3), ("work", 2, 4, "worker")],
            gpu=[kernel("gemm", 5, 7)],
        )
    )
    assert file["$schema"] == "https://www.speedscope.app/file-format-schema.json"
    assert file["name"] == "a name"
    assert [p["name"] for p in file["profiles"]] == ["main", "worker", "GPU 0 stream 7"]
    assert [replayed(file, p) for p in file["profiles"]] == [
        [("aten::mm", 1000, 3000), ("step", 0, 10_000)],
        [("work", 2000, 4000)],
        [("gemm", 5000, 7000)],
    ]


def test_names_are_data():
    file = parsed(build_trace([span('</script>"\x00', 0, 1)]))
    assert file["shared"]["frames"][0]["name"] == '</script>"\x00'


@settings(deadline=None)
@given(ANY_SPANS)
def test_no_span_is_lost(spans):
    file = parsed(build_trace(spans))
    found = Counter(frame for p in file["profiles"] for frame in replayed(file, p))
    origin = spans[0].start if spans else 0
    expected = Counter((s.name, (s.start - origin) * 1000, (s.end - origin) * 1000) for s in spans)
    assert found == expected
