"""SQL statements of untrusted users: no files, no network, bounded in time, memory and size.

DuckDB can read and write any file, attach databases, load extensions and look into Python's
variables. All of that is switched off here, and the settings are locked, for as long as the
connection lives. What remains is reading the tables of one trace.

The bound on memory is DuckDB's own. It does not count single texts, of which a function can make
one of 4 GB: a service gives the process that runs queries a limit of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from opscope.errors import MissingDependencyError, UsageError
from opscope.trace.arrow import pa
from opscope.trace.duck import duckdb

LONGEST_S = 60.0
MEMORY_BYTES = 1 << 30
RESULT_BYTES = 1 << 28
THREADS = 2

_SETTINGS = (
    "set python_enable_replacements = false",  # names of Python's variables as tables
    "set autoinstall_known_extensions = false",
    "set autoload_known_extensions = false",
    "set allow_community_extensions = false",
    "set allow_persistent_secrets = false",
    "set temp_directory = ''",  # what does not fit in memory would be written there
    f"set memory_limit = '{MEMORY_BYTES >> 20}MiB'",
    f"set threads = {THREADS}",
    "set enable_external_access = false",
    "set lock_configuration = true",  # after this no setting can be changed
)


def lock(connection: Any) -> None:
    """Leave a connection nothing but the tables it has.

    Raises:
        MissingDependencyError: this DuckDB cannot be locked.
    """
    try:
        for setting in _SETTINGS:
            connection.execute(setting)
    except duckdb.Error as error:
        raise MissingDependencyError(
            f"This version of DuckDB ({duckdb.__version__}) cannot be locked: {error} "
            "Upgrade it with: pip install -U duckdb"
        ) from error


@contextlib.contextmanager
def bounded_time(connection: Any, longest_s: float | None = None) -> Iterator[None]:
    """Interrupt what runs on ``connection`` once it has taken too long.

    Raises:
        UsageError: it did.
    """
    longest_s = LONGEST_S if longest_s is None else longest_s
    timer = threading.Timer(longest_s, _interrupt, [connection])
    timer.daemon = True
    timer.start()
    try:
        yield
    except (duckdb.InterruptException, OSError) as error:
        if isinstance(error, OSError) and "INTERRUPT" not in str(error):
            raise
        raise UsageError(
            f"The query was stopped after {longest_s:.0f} s, the longest a locked query may take. "
            "Ask for less."
        ) from None
    finally:
        timer.cancel()


def _interrupt(connection: Any) -> None:
    with contextlib.suppress(duckdb.Error):  # the query has finished meanwhile
        connection.interrupt()


def bounded_table(relation: Any) -> pa.Table:
    """The rows of ``relation``, unless there are too many to hold.

    Raises:
        UsageError: there are.
    """
    batches, size = [], 0
    with pa.RecordBatchReader.from_stream(relation) as reader:
        for batch in reader:
            batches.append(batch)
            size += batch.nbytes
            if size > RESULT_BYTES:
                raise UsageError(
                    f"The result has more than {RESULT_BYTES >> 20} MiB, the most a locked query "
                    "may return. Ask for less, or add a limit."
                )
        return pa.Table.from_batches(batches, reader.schema)
