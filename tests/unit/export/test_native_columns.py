"""Native code trusts no column: whatever Python hands over, it refuses, or reads what is there.

Every column that a real export hands over is replaced by ones that are too short or too long, point
outside, go backwards or are not there.
"""

from __future__ import annotations

from types import SimpleNamespace

import numpy as np
import pytest

from opscope import _native
from opscope.analysis.memory import categories
from opscope.export import execution_trace_nodes, perfetto
from opscope.export.chrome import writer as chrome_writer
from opscope.timeline import timeline
from support.hostile_sources import built_trace


def captured_calls(tmp_path, patch):
    """What native writers and passes of real exports are called with."""
    calls = []

    def captured(kind):
        def call(*arguments, **settings):
            calls.append((kind, arguments, settings))
            return getattr(_native, kind)(*arguments, **settings)

        return call

    class Writer(_native.ExecutionTraceWriter):
        def begin(self, *arguments, **settings):  # it gets its columns later than others
            calls.append(("ExecutionTraceWriter", arguments, settings))
            super().begin(*arguments, **settings)

    names = (
        "ChromeWriter", "PerfettoWriter", "assign_lanes", "memory_accounts", "operator_signatures",
    )  # fmt: skip
    fake = SimpleNamespace(
        **{name: captured(name) for name in names},
        ExecutionTraceWriter=Writer,
        nest_on_lines=lambda *_: None,  # nothing nests, so that a place is looked for
    )
    for module in (chrome_writer, perfetto, execution_trace_nodes, timeline):
        if hasattr(module, "_native"):
            patch.setattr(module, "_native", fake)
    patch.setattr(categories, "_native", fake)
    trace = built_trace()
    for format in ("chrome", "perfetto", "execution-trace"):
        trace.export(format, tmp_path / format)
    categories.memory_accounts(trace)
    return calls


@pytest.fixture(scope="module")
def calls(tmp_path_factory):
    with pytest.MonkeyPatch.context() as patch:
        found = captured_calls(tmp_path_factory.mktemp("calls"), patch)
    assert {kind for kind, *_ in found} >= {"ChromeWriter", "PerfettoWriter", "assign_lanes",
                                            "ExecutionTraceWriter", "memory_accounts"}  # fmt: skip
    return found


def run(kind, arguments, settings):
    if kind == "ExecutionTraceWriter":
        writer = _native.ExecutionTraceWriter()
        writer.begin(*arguments, **settings)
    else:
        writer = getattr(_native, kind)(*arguments, **settings)
    if hasattr(writer, "next_block"):
        while writer.next_block(1 << 16) is not None:
            pass


def variants(values):
    """A column of the same type that something is wrong with."""
    yield values[:-1]
    yield np.concatenate([values, values])
    yield values[:0]
    yield values[::-1].copy()
    yield np.repeat(values, 2)[::2]  # with a stride: as good as before
    yield np.broadcast_to(values[:1], len(values))
    if values.dtype.kind not in "iu":
        return
    info = np.iinfo(values.dtype)
    for hostile in {info.min, info.max, max(-2, info.min), min(len(values), info.max), 0, 99}:
        changed = values.copy()
        changed[len(changed) // 2] = hostile
        yield changed
        changed = values.copy()
        changed[-1] = hostile
        yield changed


def test_every_column_may_be_anything(calls):
    refused = written = 0
    for kind, (columns, *others), settings in calls:
        for name, values in columns.items():
            candidates = variants(np.asarray(values)) if len(values) else ()
            for changed in (None, *candidates):
                hostile = {**columns, name: changed}
                if changed is None:
                    del hostile[name]
                try:
                    run(kind, (hostile, *others), settings)
                    written += 1
                except (ValueError, TypeError) as error:
                    assert name.split(".")[0] in str(error) or "column" in str(error)
                    refused += 1
    assert refused > 500 and written > 500


@pytest.mark.parametrize(
    ("writer", "name", "row"),
    [("PerfettoWriter", "events.category", 200), ("PerfettoWriter", "events.order", 10**6),
     ("PerfettoWriter", "names.offsets", 10**9), ("PerfettoWriter", "events.lines", 10**6),
     ("ChromeWriter", "events.track", 99), ("ChromeWriter", "events.parent", 10**6),
     ("ChromeWriter", "flows.rows", 10**6), ("ChromeWriter", "gpu.launch", 10**6),
     ("ExecutionTraceWriter", "events.schema", 99), ("memory_accounts", "tensors.event", 10**6),
     ("memory_accounts", "signatures.of_event", 99), ("assign_lanes", "order", -1),
     ("assign_lanes", "track", 2**31 - 1)],
)  # fmt: skip
def test_numbers_of_rows_that_are_not_there_are_refused(calls, writer, name, row):
    kind, (columns, *others), settings = next(c for c in calls if c[0] == writer)
    changed = np.array(columns[name])
    changed[-1] = row
    with pytest.raises(ValueError, match=rf"column {name} has"):
        run(kind, ({**columns, name: changed}, *others), settings)
