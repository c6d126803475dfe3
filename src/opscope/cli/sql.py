"""``opscope sql``: ask a trace anything."""

from __future__ import annotations

import itertools
import json
import math
import sys
from collections.abc import Iterable, Iterator
from typing import Annotated, Any

from opscope.base.arrow import pa
from opscope.base.printable import printable
from opscope.cli.parameters import Argument, Option
from opscope.cli.shown.console import Messages, Output
from opscope.cli.shown.results import Result, RowsFormat, Section, write_csv
from opscope.cli.trace_argument import (
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    load_chosen,
    long_trace,
)
from opscope.cli.whole_job import of_readable
from opscope.storage.sql import query as query_trace
from opscope.storage.sql import query_long

TABLE_ROWS = 1000
"""More than anybody reads on a terminal, few enough to lay out at once."""


def sql(
    trace: TraceArgument = None,
    *,
    query: Annotated[str, Argument(metavar="QUERY", help="One SELECT (or `describe TABLE`).")],
    format: Annotated[
        RowsFormat | None,
        Option(help="How to print the rows.", default="table on a terminal, else csv"),
    ] = None,
    rank: RankOption = None,
    process: ProcessOption = None,
    read_only: Annotated[
        bool,
        Option(help="Let the query reach nothing but the trace, and bound what it takes."),
    ] = False,
) -> None:
    """Run an SQL query over a trace.

    The tables are those of the trace; named_events is events as a person reads it. For example:

        select name, count(*), sum(duration_us) from named_events group by name order by 3 desc

    A query can do what DuckDB can: read and write any file, attach databases, load extensions. With
    --read-only it can do none of that, and is stopped after a minute, 1 GiB of memory or a result
    of 256 MiB; use it for queries that others have written.

    Of a folder with several processes and none chosen, the tables hold the rows of all, with the
    columns rank and process; join tables on these as well. For example:

        select rank, name, sum(duration_us) from named_events group by all order by 3 desc
    """
    chosen = format or (
        RowsFormat.TABLE if sys.stdout is not None and sys.stdout.isatty() else RowsFormat.CSV
    )
    which = choose_trace(trace, rank, process)
    long = None if which.is_of_several else long_trace(which)
    if which.is_of_several:
        reading = f"reading {which.path}"
        relation = of_readable(which.job, reading, lambda job: job.sql(query, read_only)).found
    elif long is None:
        relation = query_trace(load_chosen(which), query, read_only)
    else:
        relation = query_long(long, query, read_only)
    columns = list(relation.columns)
    rows = _rows(relation)
    if chosen is RowsFormat.CSV:
        write_csv(Output(), columns, rows)
    elif chosen is RowsFormat.JSON:
        _print_json(columns, rows)
    else:
        _print_table(columns, rows, chosen)


def _rows(relation: Any) -> Iterator[tuple[Any, ...]]:
    """The rows, made Python objects batch by batch: there may be many more than anybody reads."""
    for batch in pa.RecordBatchReader.from_stream(relation):
        yield from zip(*(column.to_pylist() for column in batch.columns), strict=True)


def _print_table(columns: list[str], rows: Iterator[tuple[Any, ...]], format: RowsFormat) -> None:
    shown = list(rows if format is RowsFormat.MARKDOWN else itertools.islice(rows, TABLE_ROWS))
    section = Section(columns=list(map(printable, columns)), rows=shown, wraps=True)
    Result(sections=[section], content=None).show(format)
    if next(rows, None) is not None:
        Messages().say(f"only the first {TABLE_ROWS} rows; --format csv prints all")
    elif not shown:
        Messages().say("no rows match")


def _print_json(columns: list[str], rows: Iterable[tuple[Any, ...]]) -> None:
    output = Output()
    for row in rows:
        # One object a line, so that a reader can begin before the last row is there.
        plain = map(_in_json, row)
        output.write(json.dumps(dict(zip(columns, plain, strict=True)), default=str) + "\n")


def _in_json(value: Any) -> Any:
    """JSON has no number that is none, or infinite: most of its readers refuse the whole line."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_in_json(one) for one in value]
    if isinstance(value, dict):
        return {key: _in_json(one) for key, one in value.items()}
    return value
