"""Every view of a trace says the same: averages, SQL, the tree, files, what is loaded again."""

from __future__ import annotations

import json
import tempfile
from collections import Counter
from pathlib import Path
from typing import Any

import numpy as np

import opscope
from opscope.api.trace import Trace
from opscope.columns.schema import EventKind
from torture.windows import Window


def check_views(window: Window) -> None:
    """Compare them.

    Raises:
        AssertionError: they differ.
    """
    trace = Trace.of(window.look())
    names = Counter(trace.event_name(row) for row in range(len(trace.events)))
    with tempfile.TemporaryDirectory() as folder:
        if window.profile is not None:  # else the trace is all there is
            _check_averages(window, trace)
            _check_chrome(window, trace, Path(folder) / "trace.json")
            window.profile.export_perfetto(str(Path(folder) / "trace.pftrace"))
        _check_sql(trace, names)
        _check_tree(trace)
        _check_saved(trace, Path(folder) / "saved")
    _check_memory(trace)


def _check_averages(window: Window, trace: Any) -> None:
    if not len(trace.events):
        return
    averages = window.profile.key_averages(include_python_functions=True)
    counts = Counter({e.key: e.count for e in averages if e.key != "[memory]"})
    names = Counter(_key(trace.event_name(row)) for row in np.flatnonzero(_averaged(trace)))
    assert counts == names, (counts - names, names - counts)


def _key(name: str) -> str:
    """What an event is averaged under: all steps are one, as with torch."""
    return "ProfilerStep*" if name.startswith("ProfilerStep#") else name


def _averaged(trace: Any) -> Any:
    """Which events averages count: no collections; of a call in one of the same name only one."""
    events = trace.events
    keys: dict[str, int] = {}
    key = np.array([keys.setdefault(_key(name), len(keys)) for name in trace.names])[events["name"]]
    counted = events["kind"] != EventKind.GC_PAUSE
    parent = events["parent"]
    inside = counted & (parent >= 0) & ~events["is_async"]
    inside = np.flatnonzero(inside & ~events["is_async"][parent])
    children = np.bincount(parent[inside], minlength=len(parent))
    around = parent[inside]
    repeated = (key[inside] == key[around]) & (children[around] == 1)
    counted[inside[repeated]] = False
    return counted


def _check_sql(trace: Any, names: Counter[str]) -> None:
    rows = trace.sql("select name, count(*) from named_events group by name").fetchall()
    assert Counter(dict(rows)) == names
    ((total,),) = trace.sql("select coalesce(sum(size_bytes), 0) from allocations").fetchall()
    assert int(total) == int(trace.table("allocations")["size_bytes"].sum())


def _check_tree(trace: Any) -> None:
    assert sum(1 for _ in trace.tree().depth_first()) >= len(trace.events)


def _check_saved(trace: Any, folder: Path) -> None:
    trace.save(folder)
    loaded = opscope.load(folder)
    for table in ("events", "allocations", "tensors", "python_calls"):
        saved, read = trace.table(table), loaded.table(table)
        assert len(saved) == len(read), table
        for column in ("event", "thread", "parent", "name", "start_ns", "size_bytes", "frame"):
            if column in {c.name for c in saved.schema.columns}:
                assert (saved[column] == read[column]).all(), (table, column)
    assert loaded.ledger == trace.ledger


def _check_chrome(window: Window, trace: Any, file: Path) -> None:
    window.profile.export_chrome_trace(str(file))
    rows = json.loads(file.read_text())["traceEvents"]
    spans = [row for row in rows if row["ph"] == "X" and row.get("cat") != "Trace"]
    assert len(spans) == len(trace.events), (len(spans), len(trace.events))
    assert all(row["dur"] >= 0 for row in spans)
    instants = [row for row in rows if row["ph"] == "i" and row["name"] == "[memory]"]
    assert len(instants) == len(trace.table("allocations"))


def _check_memory(trace: Any) -> None:
    if not len(trace.table("allocations")):
        return
    peak = trace.peak_memory("cpu")
    for groups in (peak.by_category, peak.by_module, peak.by_operator, peak.by_stack):
        assert sum(group.size_bytes for group in groups) == peak.total_bytes
