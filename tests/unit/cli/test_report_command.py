"""``opscope report``: where the page goes, what it says."""

from __future__ import annotations

from pathlib import Path

import pytest

from opscope.api.trace import Trace
from opscope.cli.destination import check, choose
from opscope.columns.names import Names
from opscope.errors import UsageError
from support.read_report import read_page, read_report


def test_the_page_is_written_where_requested(command_line, trace_folder, tmp_path):
    page = tmp_path / "out.html"
    outcome = command_line("report", trace_folder, "-o", page, "--title", "My run")
    assert outcome.code == 0
    assert str(page) in outcome.err
    assert read_page(page.read_text()).title == "My run"
    assert len(read_report(page.read_text()).spans) == 5


@pytest.mark.parametrize("name", ["small.opscope", "small"])
def test_without_a_name_it_is_called_after_the_trace(
    command_line, trace_folder, tmp_path, monkeypatch, name
):
    monkeypatch.chdir(tmp_path)
    trace_folder.rename(tmp_path / name)
    assert command_line("report", name).code == 0
    assert (tmp_path / "small.html").is_file()


def test_an_empty_trace_is_a_page_too(command_line, tmp_path):
    Trace({}, Names.from_strings([])).save(tmp_path / "empty.opscope")
    outcome = command_line("report", tmp_path / "empty.opscope", "-o", tmp_path / "a.html")
    assert outcome.code == 0, outcome.err
    assert read_report((tmp_path / "a.html").read_text()).spans == []


def test_run_names_reports_of_cycles_and_ranks(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    files = choose(None, None, "train", Path("page.html"))
    assert files.report == tmp_path / "page.html"
    assert files.of_cycle(2).report == tmp_path / "page-cycle-2.html"
    monkeypatch.setenv("RANK", "3")
    monkeypatch.setenv("WORLD_SIZE", "4")
    assert choose(None, None, "train", Path("page.html")).report == tmp_path / "page-rank-3.html"
    with pytest.raises(UsageError, match="should end in"):
        choose(None, None, "train", Path("page.txt"))
    (tmp_path / "folder.html").mkdir()
    monkeypatch.delenv("RANK")
    with pytest.raises(UsageError, match="--report needs a file name"):
        check(choose(None, None, "train", tmp_path / "folder.html"))
