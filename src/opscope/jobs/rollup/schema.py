"""The tables of a rollup: every column, with its unit and meaning.

Text is text here, and -1 means "none" or "not known", so that any reader can add up the files of a
thousand processes as they are.
"""

from __future__ import annotations

from opscope.columns.causes import Cause
from opscope.columns.column import Column, TableSchema

VERSION = 7
"""Raised when a column is added, removed or changes meaning: rollups are made again then."""

ALL_CATEGORIES = "all"
"""The category of ``rollup_memory`` that is the whole."""

STRAYS_SOURCE, STRAYS = "collectives", "transfers without a call"
"""The row of ``rollup_ledger`` that says how many there are."""

COLLECTIVE_NUMBERS = (
    "event", "number", "peer", "root", "tag", "begin_ns", "returned_ns", "start_ns", "end_ns",
    "sent_bytes", "received_bytes", "exposed_ns", "step",
)  # fmt: skip
"""Columns of ``rollup_collectives`` that ``ProcessCollectives`` has too."""

_OF = (
    Column("rank", "int64", "of the process; -1 of one without a rank", -1),
    Column("process", "int64", "its id where it has no rank; else -1", -1),
)


def cause_column(cause: Cause) -> str:
    """Name of the column of a cause."""
    return f"{cause.name.lower()}_ns"


STEPS = TableSchema(
    "rollup_steps",
    "one step of the program, on the thread that it runs on",
    (
        *_OF,
        Column("step", "int64", "its number, as the process counts"),
        Column("start_ns", "int64", "Unix time"),
        Column("wall_ns", "int64", "from its start to its end"),
        Column("own_ns", "int64", "that without collectives and waiting for other ranks"),
        *(Column(cause_column(cause), "int64", cause.title) for cause in Cause),
    ),
)

CAUSES = TableSchema(
    "rollup_causes",
    "one cause of the time of the thread that the program runs on",
    (
        *_OF,
        Column("period", "string", "all of the recording, steady: without start-up, or start-up"),
        Column("cause", "string", "as in the account of time, in lower case"),
        Column("time_ns", "int64", "on the clock"),
        Column("error_ns", "int64", "about how many of them may be of another cause"),
    ),
)

_OF_OPERATOR = (
    *_OF,
    Column("name", "string", "of the operator"),
    Column("device", "string", "cpu for what ran on the host, else the device it ran on"),
    Column("phase", "string", "forward, backward, optimizer, data loading; empty for none"),
    Column("module", "string", "path and class; empty for none"),
)

OPERATORS = TableSchema(
    "rollup_operators",
    "one operator, kernel or copy of one part of a step and one module",
    (
        *_OF_OPERATOR,
        Column("count", "int64", "calls"),
        Column("total_ns", "int64", "in them; of calls within such calls the outer ones count"),
        Column("self_ns", "int64", "outside of what else ran in them"),
    ),
)

OPERATOR_DETAILS = TableSchema(
    "rollup_operator_details",
    f"one row of {OPERATORS.name}: how its time spreads over steps, and what it allocates",
    (
        *_OF_OPERATOR,
        Column("steps", "int64", "in which it ran"),
        Column(
            "step_min_ns", "int64", "self_ns of the quickest of these steps; -1 for no step", -1
        ),
        Column("step_median_ns", "int64", "median", -1),
        Column("step_max_ns", "int64", "of the longest", -1),
        Column("allocated_bytes", "int64", "allocated directly in it; -1 not recorded", -1),
    ),
)

LINES = TableSchema(
    "rollup_lines",
    "one line of the program's own files; none where Python calls were not recorded",
    (
        *_OF,
        Column("file", "string", "as Python names it"),
        Column("line", "int64", "from 1; -1 where only the function is known", -1),
        Column("function", "string", "the line is in"),
        Column("count", "int64", "recorded calls and operators that it is the innermost line of"),
        Column("self_ns", "int64", "of these, outside of what else ran in them"),
    ),
)

PLACES = TableSchema(
    "rollup_places",
    "one cause of the time of steps, on the thread that they run on, at one place of the program",
    (
        *_OF,
        Column("cause", "string", "as in the account of time, in lower case"),
        Column("phase", "string", "part of a step, with garbage collection; empty for none"),
        Column("file", "string", "of the program's own, as Python names it; empty for none"),
        Column("line", "int64", "from 1; -1 where only the function is known", -1),
        Column("function", "string", "the line is in"),
        Column("module", "string", "path and class; empty for none"),
        Column("operator", "string", "the outermost one; empty for none"),
        Column(
            "own_line",
            "int64",
            "where most of the time passes that the function at line computes itself; -1 not known",
            -1,
        ),
        Column("time_ns", "int64", "on the clock, in all steps"),
    ),
)

MEMORY = TableSchema(
    "rollup_memory",
    "what one category had in use when a device was fullest; none where that was not recorded",
    (
        *_OF,
        Column("device", "string", "as torch names it"),
        Column("category", "string", f"parameter, activation, ...; {ALL_CATEGORIES} for the whole"),
        Column("bytes", "int64", "in use"),
        Column("time_ns", "int64", "when it was fullest, Unix time"),
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
    "one collective that the process began, with the transfer that came of it",
    (
        *_OF,
        Column("event", "int64", "row of the call in events"),
        Column("name", "string", "as in allreduce"),
        Column("group_name", "string", "torch's name of the process group; empty if not known"),
        Column("group_ranks", "string", "its global ranks with commas; empty if not known"),
        Column("number", "int64", "which of its group; -1 not known", -1),
        Column("peer", "int64", "global rank sent to or received from; -1 for all", -1),
        Column("root", "int64", "global rank that gives to all or gets from all; -1 none", -1),
        Column("tag", "int64", "of a message"),
        Column("begin_ns", "int64", "when it was called, Unix time"),
        Column("returned_ns", "int64", "when the call returned"),
        Column("start_ns", "int64", "when its transfer began; -1 not recorded", -1),
        Column("end_ns", "int64", "when that ended; -1 not recorded", -1),
        Column("sent_bytes", "int64", "that the process gives"),
        Column("received_bytes", "int64", "that it gets"),
        Column("exposed_ns", "int64", "in which the process did no other work"),
        Column("step", "int64", "number of the step that was marked; -1 outside", -1),
    ),
)

ROLLUP_TABLES = {
    one.name: one
    for one in (
        STEPS, CAUSES, OPERATORS, OPERATOR_DETAILS, LINES, PLACES, MEMORY, LEDGER, COLLECTIVES,
    )
}  # fmt: skip
