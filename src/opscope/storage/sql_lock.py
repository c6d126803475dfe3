"""SQL statements of strangers: DuckDB's own settings, and an end to what a statement takes.

DuckDB's bound on memory does not count single texts, of which a function can make one of 4 GB: a
service gives the process that runs queries a limit of its own.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Iterator
from typing import Any

from opscope.base.arrow import pa
from opscope.errors import UsageError
from opscope.storage.duck import duckdb

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


@contextlib.contextmanager
def bounded_time(connection: Any) -> Iterator[None]:
    """Interrupt what runs on ``connection`` once it has taken too long.

    Raises:
        UsageError: it did.
    """
    timer = threading.Timer(LONGEST_S, connection.interrupt)
    timer.daemon = True
    timer.start()
    try:
        yield
    except (duckdb.InterruptException, OSError) as error:
        if isinstance(error, OSError) and "INTERRUPT" not in str(error):
            raise
        raise UsageError(
            f"The query was stopped after {LONGEST_S:.0f} s, the longest a locked query may take. "
            "Ask for less."
        ) from None
    finally:
        timer.cancel()
        timer.join()


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
