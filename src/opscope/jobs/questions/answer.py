"""Queries on a job, and their results."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from opscope.base.html_table import html_table
from opscope.errors import TraceFormatError
from opscope.jobs.questions.engines import EngineName, engine_called
from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rollup.read import Rollup
from opscope.storage.partition import RANK, Partition

_SHOWN = 20


@dataclass(frozen=True, eq=False)
class JobAnswer:
    """Rows that answer a question about a job.

    Attributes:
        processes: number of processes in the answer.
        columns: column names; times are nanoseconds, sizes bytes.
        incomplete: processes with dropped data, or data of a newer opscope; see ``losses``.
        silent: processes without events, which are not in the answer.
    """

    question: JobQuestion
    engine: EngineName
    processes: int
    columns: tuple[str, ...]
    rows: tuple[tuple[Any, ...], ...]
    incomplete: tuple[Partition, ...]
    silent: tuple[Partition, ...] = ()

    def __len__(self) -> int:
        return len(self.rows)

    def as_dicts(self) -> list[dict[str, Any]]:
        """Each row as a dictionary of plain values for JSON."""
        return [dict(zip(self.columns, row, strict=True)) for row in self.rows]

    def to_pandas(self) -> Any:
        """The rows as a ``pandas.DataFrame``; Ibis requires pandas."""
        import pandas

        return pandas.DataFrame(list(self.rows), columns=list(self.columns))

    def __repr__(self) -> str:
        lines = [
            "  " + ", ".join(f"{k} {v}" for k, v in row.items()) for row in self.as_dicts()[:_SHOWN]
        ]
        more = len(self.rows) - _SHOWN
        lines += [f"  and {more:,} more"] if more > 0 else []
        about = f"<JobAnswer: {self.question.value} of {self.processes} processes"
        return "\n".join([about, *lines]) + ">"

    def _repr_html_(self) -> str:
        rows = [[str(value) for value in row] for row in self.rows[:_SHOWN]]
        return html_table(
            f"opscope: {self.question.value} of a job", self.columns, rows, self.question.meaning
        )


def query_job(
    question: JobQuestion,
    rollups: Mapping[Partition, Rollup],
    engine: EngineName,
    limit: int | None = None,
    master: str | None = None,
) -> JobAnswer:
    """Query processes of one kind; ``limit`` None for all rows.

    ``master`` of Spark: None for that of the environment, else this machine.

    Raises:
        MissingDependencyError: the engine is not installed.
        TraceFormatError: a rollup was damaged since it was read.
        UsageError: the engine cannot be reached.
    """
    with engine_called(engine, master) as ready:
        from opscope.jobs.questions.expressions import expression_of  # with Ibis

        try:
            tables = {
                name: ready.table(name, [one.file(name) for one in rollups.values()])
                for name in question.tables
            }
            expression = expression_of(question, tables, [part.number for part in rollups])
            result = ready.run(expression if limit is None else expression.limit(limit))
        except Exception as error:
            if isinstance(error, MemoryError):
                raise
            first = next(iter(str(error).splitlines()), type(error).__name__).rstrip(".")
            raise TraceFormatError(
                f"The query engine {engine.value} failed: {first}. Check that no process "
                "removes or writes the files rollup_*.parquet, then recompute them with "
                "`opscope ranks --rollup --again`."
            ) from error
    kind = next(iter(rollups)).kind
    columns = result.column_names
    return JobAnswer(
        question=question,
        engine=engine,
        processes=len(rollups),
        columns=tuple(name if kind == RANK else _column_name(name) for name in columns),
        rows=tuple(zip(*(result[name].to_pylist() for name in columns), strict=True)),
        incomplete=tuple(part for part, one in rollups.items() if one.mark.lost),
    )


def _column_name(column: str) -> str:
    """Name of a column about ranks, for a job of processes without ranks."""
    return "processes" if column == "ranks" else column.replace("rank", "process")
