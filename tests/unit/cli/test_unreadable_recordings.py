"""Folders in which a recording cannot be read: what else is there can, and what cannot is said."""

import pytest

import opscope
from opscope import _native
from opscope.columns.codes import Want
from opscope.errors import TraceFormatError
from opscope.live.recovery import recover_ended
from opscope.recording.recovered import part_of_recording
from opscope.recording.streams.load import parts_of
from opscope.storage.manifest import unfinished_recordings
from opscope.storage.partition import PROCESS, Partition
from support.build_trace import build_trace, span
from support.left_behind import held_by_another

GONE = 2**22 + 1
"""No process has this number."""
NAME = f".recording-{GONE}-0123456789abcdef-4.opscope"
WAYS = {
    "it is empty": b"",
    "it was lost when it began": bytes(1 << 18),
    "it is not a recording": b"something else" * 20_000,
}


@pytest.fixture(params=WAYS)
def unreadable(request, tmp_path):
    """A folder with one process, and the recording of another one; and why that cannot be read."""
    build_trace([span("aten::mm", 0, 100)]).save(tmp_path, process=4242)
    (tmp_path / NAME).write_bytes(WAYS[request.param])
    return tmp_path, request.param


def test_commands_answer_and_say_what_cannot_be_read(unreadable, command_line):
    folder, why = unreadable
    outcome = command_line("summary", folder)
    assert outcome.code == 0
    assert "aten::mm" in outcome.out
    assert f"{NAME}: {why}" in outcome.err.replace("\n", " ")
    assert command_line("export", folder, "-o", folder / ".json").code == 0
    build_trace([span("aten::add", 0, 100)]).save(folder, process=4243)
    outcome = command_line("summary", folder)
    assert outcome.code == 0
    said = why if why == "it is not a recording" else "1 ended when their recordings began"
    assert said in outcome.err.replace("\n", " ")


def test_recovering_removes_what_has_nothing_in_it(unreadable, command_line):
    folder, why = unreadable
    outcome = command_line("doctor --recover", folder)
    assert outcome.code == 1 and why in outcome.err.replace("\n", " ")
    is_kept = why == "it is not a recording"
    assert len(unfinished_recordings(folder)) == is_kept
    assert len(recover_ended(folder)) == is_kept


def begun_recording(folder, about):
    """The file of one whose process is gone, as it was in the middle."""
    window, file = _native.reserve_window(), folder / "file"
    _native.begin_stream(window, str(file), 1 << 24, about)
    _native.open_window(int(Want.ANNOTATIONS), True, window)
    path = folder / NAME
    path.write_bytes(file.read_bytes())
    _native.close_window(window)
    _native.discard_window(window)
    file.unlink(missing_ok=True)
    return path


@pytest.mark.parametrize("about", ["{}", "[]", '{"asked": {}}', "{"])
def test_one_of_which_too_little_is_known_is_unreadable_too(tmp_path, about):
    build_trace([span("aten::mm", 0, 100)]).save(tmp_path, process=4242)
    path = begun_recording(tmp_path, about)
    with pytest.raises(TraceFormatError, match="Nothing can be recovered"):
        part_of_recording(path)
    assert parts_of(tmp_path) == (Partition(PROCESS, 4242),)


def test_a_header_that_was_damaged_is_read_or_refused(tmp_path):
    path = begun_recording(tmp_path, "{}")
    whole = path.read_bytes()
    described = 0
    for at in range(400):
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 0xB1]) + whole[at + 1 :])
        try:
            log = _native.read_stream(str(path))
        except ValueError:
            continue
        log.describe()
        described += 1
    assert 0 < described < 400


def test_what_another_process_has_only_begun_stays(tmp_path, command_line):
    path = tmp_path / NAME
    path.write_bytes(b"")
    with held_by_another(path):
        assert recover_ended(tmp_path) == []
        outcome = command_line("doctor --recover", tmp_path)
        assert outcome.code == 1 and "still runs" in outcome.err
        assert path.exists()


def test_without_anything_else_it_is_an_error(tmp_path):
    (tmp_path / NAME).write_bytes(b"")
    for ask in (parts_of, opscope.load):
        with pytest.raises(TraceFormatError, match="it is empty"):
            ask(tmp_path)
