"""SQL over a trace: DuckDB reads our columns where they lie.

Statements of others run with DuckDB's own settings, and an end to what a statement takes. DuckDB's
bound on memory does not count single texts, of which a function can make one of 4 GB: a service
gives the process that runs queries a limit of its own.
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
from opscope.errors import TraceFormatError, UsageError, not_installed
from opscope.storage.interop import to_arrow
from opscope.storage.long_trace import LongTrace
from opscope.storage.partition import PROCESS, RANK

try:
    import duckdb
except ImportError as error:
    raise not_installed("duckdb", "SQL") from error

KEYS = (RANK, PROCESS)
"""Columns that say which process a row is of, where there are several: one of them is null."""

_MOST_MEMORY = "1GiB"
"""What a query may take over a trace that is not in memory; what needs more goes to disk."""

_AS_WRITTEN = {"disabled_optimizers": "build_side_probe_side"}
"""DuckDB does not know how many rows are in files, and took the events for the smaller side of
their joins: ten million of them did not fit in a gigabyte."""

_SHOWN_BY_NAME = {"events", "names", "threads"}

LONGEST_S = 60.0
RESULT_BYTES = 1 << 28
SETTINGS = {
    "enable_external_access": "false",  # files, network, extensions, other databases
    "python_enable_replacements": "false",  # names of Python's variables as tables
    "allow_persistent_secrets": "false",
    "temp_directory": "",  # what does not fit in memory would be written there
    "memory_limit": "1GiB",
    "threads": "2",
    "lock_configuration": "true",
}
"""Of a connection that reaches the tables it is given, and nothing else."""


def query(trace: TraceData, statement: str, read_only: bool = False) -> Any:
    """Run one SQL statement; see :meth:`Trace.sql`.

    The result is computed here and handed over as a relation of DuckDB's default connection: one
    of our own connection would be unusable once that is closed.
    """
    return run_statement(connection_over(_tables_of(trace), read_only), statement, read_only)


def query_long(trace: LongTrace, statement: str, read_only: bool = False) -> Any:
    """Like :func:`query`, but reads from the files only what the statement needs."""
    tables = {**_tables_of(trace.small), **trace.datasets()}
    connection = connection_over(tables, read_only, is_large=True)
    return run_statement(connection, statement, read_only)


def _tables_of(trace: TraceData) -> dict[str, Any]:
    return {name: to_arrow(trace, name, text=False) for name in (*TABLES, "names")}


def connection_over(
    tables: Mapping[str, Any], read_only: bool, keys: tuple[str, ...] = (), is_large: bool = False
) -> Any:
    """A connection in which these are visible, and ``named_events``: ``events`` as a person reads
    it, with names, kind, scope and thread as text and times in microseconds from the first on.

    Args:
        tables: Arrow tables or datasets by name; that view takes events, names and threads.
        read_only: it can reach nothing else.
        keys: columns that say which process a row is of, where there are several.
        is_large: they need not fit in memory, nor does what a statement makes of them.
    """
    settings = SETTINGS if read_only else {"memory_limit": _MOST_MEMORY} if is_large else {}
    connection = duckdb.connect(":memory:", config=settings | (_AS_WRITTEN if is_large else {}))
    for name, table in tables.items():
        connection.register(name, table)
    if tables.keys() >= _SHOWN_BY_NAME:
        try:
            connection.execute(_named_events(keys))
        except duckdb.Error as error:
            raise TraceFormatError(
                f"The tables of the trace are damaged: {str(error).strip()} Record it again."
            ) from error
    return connection


def run_statement(connection: Any, statement: str, read_only: bool) -> Any:
    """Run a statement and return a relation of DuckDB's default connection (in other threads than
    the main one, of a cursor of it). Closes ``connection``."""
    try:
        result = rows_by(connection, statement, read_only)
    finally:
        connection.close()
    return _home_of_results().from_arrow(result)


def rows_by(connection: Any, statement: str, read_only: bool) -> pa.Table:
    """Rows that a statement returns."""
    with _bounded_time(connection) if read_only else nullcontext():
        result = _with_plain_integers(_compute(connection, statement, read_only))
    return result.rename_columns(list(_distinct(result.column_names)))


_OF_THREAD = threading.local()


def _home_of_results() -> Any:
    """The owner of this thread's relations: DuckDB refuses a thread while another uses the same."""
    if threading.current_thread() is threading.main_thread():
        return duckdb
    if not hasattr(_OF_THREAD, "cursor"):
        _OF_THREAD.cursor = duckdb.cursor()
    return _OF_THREAD.cursor


def _compute(connection: Any, statement: str, read_only: bool) -> pa.Table:
    try:
        relation = connection.sql(statement)
    except duckdb.InterruptException:
        raise
    except duckdb.PermissionException as error:
        raise _locked(error) from error
    except duckdb.Error as error:
        raise UsageError(
            f"The query does not run: {str(error).strip()} The tables are named_events, names, "
            f"{', '.join(TABLES)}; trace.sql('describe events') lists a table's columns."
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
        raise _locked(error) from error
    except (duckdb.Error, pa.ArrowException) as error:
        raise UsageError(
            f"The query failed on a row: {str(error).strip()} Change the query; try_cast() and "
            "nullif() help where single values do not fit."
        ) from error
    except (OSError, RuntimeError) as error:
        raise TraceFormatError(
            f"The trace changed while the query read it ({error}). Run the query again."
        ) from error


def _locked(error: duckdb.Error) -> UsageError:
    return UsageError(
        f"The query is not permitted: {str(error).strip()} A read-only query reads only the "
        "tables of its trace; omit read_only=True (--read-only) for trusted queries."
    )


def _with_plain_integers(result: pa.Table) -> pa.Table:
    """Sums of integers are 128 bits wide in DuckDB, which Arrow can only say as decimals."""
    for place, field in enumerate(result.schema):
        if field.type == pa.decimal128(38, 0):
            try:
                column = result.column(place).cast(pa.int64())
            except pa.ArrowInvalid:  # sums that need more than 64 bits stay decimals
                continue
            result = result.set_column(place, field.name, column)
    return result


def _distinct(names: list[str]) -> Iterator[str]:
    """``id, id`` as ``id, id_1``: a relation has to be able to tell its columns apart."""
    taken: set[str] = set()
    for name in names:
        number, distinct = 0, name
        while distinct.lower() in taken:
            number += 1
            distinct = f"{name}_{number}"
        taken.add(distinct.lower())
        yield distinct


def _label(table: str, column: str, expression: str) -> str:
    cases = " ".join(f"when {code} then '{text}'" for code, text in LABELS[table, column].items())
    return f"case {expression} {cases} else {expression}::varchar end"


def _named_events(keys: tuple[str, ...]) -> str:
    """The view; rows of other tables are those of the same process.

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
    timer = threading.Timer(LONGEST_S, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (duckdb.InterruptException, OSError) as error:
        if isinstance(error, OSError) and "INTERRUPT" not in str(error):
            raise
        raise UsageError(
            f"The query was stopped after {LONGEST_S:.0f} s, the limit of a read-only query. "
            "Query less data."
        ) from None
    finally:
        timer.cancel()
        timer.join()


def rows_of(relation: Any) -> Iterator[tuple[Any, ...]]:
    """The rows of a relation, made Python objects batch by batch: there may be very many."""
    for batch in pa.RecordBatchReader.from_stream(relation):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


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
