"""The page about rollups names every table, column and question."""

from opscope.cli.rollup_reference import rollup_tables
from opscope.job.queries.questions import JobQuestion
from opscope.rollup.schema import ROLLUP_TABLES


def test_nothing_is_left_out():
    page = rollup_tables()
    for table in ROLLUP_TABLES.values():
        assert f"### {table.name}\n" in page
        for column in table.columns:
            assert f"| `{column.name}` | {column.dtype} | {column.meaning} |" in page
    for question in JobQuestion:
        assert f"| `{question.value}` | {question.meaning} |" in page


def test_no_meaning_breaks_a_row():
    rows = [line for line in rollup_tables().splitlines() if line.startswith("|")]
    assert {line.count("|") for line in rows} <= {3, 4}
