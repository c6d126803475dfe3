"""A folder that somebody sent: its links, pipes and names have nothing outside of it read, written
to or removed."""

import json
import os
import shutil
import signal
from pathlib import Path

import pytest

from opscope.base.artefacts import LOCK, LeftKind, at, find, unfinished_name
from opscope.live.children.job import _clear
from opscope.storage.manifest import unfinished_recordings
from support.build_trace import build_trace, span
from support.processes import run_python

TEXT = "mine\n" * 100
DIES = """
import os, sys, torch, opscope
profile = opscope.profile(stream_to=sys.argv[1], keeper=False)
profile.start()
for _ in range(20):
    torch.ones(2).add(1)
os._exit(5)
"""


@pytest.fixture(scope="module")
def left_by_a_program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("left")
    run_python("-c", DIES, folder)
    return folder


@pytest.fixture
def sent(left_by_a_program, tmp_path):
    return Path(shutil.copytree(left_by_a_program, tmp_path / "sent"))


@pytest.fixture
def recording(sent):
    (path,) = unfinished_recordings(sent)
    return path


@pytest.fixture
def mine(tmp_path):
    """What is outside of it, and is to stay as it is."""
    folder = tmp_path / "mine"
    (folder / "000000").mkdir(parents=True)
    for name in ("secret", "lock", "000000/about.json", "manifest.json", "events.parquet"):
        (folder / name).write_text(TEXT)
    yield folder
    assert {file.read_text() for file in folder.rglob("*") if file.is_file()} == {TEXT}
    assert len(list(folder.rglob("*"))) == 6


def segments_of(recording):
    folder = recording.with_suffix(".segments")
    (folder / "000000").mkdir(parents=True)
    for name in ("state", "names.parquet", "late.parquet"):
        (folder / "000000" / name).touch()
    about = {
        "recording": recording.name,
        "rows": {},
        "first_event": 0,
        "is_last": False,
        "account": {
            **dict.fromkeys(("start_ns", "end_ns", "end_monotonic_ns", "missing_blocks"), 0),
            "fault": "",
            "notes": [],
        },
    }
    (folder / "000000/about.json").write_text(json.dumps(about))
    return folder


@pytest.mark.parametrize("command", ["summary", "doctor --recover"])
@pytest.mark.parametrize(
    "where", ["lock", "000000", "000000/about.json", "000000/names.parquet", ""]
)
def test_segments_that_are_links_are_refused(recording, mine, command_line, where, command):
    folder = segments_of(recording)
    place = folder / where if where else folder
    if place.is_dir():
        shutil.rmtree(place)
    else:
        place.unlink(missing_ok=True)
    place.symlink_to({"000000": mine / "000000", "": mine}.get(where, mine / "secret"))
    outcome = command_line(command, recording.parent)
    assert outcome.code == 1 and "it is a link" in outcome.err.replace("\n", " ")
    assert recording.exists()


def test_segments_of_another_recording_are_refused(recording, command_line):
    about = segments_of(recording) / "000000/about.json"
    about.write_text(about.read_text().replace(recording.name, ".recording-1-2.opscope"))
    for command in ("summary", "doctor --recover"):
        outcome = command_line(command, recording.parent)
        assert outcome.code == 1 and "is not a segment of" in outcome.err.replace("\n", " ")
    assert recording.exists()


@pytest.mark.parametrize("make", [os.mkfifo, lambda path: os.symlink("../mine/secret", path)])
def test_hidden_files_that_are_links_or_pipes_hold_nothing_up(recording, mine, command_line, make):
    for name in (
        ".recording-1-2.opscope", ".ring-1-2", ".ring-1-0123456789abcdef-2.json", ".dump-1-2",
        f".rank=00000.7-{'0' * 32}", f".t.json.7-{'0' * 32}.part", "processes.jsonl",
        ".children.json", ".processes.bell",
    ):  # fmt: skip
        make(recording.parent / name)
    assert command_line("doctor --recover", recording.parent).code == 0
    assert command_line("summary", recording.parent).code == 0


def test_what_stands_in_the_place_of_the_trace_is_not_followed(recording, mine, command_line):
    (recording.parent / "rank=00000").symlink_to(mine)
    outcome = command_line("doctor --recover", recording.parent)
    assert outcome.code == 2 and "does not belong to a trace" in outcome.err.replace("\n", " ")


def test_cycles_that_are_links_are_left_alone(recording, mine, command_line):
    shutil.copy(recording, mine.parent / recording.name)
    (recording.parent / "cycle-1").symlink_to(mine.parent)
    command_line("doctor --recover", recording.parent)
    assert (mine.parent / recording.name).exists()
    (mine.parent / "processes.jsonl").write_text(TEXT)
    _clear(recording.parent)
    assert (mine.parent / "processes.jsonl").read_text() == TEXT


@pytest.mark.parametrize("name", ["events.parquet", "names.parquet", "manifest.json"])
def test_tables_that_are_links_are_refused_in_every_reader(tmp_path, command_line, name):
    trace = build_trace([span("aten::mm", 0, 100)])
    for rank in (0, 1):
        trace.save(tmp_path / "t", rank=rank)
    file = tmp_path / "t/rank=00000" / name
    file.rename(tmp_path / name)
    file.symlink_to(tmp_path / name)
    query = "select count(*) from events"
    for code, *words in (
        (0, "sql", query),
        (1, "sql", query, "--rank", "0"),
        (1, "summary", "--rank", "0"),
    ):
        outcome = command_line(words[0], tmp_path / "t", *words[1:])
        assert outcome.code == code and "it is a link" in outcome.err.replace("\n", " "), words


def test_what_a_killed_recover_leaves_is_removed_by_the_next(sent, recording, command_line):
    begun = (
        "import os, signal, sys\n"
        "from pathlib import Path\n"
        "from opscope.cli.views.console import Messages\n"
        "from opscope.cli.session.keeper import recover_all\n"
        "from opscope.storage import parquet\n"
        "parquet.write_table = lambda *_: os.kill(os.getpid(), signal.SIGKILL)\n"
        "recover_all(Path(sys.argv[1]), Messages())\n"
    )
    assert run_python("-c", begun, sent).returncode == -signal.SIGKILL
    assert len(find(sent, LeftKind.BEGUN)) == 1 and recording.exists()
    assert command_line("doctor --recover", sent).code == 0
    assert [entry.name for entry in sent.iterdir()] == ["rank=00000"]


def test_what_was_being_replaced_when_its_writer_was_killed_goes_but_for_files_of_others(tmp_path):
    trace = build_trace([span("aten::mm", 0, 100)])
    trace.save(tmp_path / "t")
    aside = tmp_path / "t" / unfinished_name("rank=00000", ".earlier")
    trace.save(tmp_path / "other").rename(aside.parent / "x")
    aside.mkdir()
    (aside.parent / "x").rename(aside / "new")
    (aside / "new/notes.txt").write_text("of the user")
    (aside / LOCK).touch()
    assert at(aside).kind is LeftKind.REPLACED
    trace.save(tmp_path / "t")
    assert not aside.exists()
    (kept,) = (tmp_path / "t").rglob("notes.txt")
    assert kept.read_text() == "of the user"
