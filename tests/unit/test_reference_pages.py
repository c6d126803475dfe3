"""Pages of the documentation that are made of the code say all that it declares."""

from pathlib import Path

from docs.generators.command_line import command_line
from docs.generators.error_messages import error_messages, find_messages
from docs.generators.file_format import file_format
from docs.generators.recorded import what_is_recorded
from docs.generators.rollup_tables import rollup_tables

from opscope.cli.application import COMMANDS
from opscope.columns.schema import TABLES
from opscope.jobs.questions.questions import JobQuestion
from opscope.jobs.rollup.schema import ROLLUP_TABLES
from opscope.recording.sources import SOURCES

DOCUMENT = Path(__file__).parents[2] / "docs" / "file-format.md"


def test_texts_of_errors_however_they_are_made_without_markup(monkeypatch):
    messages = list(find_messages())
    assert len({message.module for message in messages}) > 80
    first = ("opscope.torch_api.profile_recording", "There is no recording yet.")
    by_a_function = (
        "opscope.replay.replay",
        "None of the … distinct operator calls can be replayed (…).",
    )
    for module, text in (first, by_a_function):
        assert any(m.module == module and text in m.text for m in messages)
    monkeypatch.setattr("docs.generators.error_messages.find_messages", lambda: messages)
    page = error_messages()
    assert all(line.count("|") == 3 for line in page.splitlines() if line.startswith("| "))
    assert "## TraceFormatError" in page and "*" not in page


def test_every_command_is_on_the_page():
    assert all(f"usage: opscope {name} " in command_line() for name in COMMANDS)


def test_rollups_are_described_whole():
    page = rollup_tables()
    for table in ROLLUP_TABLES.values():
        for column in table.columns:
            assert f"| `{column.name}` | {column.dtype} | {column.meaning} |" in page
    for question in JobQuestion:
        assert f"| `{question.value}` | {question.meaning} |" in page
    assert {line.count("|") for line in page.splitlines() if line.startswith("|")} <= {3, 4}


def test_every_source_has_a_row_of_as_many_cells():
    lines = [line.split(" | ") for line in what_is_recorded().splitlines() if line[:2] == "| "]
    rows = {cells[0].removeprefix("| "): cells for cells in lines[1:]}
    assert list(rows) == [source.name for source in SOURCES]
    assert {len(cells) for cells in rows.values()} == {6}
    assert "`--modules`" in rows["modules and optimizers"][3]


def test_the_file_format_is_described_as_it_is():
    text = file_format()
    assert DOCUMENT.read_text(encoding="utf-8") == text, (
        "run: python -m docs.generators.file_format > docs/file-format.md"
    )
    for name, table in TABLES.items():
        section = text.split(f"### {name}\n")[1].split("### ")[0]
        for column in table.columns:
            assert f"| `{column.name}` | {column.dtype} |" in section
