"""Whatever a trace holds, the Chrome file is valid JSON that says the same."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.api.trace import Trace
from opscope.columns.names import Names
from support.chrome_files import document_of, spans_of
from support.random_trace import random_trace


@given(st.lists(st.binary(max_size=40) | st.text(max_size=20).map(str.encode), max_size=8))
def test_names_of_any_bytes_read_as_the_trace_shows_them(raw):
    offsets = np.cumsum([0, *map(len, raw)], dtype=np.int64)
    names = Names(offsets, b"".join(raw))
    events = {"start_ns": range(len(raw)), "name": range(len(raw))}

    rows = spans_of(document_of(Trace({"events": events}, names)))

    assert [row["name"] for row in rows] == list(names)


@given(st.text(max_size=50), st.text(max_size=50))
def test_user_metadata_of_any_text_survives(key, value):
    document = document_of(Trace({}, Names.from_strings([]), {"user": {key: value}}))

    assert document.get(f"user {key}", document.get(key)) == value


@given(st.integers(0, 2**32))
@settings(max_examples=60)
def test_random_traces_make_valid_files(seed):
    trace = random_trace(seed)

    document = document_of(trace)

    spans = [e for e in spans_of(document) if e["cat"] != "overhead"]
    assert len(spans) == len(trace.events) + len(trace.table("gpu"))
    memory = [e for e in document["traceEvents"] if e["ph"] == "i" and "cat" in e]
    assert len(memory) == len(trace.table("allocations"))
    ids = [e["args"]["Ev Idx"] for e in spans + memory]
    assert sorted(ids) == list(range(len(ids)))
