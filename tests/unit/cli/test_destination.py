"""Files of ``opscope run``: where they go, and what stands in their way."""

from pathlib import Path

import pytest

from opscope.cli.destination import check, choose, write_or_rescue
from opscope.errors import UsageError
from opscope.export.chrome.writer import FORMAT
from opscope.recording.streams.trace_request import CHROME_SUFFIXES, Destination
from support.build_trace import build_trace, span


@pytest.fixture(autouse=True)
def current_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("WORLD_SIZE", raising=False)
    return tmp_path


def test_by_default_a_new_folder_in_the_current_one(current_folder):
    assert choose(None, None, "train").trace == current_folder / "train.opscope"
    (current_folder / "train.opscope").mkdir()
    assert choose(None, None, "train").trace == current_folder / "train-2.opscope"
    (current_folder / "train-2.opscope").mkdir()
    assert choose(None, None, "train").trace == current_folder / "train-3.opscope"


def test_ranks_share_the_trace_but_not_the_chrome_file(current_folder, monkeypatch):
    monkeypatch.setenv("WORLD_SIZE", "8")
    monkeypatch.setenv("RANK", "5")
    chosen = choose(Path("run"), Path("run.json"), "train")
    assert chosen == Destination(current_folder / "run", current_folder / "run-rank-5.json")


def test_check_creates_what_is_missing(current_folder):
    check(choose(Path("new/run"), Path("other/run.json"), "train"))
    assert sorted(p.name for p in current_folder.iterdir()) == ["new", "other"]
    assert list((current_folder / "new").iterdir()) == []


def test_an_earlier_trace_may_be_replaced(current_folder):
    trace = build_trace([span("aten::mm", 0, 5)])
    for folder in ("run/cycle-1", "run/cycle-2", "run"):  # a schedule's trace, then a plain one
        for _ in range(2):
            check(choose(Path(folder), None, "train"))
            trace.save(folder)
    assert sorted(entry.name for entry in Path("run").iterdir()) == [
        "cycle-1", "cycle-2", "rank=00000"
    ]  # fmt: skip


def test_what_a_trace_cannot_replace_is_refused_before_the_program_runs(current_folder):
    (current_folder / "run" / "rank=00000").mkdir(parents=True)  # of another program
    with pytest.raises(UsageError, match="contains rank=00000, which does not belong to a trace"):
        check(choose(Path("run"), None, "train"))


@pytest.mark.parametrize(
    ("output", "chrome", "said"),
    [
        ("file", None, "is a file"),
        ("file/run", None, "/file is not writable"),
        ("full", None, "contains notes.txt"),
        ("run", "full", "should end in .json"),
        ("run", "folder.json", "is a folder"),
        ("/proc/run", None, "/proc is not writable"),
    ],
)
def test_what_stands_in_the_way(current_folder, output, chrome, said):
    (current_folder / "file").touch()
    (current_folder / "full").mkdir()
    (current_folder / "full" / "notes.txt").touch()
    (current_folder / "folder.json").mkdir()
    with pytest.raises(UsageError, match=said):
        check(choose(Path(output), chrome and Path(chrome), "train"))
    assert (current_folder / "full" / "notes.txt").exists()


def test_what_cannot_be_written_is_rescued(current_folder):
    (current_folder / "file").touch()
    path, refused = write_or_rescue(lambda p: p.write_text("kept"), current_folder / "file/out.txt")
    assert isinstance(refused, OSError)
    assert path.read_text() == "kept"
    assert current_folder not in path.parents
    wanted = current_folder / "new" / "out.txt"
    assert write_or_rescue(lambda p: p.write_text("kept"), wanted) == (wanted, None)
    assert wanted.read_text() == "kept"


def test_chrome_files_are_those_that_its_writer_takes():
    assert sorted(CHROME_SUFFIXES) == sorted(FORMAT.suffixes)
