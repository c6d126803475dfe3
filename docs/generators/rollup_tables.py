"""The tables of rollups and the questions about jobs, as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rollup.schema import ROLLUP_TABLES, VERSION

_ABOUT = f"""# Rollups of a job's processes

Version {VERSION}. A *rollup* is a set of small files beside the tables of a process, with the sums
that questions about a job need. `opscope ranks`, `opscope ranks --ask`, `Job.query`, `Job.steps`,
`Job.account` and `Job.collectives` read rollups and no traces.

    job/
      rank=00000/
        manifest.json, events.parquet, ...     the trace
        rollup.json                            version, and a hash of the trace
        rollup_steps.parquet                   ... and its tables

`rollup.json` has a hash of the manifest beside it and the sizes of the files. opscope ignores a
rollup that does not match the trace, is damaged, belongs to another rank or has another version.
The next question about the job, or `opscope ranks --rollup FOLDER`, makes it again. Readers of
traces do not read these files, so you can remove them at any time.

Names are stored as text, and -1 means "none" or "unknown". Times are nanoseconds. Any reader of
Parquet can query the files of all ranks together:

```sql
select name, sum(self_ns), arg_max(rank, self_ns)
from read_parquet('job/rank=*/rollup_operators.parquet', hive_partitioning = false)
group by name order by 2 desc limit 10;
```

## Questions
"""


def rollup_tables() -> str:
    """The page, as Markdown."""
    return "\n".join(_lines()) + "\n"


def _lines() -> Iterator[str]:
    yield _ABOUT
    yield "| `opscope ranks --ask QUESTION FOLDER` | rows |"
    yield "|---|---|"
    for question in JobQuestion:
        yield f"| `{question.value}` | {question.meaning} |"
    yield ""
    yield "## Tables"
    for table in ROLLUP_TABLES.values():
        yield f"\n### {table.name}\n\nOne row is {table.row}.\n"
        yield "| column | type | meaning |"
        yield "|---|---|---|"
        for column in table.columns:
            yield f"| `{column.name}` | {column.dtype} | {column.meaning} |"
