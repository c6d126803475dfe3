"""Query engines: DuckDB in this process, or Spark. Both read the same files and expressions."""

from __future__ import annotations

import os
import re
import shutil
import uuid
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from enum import Enum
from pathlib import Path
from typing import Any, Protocol

from opscope.errors import MissingDependencyError, UsageError
from opscope.jobs.rollup.schema import ROLLUP_TABLES

MASTER = "OPSCOPE_SPARK_MASTER"  # environment variable with the Spark master
LOCAL = "local[*]"

_SETTINGS = {
    "spark.app.name": "opscope",
    "spark.log.level": "ERROR",
    "spark.ui.enabled": "false",
    "spark.ui.showConsoleProgress": "false",
    "spark.sql.session.timeZone": "UTC",
    "spark.sql.execution.arrow.pyspark.enabled": "true",
}
_OF_LOCAL = {
    "spark.driver.bindAddress": "127.0.0.1",
    "spark.driver.host": "127.0.0.1",
    # Spark's default of 200 almost empty partitions takes seconds more.
    "spark.sql.shuffle.partitions": "4",
    # Files are small and local: a task for each takes longer than all else.
    "spark.sql.sources.parallelPartitionDiscovery.threshold": "1000000",
}


class EngineName(str, Enum):
    """The available engines."""

    DUCKDB = "duckdb"
    SPARK = "spark"


class Engine(Protocol):
    """Reads tables and runs expressions over them."""

    def table(self, name: str, files: Sequence[Path]) -> Any:
        """One table of the rollups of all processes, for expressions."""

    def run(self, expression: Any) -> Any:
        """The resulting rows, as a ``pyarrow.Table``."""


@contextmanager
def engine_called(name: EngineName, master: str | None = None) -> Iterator[Engine]:
    """An engine, ready to use; errors and ``master`` as in :func:`query_job`."""
    if name is EngineName.DUCKDB:
        if master is not None:
            raise UsageError("--master is for Spark. Add --engine spark, or omit --master.")
        yield _DuckDB()
        return
    spark = _Spark(master)
    try:
        yield spark
    finally:
        spark.forget()


class _DuckDB:
    def __init__(self) -> None:
        self._connection = _ibis().duckdb.connect()

    def table(self, name: str, files: Sequence[Path]) -> Any:
        paths = [_escaped(file, "[*?", "[{}]") for file in files]
        return self._connection.read_parquet(paths, table_name=name, hive_partitioning=False)

    def run(self, expression: Any) -> Any:
        # Avoids pandas, which Ibis imports to convert rows.
        rows = self._connection.con.sql(self._connection.compile(expression)).to_arrow_table()
        return rows.cast(expression.schema().to_pyarrow())


class _Spark:
    def __init__(self, master: str | None) -> None:
        ibis = _ibis()
        self._session = _session(master)
        self._connection = ibis.pyspark.connect(self._session)
        self._views: list[str] = []
        self._own = f"opscope_{uuid.uuid4().hex}"

    def table(self, name: str, files: Sequence[Path]) -> Any:
        paths = [
            f"file://{_escaped(file.absolute(), '[]{}*?^,', chr(92) + '{}')}" for file in files
        ]
        view = f"{self._own}_{name}"
        read = self._session.read.schema(_schema(name)).parquet(*paths)
        read.createOrReplaceTempView(view)
        self._views.append(view)
        return self._connection.table(view)

    def run(self, expression: Any) -> Any:
        rows = self._session.sql(self._connection.compile(expression)).toArrow()
        return rows.cast(expression.schema().to_pyarrow())

    def forget(self) -> None:
        """Drop the tables of one question; the session stays, as starting one takes seconds."""
        for view in self._views:
            with suppress(Exception):
                self._session.catalog.dropTempView(view)


def _escaped(path: Path, special: str, how: str) -> str:
    """A path without characters that an engine takes for a pattern."""
    return re.sub(f"[{re.escape(special)}]", lambda one: how.format(one[0]), os.fspath(path))


def _schema(name: str) -> str:
    kinds = {"int64": "BIGINT", "float64": "DOUBLE", "string": "STRING"}
    columns = ROLLUP_TABLES[name].columns
    return ", ".join(f"`{column.name}` {kinds[column.dtype]}" for column in columns)


def _ibis() -> Any:
    try:
        import ibis
    except ImportError as error:
        raise MissingDependencyError(
            "Queries about a job need Ibis, which is not installed. Run: pip install "
            "'opscope[job]'."
        ) from error
    return ibis


def _session(master: str | None) -> Any:
    """This process's Spark session, or a new one."""
    try:
        from pyspark.sql import SparkSession
    except ImportError as error:
        raise MissingDependencyError(
            "The engine spark needs PySpark, which is not installed. Run: pip install "
            "'opscope[spark]' (or use the engine duckdb, which gives the same results)."
        ) from error
    chosen = master or os.environ.get(MASTER) or ""
    active = SparkSession.getActiveSession()
    if active is not None:
        return active
    _check_java()
    builder = SparkSession.builder.master(chosen or LOCAL)
    settings = dict(_SETTINGS)
    if not chosen or chosen.startswith("local"):
        settings |= _OF_LOCAL
    for key, value in settings.items():
        builder = builder.config(key, value)
    try:
        return builder.getOrCreate()
    except Exception as error:
        first = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
        raise UsageError(
            f"Spark does not start with master {chosen or LOCAL}: {first}. Check the master "
            f"(--master, {MASTER}) and that Java runs here, or use the engine duckdb."
        ) from error


def _check_java() -> None:
    home = os.environ.get("JAVA_HOME")
    found = Path(home, "bin", "java").exists() if home else shutil.which("java")
    if not found:
        raise MissingDependencyError(
            "The engine spark needs Java 17, which is not on the PATH, nor at JAVA_HOME. "
            "Install it, or use the engine duckdb, which gives the same results."
        )
