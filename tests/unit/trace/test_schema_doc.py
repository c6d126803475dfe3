"""docs/file-format.md is what the schema says."""

from pathlib import Path

from opscope.trace import schema_doc
from opscope.trace.schema import TABLES

DOCUMENT = Path(__file__).parents[3] / "docs" / "file-format.md"


def test_the_document_is_current():
    assert DOCUMENT.read_text(encoding="utf-8") == schema_doc.file_format(), (
        "run: python -m opscope.trace.schema_doc docs/file-format.md"
    )


def test_every_column_is_in_it():
    text = schema_doc.file_format()
    for name, table in TABLES.items():
        section = text.split(f"### {name}\n")[1].split("### ")[0]
        for column in table.columns:
            assert f"| `{column.name}` | {column.dtype} |" in section


def test_main_writes_the_file_or_prints_it(tmp_path, capsys):
    schema_doc.main([str(tmp_path / "x.md")])
    schema_doc.main([])
    assert capsys.readouterr().out == (tmp_path / "x.md").read_text(encoding="utf-8")
