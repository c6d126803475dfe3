"""``opscope sql``: rows as CSV, JSON lines or a table."""

import json

QUERY = "select name, count(*) as n from named_events group by name order by n desc, name"


def test_csv_where_there_is_no_terminal(command_line, trace_folder):
    outcome = command_line("sql", trace_folder, QUERY)
    assert (outcome.code, outcome.err) == (0, "opscope: DROPPED: 2 (memory budget)\n")
    assert outcome.out == "name,n\naten::mm,3\naten::add,1\nstep,1\n"


def test_json_has_no_numbers_that_its_readers_refuse(command_line, trace_folder):
    query = "select 'nan'::double a, ['inf'::double, 1] b, {'c': '-inf'::float} d, 1.5::double e"
    outcome = command_line("sql", trace_folder, query, "--format", "json")

    def refuse(constant):
        raise ValueError(constant)

    found = json.loads(outcome.out, parse_constant=refuse)
    assert found == {"a": None, "b": [None, 1], "d": {"c": None}, "e": 1.5}


def test_table(command_line, trace_folder):
    outcome = command_line("sql", trace_folder, QUERY, "--format", "table")
    assert [line.split() for line in outcome.out.splitlines()] == [
        ["name", "n"],
        ["aten::mm", "3"],
        ["aten::add", "1"],
        ["step", "1"],
    ]
    markdown = command_line("sql", trace_folder, QUERY, "--format", "md").out.splitlines()
    assert "| aten::mm | 3 |" in markdown


def test_a_table_has_an_end(command_line, trace_folder):
    outcome = command_line("sql", trace_folder, "select * from range(5000)", "--format=table")
    assert len(outcome.out.splitlines()) == 1001
    assert "only the first 1000 rows" in outcome.err
    everything = command_line("sql", trace_folder, "select * from range(5000)")
    assert len(everything.out.splitlines()) == 5001


def test_no_rows_is_reported(command_line, trace_folder):
    query = "select * from events where false"
    outcome = command_line("sql", trace_folder, query, "--format", "table")
    assert outcome.code == 0
    assert "no rows" in outcome.err


def test_a_locked_query(command_line, trace_folder, tmp_path):
    (tmp_path / "secret.csv").write_text("secret\n42\n")
    file = f"select * from read_csv('{tmp_path}/secret.csv')"
    assert "42" in command_line("sql", trace_folder, file).out
    outcome = command_line("sql", trace_folder, file, "--read-only")
    assert (outcome.code, outcome.out) == (2, "")
    assert "The query is not permitted" in outcome.complaint
    assert command_line("sql", trace_folder, QUERY, "--read-only").code == 0
