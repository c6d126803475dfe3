"""Spans that begin, end and overlap in any way, of which no view may lose one."""

from __future__ import annotations

from hypothesis import strategies as st

from opscope.columns.schema import EventKind
from support.build_trace import span

ANY_SPANS = st.lists(
    st.tuples(
        st.integers(0, 40),
        st.integers(0, 40),
        st.sampled_from(["main", "worker"]),
        st.booleans(),
        st.sampled_from([EventKind.OPERATOR, EventKind.PYTHON_CALL]),
    ),
    max_size=40,
).map(
    lambda rows: [
        span(f"s{i % 5}", start, start + took, thread, parent=-1, is_async=is_async, kind=kind)
        for i, (start, took, thread, is_async, kind) in enumerate(sorted(rows))
    ]
)
"""In order of start; some have one name."""
