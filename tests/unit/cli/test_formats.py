"""``--format`` means the same wherever a command prints a result."""

import csv
import io
import json

import pytest

COMMANDS = {
    "summary": [],
    "memory": [],
    "sql": ["select name, duration_us from named_events"],
}
FIRST_COLUMN = {"summary": "name", "memory": "by", "sql": "name"}


@pytest.fixture
def printed(command_line, trace_folder):
    def call(command, format):
        arguments = [command, trace_folder, *COMMANDS[command], "--format", format]
        outcome = command_line(*arguments)
        assert outcome.code == 0, outcome.err
        return outcome.out

    return call


@pytest.mark.parametrize("command", COMMANDS)
def test_csv(printed, command):
    heading, *rows = csv.reader(io.StringIO(printed(command, "csv")))
    assert heading[0] == FIRST_COLUMN[command]
    assert rows and all(len(row) == len(heading) for row in rows)


@pytest.mark.parametrize("command", COMMANDS)
def test_markdown(printed, command):
    lines = printed(command, "md").splitlines()
    assert any(line.startswith(("| ", "## ")) for line in lines)


@pytest.mark.parametrize("command", COMMANDS)
def test_json(printed, command):
    text = printed(command, "json")
    assert json.loads(text.splitlines()[0] if command == "sql" else text)


@pytest.mark.parametrize("command", COMMANDS)
def test_an_unknown_format(command_line, trace_folder, command):
    outcome = command_line(command, trace_folder, *COMMANDS[command], "--format", "xml")
    assert outcome.code == 2
    assert "--format: 'xml' is not one of table, md, json, csv." in outcome.complaint


def test_groups_of_memory_in_rows(printed):
    rows = list(csv.DictReader(io.StringIO(printed("memory", "csv"))))
    assert {row["by"] for row in rows} == {"category", "module", "operator", "stack", "line"}
    assert {row["size_bytes"] for row in rows} == {"4096"}
