"""The tables of rollups and the questions about jobs, as a page of the documentation."""

from __future__ import annotations

from collections.abc import Iterator

from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rollup.schema import ROLLUP_TABLES, VERSION

_ABOUT = f"""# What is added up of a job's processes

Version {VERSION}. A process that is saved as one of several gets a *rollup*: files beside its
tables that hold what questions about all of them need. `opscope ranks --ask` and `Job.query` ask
them; `Job.steps`, `Job.account`, `Job.collectives` and `opscope ranks` read no trace either.

    job/
      rank=00000/
        manifest.json, events.parquet, ...     the trace
        rollup.json                            what the rollup was made of, and of which version
        rollup_steps.parquet                   ... and its tables

`rollup.json` has a hash of the manifest beside it and the sizes of the files. A rollup that does
not fit the trace, is damaged, lies with another rank or is of another version is not used; the next
question about the job makes it again, or `opscope ranks --rollup FOLDER`. Readers of
traces do not look at these files, so that they can be removed at any time.

Text is text, and -1 is "none" or "not known". Times are nanoseconds. Any reader of Parquet adds up
the files of all ranks as they are:

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
