"""SQL over a trace: DuckDB reads our columns where they lie."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import duckdb

from opscope.errors import UsageError
from opscope.trace.interop import to_arrow
from opscope.trace.labels import LABELS
from opscope.trace.schema import TABLES

if TYPE_CHECKING:
    from opscope.trace.trace import Trace


def connect(trace: Trace) -> Any:
    """A DuckDB connection in which every table of ``trace`` and the views below are visible.

    ``named_events`` is ``events`` as a person reads it: name, overload, kind, scope and thread as
    text, times in microseconds since the first event and parent as an id.
    """
    connection = duckdb.connect(":memory:")
    for name in (*TABLES, "names"):
        connection.register(name, to_arrow(trace, name, text=False))
    connection.execute(_NAMED_EVENTS)
    return connection


def query(trace: Trace, statement: str) -> Any:
    """Run one SQL statement; see :meth:`Trace.sql`."""
    connection = connect(trace)
    try:
        relation = connection.sql(statement)
        if relation is None:
            raise UsageError(
                f"{statement.strip()[:60]!r} returns no rows. trace.sql() takes one SELECT; to "
                "keep results, use its .df(), .pl(), .arrow() or .write_parquet(file)."
            )
        return relation
    except duckdb.Error as error:
        raise UsageError(
            f"The query does not run: {str(error).strip()} The tables are named_events, names, "
            f"{', '.join(TABLES)}; trace.sql('describe events') lists a table's columns."
        ) from error


def _label(table: str, column: str, expression: str) -> str:
    """An SQL expression that turns a code into its text."""
    cases = " ".join(f"when {code} then '{text}'" for code, text in LABELS[table, column].items())
    return f"case {expression} {cases} else {expression}::varchar end"


_NAMED_EVENTS = f"""
create temp view named_events as
select
  event.id as id,
  name.text as name,
  overload.text as overload,
  {_label("events", "kind", "event.kind")} as kind,
  {_label("events", "scope", "event.scope")} as scope,
  coalesce(thread_name.text, 'thread ' || thread.system_thread_id) as thread,
  event.parent as parent,
  event.step as step,
  (event.start_ns - (select min(start_ns) from events)) / 1000 as start_us,
  event.duration_ns / 1000 as duration_us,
  event.sequence_number as sequence_number,
  event.unfinished as unfinished,
  event.is_async as is_async
from events as event
left join names as name on name.id = event.name
left join names as overload on overload.id = event.overload
left join threads as thread on thread.id = event.thread
left join names as thread_name on thread_name.id = thread.name
"""
