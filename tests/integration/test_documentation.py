"""What the documentation tells people to type works, and shows what they will see."""

import re
from pathlib import Path

import pytest

from support.documentation import blocks_of, commands_of, run_command

DOCS = Path(__file__).parents[2] / "docs"
PAGES = [DOCS / "get-started.md", *sorted((DOCS / "guides").glob("*.md"))]
# A first line with a figure or a path is an example; of others, the beginning is the same
# everywhere: tables leave out columns that do not fit.
_EXAMPLE_LINE = re.compile(r"\d|/|^opscope:")
_TAKES = {"processes": "ibis"}  # what pages tell the reader to install
_ABOUT_THE_MACHINE = ("opscope doctor",)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_everything_on_a_page_runs(page, tmp_path, monkeypatch):
    # GIVEN an empty folder, as a reader has, and what the page says it takes
    if page.stem in _TAKES:
        pytest.importorskip(_TAKES[page.stem], reason=f"{_TAKES[page.stem]} is not installed")
    monkeypatch.chdir(tmp_path)
    names = {}
    ran = 0

    # WHEN all blocks are followed in order
    for block in blocks_of(page):
        if block.language == "python" and block.title:
            Path(block.title).write_text(block.text)
        elif block.language == "python":
            exec(compile(block.text, f"{page.name}", "exec"), names)
            ran += 1
        elif block.language == "console":
            for command, shown in commands_of(block):
                printed = run_command(command, tmp_path)
                ran += 1

                # THEN what is printed begins like what the page shows
                beginnings = [line.split()[:2] for line in printed.splitlines()]
                for line in shown[:1] if command not in _ABOUT_THE_MACHINE else ():
                    if not _EXAMPLE_LINE.search(line):
                        assert line.split()[:2] in beginnings, (command, printed)
    assert ran


def test_the_readme_shows_what_there_is():
    readme = (DOCS.parent / "README.md").read_text()
    for target in re.findall(r"\]\(([^)#]+)", readme):
        if not target.startswith("http"):
            assert (DOCS.parent / target).exists(), target
