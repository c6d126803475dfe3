"""Whatever a trace holds, the Chrome file is valid JSON that says the same."""

import numpy as np
from hypothesis import given, settings
from hypothesis import strategies as st

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.table import ListColumn
from support.chrome_files import document_of, spans_of

INT64 = st.integers(-(2**63), 2**63 - 1)
INT32 = st.integers(-(2**31), 2**31 - 1)


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


@st.composite
def tables(draw):
    """Events, arguments and allocations with hostile values but sound row numbers."""
    count = draw(st.integers(0, 6))
    rows = st.integers(-1, max(count - 1, -1))

    def column(strategy, length=count):
        return draw(st.lists(strategy, min_size=length, max_size=length))

    events = {
        "thread": column(st.integers(0, 1)),
        "parent": column(rows),
        "name": column(st.integers(-1, 9)),
        "overload": column(st.integers(-1, 9)),
        "kind": column(st.integers(0, 255)),
        "start_ns": column(st.integers(-(2**61), 2**61)),
        "duration_ns": column(st.integers(-(2**60), 2**60)),
        "sequence_number": column(INT64),
        "forward_thread": column(INT32),
        "unfinished": column(st.booleans()),
        "is_async": column(st.booleans()),
    }
    arguments = draw(st.integers(0, 8)) if count else 0
    common = {
        "event": column(rows, arguments),
        "argument": column(st.integers(-1, 40), arguments),
        "role": column(st.integers(0, 3), arguments),
    }
    lengths = column(st.integers(0, 3), arguments)
    offsets = np.cumsum([0, *lengths], dtype=np.int64)
    sizes = ListColumn(offsets, np.array(column(INT64, int(offsets[-1])), dtype=np.int64))
    tensors = {
        **common,
        "element": column(st.integers(-1, 3), arguments),
        "dtype": column(st.integers(-128, 127), arguments),
        "sizes": sizes,
        "strides": sizes,
    }
    scalars = {
        **common,
        "keyword": column(st.integers(-1, 9), arguments),
        "type": column(st.integers(0, 20), arguments),
        "value": column(st.integers(-1, 9), arguments),
    }
    allocations = {
        "time_ns": column(st.integers(-(2**61), 2**61), arguments),
        "action": column(st.integers(0, 255), arguments),
        "address": column(st.integers(0, 2**64 - 1), arguments),
        "size_bytes": column(INT64, arguments),
    }
    threads = {"system_thread_id": [draw(INT64), draw(INT64)]}
    return {
        "events": events,
        "tensors": tensors,
        "scalars": scalars,
        "allocations": allocations,
        "threads": threads,
    }


@given(tables(), st.lists(st.text(max_size=8), min_size=10, max_size=10))
@settings(max_examples=60)
def test_random_tables_make_valid_files(columns, texts):
    trace = Trace(columns, Names.from_strings(texts))

    document = document_of(trace)

    assert len(spans_of(document)) == len(trace.events)
    memory = [e for e in document["traceEvents"] if e["ph"] == "i" and "cat" in e]
    assert len(memory) == len(trace.table("allocations"))
    ids = [e["args"]["Ev Idx"] for e in spans_of(document) + memory]
    assert sorted(ids) == list(range(len(ids)))
