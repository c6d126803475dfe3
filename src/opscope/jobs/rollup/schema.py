"""The tables of a rollup: every column, with its unit and meaning.

Text is stored as text, and -1 means "none" or "unknown", so that any reader can add up the files of
a thousand processes.
"""

from __future__ import annotations

from opscope.columns.causes import Cause
from opscope.columns.column import Column, TableSchema

VERSION = 8
"""Raised when a column is added, removed or changes meaning; older rollups are then made again."""

ALL_CATEGORIES = "all"  # category of ``rollup_memory`` for the total

STRAYS_SOURCE, STRAYS = "collectives", "transfers without a call"
"""Row of ``rollup_ledger`` with the number of these transfers."""

COLLECTIVE_NUMBERS = (
    "event", "number", "peer", "root", "tag", "begin_ns", "returned_ns", "start_ns", "end_ns",
    "sent_bytes", "received_bytes", "exposed_ns", "step",
)  # fmt: skip
"""Columns of ``rollup_collectives`` that ``ProcessCollectives`` also has."""

_OF = (
    Column("rank", "int64", "rank of the process; -1 without one", -1),
    Column("process", "int64", "id of a process without rank; else -1", -1),
)


def cause_column(cause: Cause) -> str:
    """Name of the column of a cause."""
    return f"{cause.name.lower()}_ns"


STEPS = TableSchema(
    "rollup_steps",
    "one step of the program, on its main thread",
    (
        *_OF,
        Column("step", "int64", "number of the step in the process"),
        Column("start_ns", "int64", "Unix time"),
        Column("wall_ns", "int64", "from its start to its end"),
        Column("own_ns", "int64", "the same without collectives and waits for other ranks"),
        *(Column(cause_column(cause), "int64", cause.title) for cause in Cause),
    ),
)

CAUSES = TableSchema(
    "rollup_causes",
    "one cause of the main thread's time",
    (
        *_OF,
        Column("period", "string", "all: the recording; steady: without start-up; or start-up"),
        Column("cause", "string", "as in the account of time, in lower case"),
        Column("time_ns", "int64", "wall time"),
        Column("error_ns", "int64", "approximate part that may have another cause"),
    ),
)

OPERATORS = TableSchema(
    "rollup_operators",
    "one operator, kernel or copy of one part of a step and one module",
    (
        *_OF,
        Column("name", "string", "name of the operator"),
        Column("device", "string", "cpu for the host, else the device"),
        Column("phase", "string", "forward, backward, optimizer, data loading; empty for none"),
        Column("module", "string", "path and class; empty for none"),
        Column("count", "int64", "calls"),
        Column("total_ns", "int64", "time in them; of nested calls the outer ones count"),
        Column("self_ns", "int64", "the same without other spans in them"),
    ),
)

LINES = TableSchema(
    "rollup_lines",
    "one line of the program's own files; empty if Python calls were not recorded",
    (
        *_OF,
        Column("file", "string", "as Python names it"),
        Column("line", "int64", "from 1; -1 if only the function is known", -1),
        Column("function", "string", "function with the line"),
        Column("count", "int64", "recorded calls and operators whose innermost line it is"),
        Column("self_ns", "int64", "their self time"),
    ),
)

PLACES = TableSchema(
    "rollup_places",
    "one cause of the main thread's time in steps, at one place of the program",
    (
        *_OF,
        Column("cause", "string", "as in the account of time, in lower case"),
        Column("phase", "string", "part of a step, with garbage collection; empty for none"),
        Column("file", "string", "file of the program, as Python names it; empty for none"),
        Column("line", "int64", "from 1; -1 if only the function is known", -1),
        Column("function", "string", "function with the line"),
        Column("module", "string", "path and class; empty for none"),
        Column("operator", "string", "outermost operator; empty for none"),
        Column("own_line", "int64", "line with most self time of the function; -1 unknown", -1),
        Column("time_ns", "int64", "wall time in all steps"),
    ),
)

MEMORY = TableSchema(
    "rollup_memory",
    "memory of one category at the peak of a device; empty if memory was not recorded",
    (
        *_OF,
        Column("device", "string", "as torch names it"),
        Column("category", "string", f"parameter, activation, ...; {ALL_CATEGORIES} for the total"),
        Column("bytes", "int64", "in use"),
        Column("time_ns", "int64", "Unix time of the peak"),
    ),
)

LEDGER = TableSchema(
    "rollup_ledger",
    "requested, recorded and dropped data of each source, and the cost of recording",
    (
        *_OF,
        Column("source", "string", "source in the ledger"),
        Column("what", "string", "count or measurement in the ledger"),
        Column("value", "float64", "its value"),
    ),
)

COLLECTIVES = TableSchema(
    "rollup_collectives",
    "one collective that the process began, with its transfer",
    (
        *_OF,
        Column("event", "int64", "row of the call in events"),
        Column("name", "string", "as in allreduce"),
        Column("group_name", "string", "torch's name of the process group; empty if unknown"),
        Column("group_ranks", "string", "its global ranks with commas; empty if unknown"),
        Column("number", "int64", "number in its group; -1 unknown", -1),
        Column("peer", "int64", "global rank sent to or received from; -1 for all", -1),
        Column("root", "int64", "global rank that sends to all or receives from all; -1 none", -1),
        Column("tag", "int64", "tag of a message"),
        Column("begin_ns", "int64", "Unix time of the call"),
        Column("returned_ns", "int64", "end of the call"),
        Column("start_ns", "int64", "begin of the transfer; -1 not recorded", -1),
        Column("end_ns", "int64", "end of the transfer; -1 not recorded", -1),
        Column("sent_bytes", "int64", "bytes that the process sends"),
        Column("received_bytes", "int64", "bytes that it receives"),
        Column("exposed_ns", "int64", "time in which the process did no other work"),
        Column("step", "int64", "number of the marked step; -1 outside", -1),
    ),
)

ROLLUP_TABLES = {
    one.name: one
    for one in (
        STEPS, CAUSES, OPERATORS, LINES, PLACES, MEMORY, LEDGER, COLLECTIVES,
    )
}  # fmt: skip
