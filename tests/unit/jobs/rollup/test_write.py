"""Rollups beside traces: written when one of several is saved, and believed only where they fit."""

import json
import shutil
import time

import pytest

import opscope
from opscope import load_trace
from opscope.errors import TraceFormatError
from opscope.jobs.job_rollups import roll_up_several
from opscope.jobs.rollup import workers
from opscope.jobs.rollup import write as write_module
from opscope.jobs.rollup.read import Rollup, right_mark
from opscope.jobs.rollup.schema import ROLLUP_TABLES
from opscope.jobs.rollup.write import write_rollup
from opscope.storage.manifest import MANIFEST, ROLLUP
from support.build_trace import build_trace, span
from support.processes import run_python


def step_trace(steps=3, **metadata):
    spans = [span("ProfilerStep#0", 0, 10)]
    for number in range(1, steps):
        spans += [
            span(f"ProfilerStep#{number}", number * 10, number * 10 + 10),
            span("aten::mm", number * 10 + 1, number * 10 + 4),
        ]
    return build_trace(spans, metadata=metadata)


@pytest.fixture
def part(tmp_path):
    return step_trace().save(tmp_path / "job", rank=2)


def rollup_files(folder):
    return sorted(entry.name for entry in folder.iterdir() if "rollup" in entry.name)


STEPS = "rollup_steps.parquet"
ALL_FILES = sorted([ROLLUP, *(f"{name}.parquet" for name in ROLLUP_TABLES)])


def test_one_of_several_processes_is_added_up_when_it_is_saved(part, tmp_path):
    assert rollup_files(part) == ALL_FILES
    assert Rollup.of(part).table("rollup_steps")["step"].tolist() == [0, 1, 2]
    process = step_trace().save(tmp_path / "job", process=99)
    assert Rollup.of(process).table("rollup_steps")["process"].tolist() == [99] * 3
    job = {"rank": 1, "world_size": 4}
    of_job = step_trace(distributedInfo=job).save(tmp_path / "recorded")
    assert of_job.name == "rank=00001" and rollup_files(of_job) == ALL_FILES


def test_a_trace_that_replaces_another_leaves_nothing_of_it(part, capsys):
    (part / ".rollup_steps.parquet.123").touch()  # of a process that was killed
    step_trace(steps=2).save(part.parent, rank=2)
    assert rollup_files(part) == ALL_FILES
    assert Rollup.of(part).mark.tables["rollup_steps"]["rows"] == 2
    assert not list(part.parent.glob("*earlier*")) and capsys.readouterr().err == ""


def edit_mark(folder, **changes):
    said = json.loads((folder / ROLLUP).read_text())
    (folder / ROLLUP).write_text(json.dumps({**said, **changes}))


DAMAGES = {
    "no JSON": lambda part: (part / ROLLUP).write_text("{"),
    "too deep": lambda part: (part / ROLLUP).write_text("[" * 100_000),
    "without tables": lambda part: edit_mark(part, tables={}),
    "older": lambda part: edit_mark(part, version=0),
    "another trace": lambda part: (part / MANIFEST).write_text((part / MANIFEST).read_text() + " "),
    "shorter": lambda part: (part / STEPS).write_bytes((part / STEPS).read_bytes()[:-1]),
    "without a file": lambda part: (part / STEPS).unlink(),
    "without a mark": lambda part: (part / ROLLUP).unlink(),
}


@pytest.mark.parametrize("damage", DAMAGES)
def test_what_does_not_fit_is_not_believed_and_made_again(part, damage):
    assert Rollup.of(part) is not None
    DAMAGES[damage](part)
    assert Rollup.of(part) is None
    assert roll_up_several({part: part}) == {}
    assert Rollup.of(part).table("rollup_steps")["step"].tolist() == [0, 1, 2]


def test_the_rollup_of_another_process_is_not_believed(part):
    other = part.with_name("rank=00005")
    shutil.copytree(part, other)
    assert Rollup.of(part) is not None and Rollup.of(other) is None


def test_damage_within_a_file_is_found_when_it_is_read(part):
    file = part / "rollup_steps.parquet"
    content = bytearray(file.read_bytes())
    content[8:200] = b"\xff" * 192
    file.write_bytes(content)
    rollup = Rollup.of(part)
    with pytest.raises(TraceFormatError, match=r"steps\.parquet is damaged.*rollup --again"):
        rollup.table("rollup_steps")


def test_a_rollup_can_lie_elsewhere(part, tmp_path):
    into = tmp_path / "elsewhere"
    before = {entry.name: entry.stat().st_mtime_ns for entry in part.iterdir()}
    assert roll_up_several({part: into}) == {}
    assert {entry.name: entry.stat().st_mtime_ns for entry in part.iterdir()} == before
    assert rollup_files(into) == ALL_FILES and right_mark(into, part) is not None
    assert Rollup.of(part, into).folder == into


def test_an_interrupt_waits_for_those_under_way_and_not_for_all(part, tmp_path, monkeypatch):
    begun = []

    def do(_worker, task):
        begun.append(task)
        time.sleep(0.05)
        return ""

    def interrupt(count, _):
        raise KeyboardInterrupt

    monkeypatch.setattr(workers._Worker, "do", do)
    monkeypatch.setattr(workers, "report_progress", interrupt)
    wanted = {part.with_name(f"rank={rank:05d}"): part for rank in range(200)}
    with pytest.raises(KeyboardInterrupt):
        roll_up_several(wanted)
    assert len(begun) < 50


def test_where_nothing_can_be_written_is_reported(part, tmp_path):
    (tmp_path / "file").touch()
    failed = roll_up_several({part: tmp_path / "file" / "below"})
    assert "cannot be written to" in failed[part] and "Set TMPDIR" in failed[part]


def test_only_the_folder_of_a_process_has_one(tmp_path):
    folder = step_trace().save(tmp_path / "job", rank=0).rename(tmp_path / "copied")
    with pytest.raises(TraceFormatError, match="not the folder of a process"):
        write_rollup(folder, folder)


def test_saving_does_not_fail_where_adding_up_does(tmp_path, monkeypatch):
    def fails(*_):
        raise MemoryError

    monkeypatch.setattr(write_module, "contents_of", fails)
    part = step_trace().save(tmp_path / "job", rank=0)
    assert Rollup.of(part) is None and rollup_files(part) == []
    assert len(load_trace(tmp_path / "job").events) == 5


def test_torch_is_not_imported_for_what_is_saved(tmp_path):
    """By a process that has none, and may be one that ends: the recording says how its operators
    can be called. Of one that does not, the first question makes the rollup."""
    torch = pytest.importorskip("torch", reason="records operators of torch")
    recorded = tmp_path / "recorded"
    with opscope.profile(record_shapes=True, profile_memory=True) as profile:
        torch.ones(64, 64) @ torch.ones(64, 64)
    profile.trace.save(recorded, rank=0)
    program = (
        "import sys, opscope\n"
        f"trace = opscope.load({str(recorded)!r})\n"
        f"trace.save({str(tmp_path / 'saved')!r}, rank=0)\n"
        "without = trace.with_metadata({'overloads': {}})\n"
        f"without.save({str(tmp_path / 'without')!r}, rank=0)\n"
        "assert 'torch' not in sys.modules, 'torch was imported'\n"
    )
    done = run_python("-c", program)
    assert done.returncode == 0, done.stderr
    assert Rollup.of(recorded / "rank=00000") is not None
    assert Rollup.of(tmp_path / "saved" / "rank=00000") is not None
    assert Rollup.of(tmp_path / "without" / "rank=00000") is None
