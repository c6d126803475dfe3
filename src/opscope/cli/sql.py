"""Run an SQL query on a trace.

The tables are those of the trace; named_events is `events` with names instead of numbers. A query
can do all that DuckDB can: read and write any file, attach databases, load extensions. With
--read-only it reads only the trace, and is limited to one minute, 1 GiB of memory and a result of
256 MiB; use it for queries from others.

For a folder with several processes, the tables hold the rows of all, with the columns rank and
process; join tables on these as well.
"""

from __future__ import annotations

import itertools
import json
import math
import sys
from argparse import Namespace
from collections.abc import Iterable, Iterator
from typing import Any

from opscope.base.printable import printable
from opscope.cli.parser import Parser, example, one_of
from opscope.cli.trace_argument import add_trace, choose_trace, load_chosen, long_trace
from opscope.cli.views.console import Messages, Output
from opscope.cli.views.results import Result, RowsFormat, Section, write_csv
from opscope.cli.whole_job import of_readable
from opscope.storage.sql import query as query_trace
from opscope.storage.sql import rows_of
from opscope.storage.sql_on_disk import query_long

TABLE_ROWS = 1000
"""Maximum number of rows of a table, which has to be in memory."""


def options(parser: Parser) -> None:
    """Add the options."""
    add_trace(parser, period=False, part=False)
    parser.add_argument(
        "query", metavar="QUERY", help="One SELECT statement (or `describe TABLE`)."
    )
    parser.add_argument(
        "--format",
        **one_of(RowsFormat),
        help="Output format. [default: table on a terminal, else csv]",
    )
    parser.add_argument(
        "--read-only",
        action="store_true",
        help="Restrict the query to reading the trace, and limit its time and memory.",
    )
    parser.epilog = example(
        'opscope sql "select name, sum(duration_us) from named_events group by name order by 2"',
        'opscope sql job "select rank, count(*) from events group by rank"',
    )


def main(args: Namespace) -> None:
    """Print the rows."""
    is_terminal = sys.stdout is not None and sys.stdout.isatty()
    format = args.format or (RowsFormat.TABLE if is_terminal else RowsFormat.CSV)
    chosen = choose_trace(args)
    if chosen.is_of_several:
        doing = f"reading {chosen.path}"
        relation, *_ = of_readable(
            chosen.job, doing, lambda job: job.sql(args.query, args.read_only)
        )
    elif (long := long_trace(chosen)) is not None:
        relation = query_long(long, args.query, args.read_only)
    else:
        relation = query_trace(load_chosen(chosen), args.query, args.read_only)
    columns = list(relation.columns)
    rows = rows_of(relation)
    if format is RowsFormat.CSV:
        write_csv(Output(), columns, rows)
    elif format is RowsFormat.JSON:
        _print_json(columns, rows)
    else:
        _print_table(columns, rows, format)


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
        # One object per line, so that readers can begin before the last row.
        plain = map(_json_value, row)
        output.write(json.dumps(dict(zip(columns, plain, strict=True)), default=str) + "\n")


def _json_value(value: Any) -> Any:
    """``value`` with None for NaN and infinity, which JSON does not have."""
    if isinstance(value, float) and not math.isfinite(value):
        return None
    if isinstance(value, list):
        return [_json_value(one) for one in value]
    if isinstance(value, dict):
        return {key: _json_value(one) for key, one in value.items()}
    return value
