"""The list of processes in a folder: appended to by many, readable whatever became of them."""

import json

from opscope.storage import processes
from opscope.storage.manifest import PROCESSES
from opscope.storage.partition import PROCESS, RANK, Partition
from opscope.storage.processes import (
    AGAIN,
    BECAME_ANOTHER,
    ProcessEntry,
    Processes,
    begin_job,
    job_of,
    read_journal,
    reserve_number,
)


def began(process, start=1, how="forked"):
    return {
        "event": "began",
        "process": process,
        "parent": 1,
        "start": start,
        "how": how,
        "command": ["python", "x.py"],
    }


def write(folder, *lines):
    texts = [line if isinstance(line, str) else json.dumps(line) for line in lines]
    (folder / PROCESSES).write_text("".join(f"{text}\n" for text in texts))


def test_what_is_reported_of_a_process_belongs_together(tmp_path):
    write(
        tmp_path,
        began(7),
        began(8),
        {"event": "recording", "process": 7},
        {"event": "recording", "process": 8, "rank": 3},
        {"event": "ended", "process": 7, "how": "killed by SIGKILL"},
        {"event": "refused", "process": 8, "why": "no room"},
    )
    seven, eight = read_journal(tmp_path)
    assert (seven.partition, seven.ended) == (Partition(PROCESS, 7), "killed by SIGKILL")
    assert (eight.partition, eight.refused) == (Partition(RANK, 3), "no room")
    assert seven.command == ("python", "x.py")


def test_lines_that_make_no_sense_are_passed_over(tmp_path):
    broken = ["", "{", "[]", "7", '{"event": "ended", "process": 9}', '{"event": "began"}']
    write(tmp_path, *broken, began(7), '{"event": "recording", "proc')
    assert [entry.process_id for entry in read_journal(tmp_path)] == [7]


def test_a_number_that_comes_again_is_another_process(tmp_path):
    write(tmp_path, began(7, start=1), {"event": "recording", "process": 7}, began(7, start=2))
    first, second = read_journal(tmp_path)
    assert (first.ended, second.partition) == ("", None)
    assert reserve_number(tmp_path, 7) == 7 + AGAIN
    assert reserve_number(tmp_path, 8) == 8


def test_a_process_that_becomes_another_program_is_two(tmp_path):
    write(
        tmp_path,
        began(7),
        {"event": "recording", "process": 7},
        began(7, how="started"),
        {"event": "recording", "process": 7, "part": 7 + AGAIN},
        {"event": "ended", "process": 7, "how": "exited with code 0"},
    )
    first, second = read_journal(tmp_path)
    assert (first.ended, first.partition) == (BECAME_ANOTHER, Partition(PROCESS, 7))
    assert second.partition == Partition(PROCESS, 7 + AGAIN)
    assert second.ended == "exited with code 0"


def test_cycles_share_the_list_of_the_folder_around_them(tmp_path):
    write(tmp_path, began(7))
    for name in ("cycle-1", "other"):
        (tmp_path / name).mkdir()
    assert [entry.process_id for entry in read_journal(tmp_path / "cycle-1")] == [7]
    assert read_journal(tmp_path / "other") == []


def test_of_several_processes_those_that_one_began_can_be_told(tmp_path):
    lines = [{**began(n), "parent": parent} for n, parent in ((1, 0), (2, 0), (3, 1), (4, 3))]
    write(tmp_path, *lines)
    begun = Processes.in_folder(tmp_path).begun_by(1)
    assert [entry.process_id for entry in begun.entries] == [1, 3, 4]


def test_one_that_was_recorded_and_had_no_time_to_note_it_is_one_process(tmp_path):
    part = Partition(PROCESS, 42)
    processes = Processes(tmp_path, (ProcessEntry(41), ProcessEntry(42)))
    found = processes.with_parts([part, Partition(RANK, 0)])
    assert [entry.partition for entry in found.entries] == [None, part, Partition(RANK, 0)]
    assert found.with_parts([part, Partition(RANK, 0)]) == found


def test_equal_numbers_of_two_containers_are_two_processes(tmp_path):
    lines = [{**began(1, start), "space": space} for space, start in ((40, 5), (41, 5))]
    for space in (40, 41):
        lines.append({"event": "recording", "process": 1, "space": space, "part": 1 + space})
    write(tmp_path, *lines, {"event": "ended", "process": 1, "space": 40, "how": "exited"})
    first, second = read_journal(tmp_path)
    assert (first.partition, first.ended) == (Partition(PROCESS, 41), "exited")
    assert (second.partition, second.ended) == (Partition(PROCESS, 42), "")


def test_a_process_with_unknown_start_has_not_become_another(tmp_path):
    write(tmp_path, began(1, start=0), began(1, start=0))
    assert [entry.ended for entry in read_journal(tmp_path)] == ["", ""]


def test_two_of_one_number_at_the_same_time_have_two_parts(tmp_path, monkeypatch):
    write(tmp_path, began(1))
    first = {"event": "part", "process": 1, "part": 1, "claim": "another's"}
    appended = processes.append

    def come_second(folder, line):
        monkeypatch.setattr(processes, "append", appended)
        appended(folder, first)
        return appended(folder, line)

    monkeypatch.setattr(processes, "append", come_second)
    assert reserve_number(tmp_path, 1) == 1 + AGAIN


def test_a_folder_says_which_job_it_is_of(tmp_path):
    assert job_of(tmp_path) == ""
    write(tmp_path)
    begin_job(tmp_path)
    (tmp_path / "cycle-1").mkdir()
    assert read_journal(tmp_path) == []
    assert len(job_of(tmp_path)) == 16 and job_of(tmp_path / "cycle-1") == job_of(tmp_path)
