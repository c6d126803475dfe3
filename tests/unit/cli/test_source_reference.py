"""The page about what can be recorded is what the declarations say."""

from opscope.cli.source_reference import what_is_recorded
from opscope.recording.sources import SOURCES


def rows():
    lines = [line.split(" | ") for line in what_is_recorded().splitlines() if line[:2] == "| "]
    return {cells[0].removeprefix("| "): cells for cells in lines[1:]}


def test_every_source_has_a_row_of_as_many_cells():
    assert list(rows()) == [source.name for source in SOURCES]
    assert {len(cells) for cells in rows().values()} == {6}


def test_a_row_says_how_to_ask_for_it():
    assert rows()["modules and optimizers"][2:4] == [
        "`with_stack=True`, `with_functions=True`, `with_own_functions=True`, `with_modules=True`",
        "`--c-calls`, `--stack`, `--own-stack`, `--modules`",
    ]
    assert rows()["annotations"][2:4] == ["", ""]
