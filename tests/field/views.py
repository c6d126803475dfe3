"""Do the views of one recording agree? ``python views.py TRACE``: how often each operator ran, as
JSON, by the query, the summary, the file for Chrome and the answers for agents."""

from __future__ import annotations

import contextlib
import io
import json
import sys
import tempfile
from collections import Counter
from pathlib import Path

import numpy as np

import opscope
from opscope.cli import main
from opscope.readers.answers import answers_of

MOST_EVENTS = 300_000
"""Of a larger recording only the query is asked: the views would take minutes."""


def counts_by_view(path: str) -> dict[str, dict[str, int]]:
    """By view, how often each operator ran."""
    trace = opscope.load(path)
    query = trace.sql(
        "select name, count(*) from named_events where kind = 'operator' group by name"
    )
    views = {"query": {str(name): int(count) for name, count in query.fetchall()}}
    if len(trace.events) > MOST_EVENTS:
        return views
    views["once"] = dict(Counter(views["query"]) - _folded(trace))
    views["summary"] = _summary(path, "all")
    views["chrome"] = _chrome(trace)
    # Both of the same part of the recording.
    asked = answers_of(trace, path).query("select name, calls from operators")
    views["agents"] = dict(zip(*asked.to_pydict().values(), strict=True))
    views["steady"] = _summary(path, "steady")
    return views


def disagreements(views: dict[str, dict[str, int]]) -> list[str]:
    """Operators that views count differently."""
    operators = views["query"]
    compared = [("once", "summary"), ("query", "chrome"), ("steady", "agents")]
    return [
        f"{name}: {one} {views[one].get(name, 0)}, {other} {views[other].get(name, 0)}"
        for one, other in compared
        if other in views
        for name in sorted(operators)
        if views[one].get(name, 0) != views[other].get(name, 0)
    ]


def _summary(path: str, period: str) -> dict[str, int]:
    said = io.StringIO()
    with contextlib.redirect_stdout(said):
        main(["summary", path, "--format", "json", "--row-limit", "-1", "--period", period])
    content = json.loads(said.getvalue())
    return {row["name"]: row["calls"] for row in [*content["rows"], *content["waiting"]]}


def _folded(trace: opscope.Trace) -> Counter[str]:
    """Calls by an operator of the same name that calls nothing else: summaries show both as one."""
    events = trace.events
    parent, name = events["parent"], events["name"]
    inner = np.flatnonzero(parent >= 0)
    children = np.bincount(parent[inner], minlength=len(events))
    same = (name[inner] == name[parent[inner]]) & (children[parent[inner]] == 1)
    return Counter(trace.event_name(row) for row in inner[same].tolist())


def _chrome(trace: opscope.Trace) -> dict[str, int]:
    with tempfile.TemporaryDirectory() as folder:
        file = Path(folder, "trace.json")
        trace.export("chrome", file)
        events = json.loads(file.read_bytes())["traceEvents"]
    return Counter(event["name"] for event in events if event.get("cat") == "cpu_op")


if __name__ == "__main__":
    found = counts_by_view(sys.argv[1])
    json.dump({"operators": found["query"], "disagree": disagreements(found)}, sys.stdout)
