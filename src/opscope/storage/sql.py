"""SQL over a trace: DuckDB reads the columns in place.

Statements of other people run with restrictive settings and a time limit. DuckDB's memory limit
does not count single texts, and a function can make a text of 4 GB: a service limits the memory of
the process that runs queries.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, nullcontext
from typing import Any

from opscope.base.arrow import pa
from opscope.columns.labels import LABELS
from opscope.columns.schema import TABLES
from opscope.columns.trace_data import TraceData
from opscope.errors import OpscopeError, TraceFormatError, UsageError, not_installed
from opscope.storage.interop import to_arrow

try:
    import duckdb
except ImportError as error:
    raise not_installed("duckdb", "SQL") from error

_MAX_MEMORY = "1GiB"  # memory limit of a query over a trace on disk; above it DuckDB uses the disk
_JOIN_ORDER = {"disabled_optimizers": "build_side_probe_side"}
"""DuckDB does not know the row counts of files, and took the events as the smaller side of joins:
ten million of them did not fit in a gigabyte."""

_NAMED_EVENTS_TABLES = {"events", "names", "threads"}

LONGEST_S = 60.0
RESULT_BYTES = 1 << 28
SETTINGS = {
    "enable_external_access": "false",  # files, network, extensions, other databases
    "python_enable_replacements": "false",  # names of Python's variables as tables
    "allow_persistent_secrets": "false",
    "temp_directory": "",  # queries must not write there
    "memory_limit": "1GiB",
    "threads": "2",
    "lock_configuration": "true",
}
"""Settings of a connection that can read only its tables."""


def query(trace: TraceData, statement: str, read_only: bool = False) -> Any:
    """Run one SQL statement; see :meth:`Trace.sql`.

    The result is a relation of DuckDB's default connection: a relation of this connection would be
    unusable after the connection is closed.
    """
    tables = {name: to_arrow(trace, name, text=False) for name in (*TABLES, "names")}
    return run_statement(connection_over(tables, read_only), statement, read_only)


def connection_over(
    tables: Mapping[str, Any], read_only: bool, keys: tuple[str, ...] = (), is_large: bool = False
) -> Any:
    """A connection with these tables and the view ``named_events``.

    The view shows ``events`` with names, kind, scope and thread as text, and times in microseconds
    from the first event on.

    Args:
        tables: Arrow tables or datasets by name; the view needs events, names and threads.
        read_only: the connection can read nothing else.
        keys: columns with the process of a row, if there are several.
        is_large: tables and results need not fit in memory.
    """
    settings = SETTINGS if read_only else {"memory_limit": _MAX_MEMORY} if is_large else {}
    connection = duckdb.connect(":memory:", config=settings | (_JOIN_ORDER if is_large else {}))
    for name, table in tables.items():
        connection.register(name, table)
    if tables.keys() >= _NAMED_EVENTS_TABLES:
        try:
            connection.execute(_named_events(keys))
        except duckdb.Error as error:
            raise TraceFormatError(
                f"The tables of the trace are damaged: {str(error).strip()} Record it again."
            ) from error
    return connection


def run_statement(connection: Any, statement: str, read_only: bool) -> Any:
    """Run a statement and close ``connection``; the relation is of DuckDB's default connection.

    In other threads than the main one it is of that connection's cursor.
    """
    try:
        result = rows_by(connection, statement, read_only)
    finally:
        connection.close()
    return _result_connection().from_arrow(result)


def rows_by(connection: Any, statement: str, read_only: bool) -> pa.Table:
    """Rows that a statement returns."""
    with _bounded_time(connection) if read_only else nullcontext():
        result = _with_plain_integers(_compute(connection, statement, read_only))
    return result.rename_columns(list(_distinct(result.column_names)))


_PER_THREAD = threading.local()


def _result_connection() -> Any:
    """The owner of this thread's relations: DuckDB does not let two threads use one connection."""
    if threading.current_thread() is threading.main_thread():
        return duckdb
    if not hasattr(_PER_THREAD, "cursor"):
        _PER_THREAD.cursor = duckdb.cursor()
    return _PER_THREAD.cursor


def _compute(connection: Any, statement: str, read_only: bool) -> pa.Table:
    try:
        count = len(connection.extract_statements(statement))
        if count > 1:  # DuckDB would run all and return the rows of the last
            raise UsageError(f"These are {count} statements. Write one SELECT.")
        relation = connection.sql(statement)
    except duckdb.InterruptException:
        raise
    except duckdb.PermissionException as error:
        raise _not_permitted(error) from error
    except duckdb.Error as error:
        tables = [name for (name,) in connection.execute("show tables").fetchall()]
        raise UsageError(
            f"The query does not run: {str(error).strip()} The tables are {', '.join(tables)}; "
            "`describe TABLE` lists a table's columns."
        ) from error
    if relation is None:
        raise UsageError(
            f"{statement.strip()[:60]!r} returns no rows. trace.sql() takes one SELECT; to "
            "keep its result, use .df(), .pl() or .write_parquet(file) on what it returns."
        )
    try:
        return _bounded_table(relation) if read_only else relation.to_arrow_table()
    except (duckdb.InterruptException, UsageError):
        raise
    except duckdb.PermissionException as error:
        raise _not_permitted(error) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise UsageError(
            f"The query failed on a row: {str(error).strip()} Change the query; try_cast() and "
            "nullif() help where single values do not fit."
        ) from error
    except (OSError, RuntimeError) as error:
        raise TraceFormatError(
            f"The trace changed while the query read it ({error}). Run the query again."
        ) from error


def _not_permitted(error: duckdb.Error) -> UsageError:
    return UsageError(
        f"The query is not permitted: {str(error).strip()} A read-only query reads only the "
        "tables of its trace; omit read_only=True (--read-only) for trusted queries."
    )


def _with_plain_integers(result: pa.Table) -> pa.Table:
    """Convert DuckDB's 128-bit integer sums, decimals in Arrow, to 64 bits."""
    for column_number, field in enumerate(result.schema):
        if field.type == pa.decimal128(38, 0):
            try:
                column = result.column(column_number).cast(pa.int64())
            except pa.ArrowInvalid:  # sums that need more than 64 bits stay decimals
                continue
            result = result.set_column(column_number, field.name, column)
    return result


def _distinct(names: list[str]) -> Iterator[str]:
    """``id, id`` as ``id, id_1``: names of a relation's columns must differ."""
    used: set[str] = set()
    for name in names:
        number, distinct = 0, name
        while distinct.lower() in used:
            number += 1
            distinct = f"{name}_{number}"
        used.add(distinct.lower())
        yield distinct


def _label(table: str, column: str, expression: str) -> str:
    cases = " ".join(f"when {code} then '{text}'" for code, text in LABELS[table, column].items())
    return f"case {expression} {cases} else {expression}::varchar end"


def _named_events(keys: tuple[str, ...]) -> str:
    """The view; it joins rows of the same process.

    Texts are subqueries, which DuckDB leaves out if a statement does not use the column. Joins of
    the view it would compute for every statement.
    """

    def same(table: str) -> str:
        return "".join(f" and {table}.{key} is not distinct from event.{key}" for key in keys)

    def text(column: str) -> str:
        return f"(select text from names where names.id = event.{column}{same('names')})"

    shown = "".join(f"  event.{key} as {key},\n" for key in keys)
    return f"""
create temp view named_events as
select
{shown}  event.id as id,
  {text("name")} as name,
  {text("overload")} as overload,
  {_label("events", "kind", "event.kind")} as kind,
  {_label("events", "scope", "event.scope")} as scope,
  (
    select coalesce(names.text, 'thread ' || threads.system_thread_id)
    from threads left join names on names.id = threads.name{same("names")}
    where threads.id = event.thread{same("threads")}
  ) as thread,
  event.parent as parent,
  event.step as step,
  event.start_us as start_us,
  event.duration_ns / 1000 as duration_us,
  event.sequence_number as sequence_number,
  event.unfinished as unfinished,
  event.is_async as is_async
from (
  select *, (start_ns - (select min(start_ns) from events)) / 1000 as start_us from events
) as event
"""


@contextmanager
def _bounded_time(connection: Any) -> Iterator[None]:
    is_late = threading.Event()

    def stop() -> None:
        is_late.set()
        connection.interrupt()

    timer = threading.Timer(LONGEST_S, stop)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (duckdb.Error, OSError, OpscopeError):  # its kind depends on the operator it stopped
        if not is_late.is_set():
            raise
        raise UsageError(
            f"The query was stopped after {LONGEST_S:.0f} s, the limit of a read-only query. "
            "Query less data."
        ) from None
    finally:
        timer.cancel()
        timer.join()


def rows_of(relation: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a relation or a table as Python objects, converted in batches.

    Raises:
        UsageError: Python has no such value, as a date after the year 9999.
    """
    for batch in pa.RecordBatchReader.from_stream(relation):
        try:
            columns = [column.to_pylist() for column in batch.columns]
        except (ValueError, OverflowError) as error:
            raise UsageError(
                f"A value of the result cannot be shown: {error}. Convert it to text in the "
                "query, as in time::varchar."
            ) from error
        yield from zip(*columns, strict=True)


def _bounded_table(relation: Any) -> pa.Table:
    batches, size = [], 0
    with pa.RecordBatchReader.from_stream(relation) as reader:
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > RESULT_BYTES:
                raise UsageError(
                    f"The result has more than {RESULT_BYTES >> 20} MiB, the limit of a "
                    "read-only query. Select less, or add a limit."
                )
        return pa.Table.from_batches(batches, reader.schema)
