"""Recordings that are not in the file system are copied, as far as they are asked for."""

import errno
import json
import os
import sys
import traceback
from pathlib import Path

import pytest

import opscope
from opscope.cli import main
from opscope.cli.destination import choose
from opscope.cli.session.keeper import recover_all
from opscope.cli.views.console import Messages
from opscope.errors import MissingDependencyError, TraceFormatError, UsageError
from opscope.jobs.job_rollups import make_rollups
from opscope.storage import remote
from opscope.storage.remote import below, local_path
from support.build_trace import build_trace, span
from support.processes import run_python

fsspec = pytest.importorskip("fsspec")


@pytest.fixture
def store(monkeypatch):
    """A store in memory, empty."""
    found = fsspec.filesystem("memory")
    monkeypatch.setattr(remote, "_COPIES", [])
    found.store.clear()
    found.pseudo_dirs[:] = [""]
    yield found
    found.store.clear()


@pytest.fixture
def job(tmp_path):
    for rank in range(4):
        build_trace([span("aten::mm", 0, 10 + rank)]).save(tmp_path / "job", rank=rank)
    return tmp_path / "job"


def put(store, path, name):
    """The address of a copy of what is at ``path``."""
    store.put(str(path), f"/{name}", recursive=path.is_dir())
    return f"memory://{name}"


def files_of(folder):
    return {str(file.relative_to(folder)) for file in folder.rglob("*") if file.is_file()}


def test_a_path_of_the_file_system_stays_one(tmp_path, monkeypatch):
    for text in ("trace", "/a/b", "C:/traces/a", "..", "a:b", "s3:", "time: 12"):
        assert local_path(text) == Path(text)
    assert local_path(tmp_path.as_uri()) == tmp_path
    assert local_path(Path(tmp_path.as_uri())) == tmp_path  # which loses a slash
    monkeypatch.chdir(tmp_path)
    (tmp_path / "memory:" / "here").mkdir(parents=True)
    assert local_path("memory://here") == Path("memory://here")


def test_what_is_elsewhere_is_read_as_what_is_here(store, job):
    address = put(store, job, "bucket/job")
    there, here = opscope.load(address), opscope.load(job)
    assert there.ranks == here.ranks
    for rank in here.ranks:
        assert there[rank].events["duration_ns"].tolist() == [(10 + rank) * 1000]
    assert opscope.load(address, rank=2).names.find("aten::mm") >= 0
    assert len(opscope.Job(address, [1, 3])) == 2
    assert len(opscope.load(f"{address}/rank=00001").events) == 1
    assert files_of(local_path(address)) == files_of(job)


def test_tables_are_copied_when_they_are_requested(store, job):
    there = opscope.load(put(store, job, "job"))

    def copied():
        return {file.parts[-2] for file in there.path.rglob("events.parquet")}

    assert there.missing_ranks() == ""
    assert there.query("operators").as_dicts() and not copied()
    assert there.account() and not copied()
    assert len(there[2].events) == 1
    assert copied() == {"rank=00002"}
    assert len(there.sql("select * from events")) == 4
    assert len(copied()) == 4


def test_a_copy_is_made_again_when_something_else_is_there(store, job):
    address = put(store, job, "job")
    first = local_path(address)
    assert local_path(address) == first
    opened = opscope.load(address)
    assert len(opened[1].events) == 1
    build_trace([span("aten::add", 0, 1)]).save(job, rank=4)
    put(store, job, "other")
    for name in store.find("/other/rank=00004"):
        store.copy(name, name.replace("/other", "/job"))
    assert local_path(address) != first
    assert opscope.load(address).ranks == [0, 1, 2, 3, 4]
    assert len(opened[1].events) == len(opened[2].events) == 1


def test_files_of_other_tools_are_read(store, job, tmp_path):
    opscope.load(job, rank=1).export("chrome", tmp_path / "one.json.gz")
    address = put(store, tmp_path / "one.json.gz", "traces/one.json.gz")
    assert len(opscope.load(address).events) == 1
    folder = tmp_path / "chrome"
    folder.mkdir()
    for rank in range(2):
        opscope.load(job, rank=rank).export("chrome", folder / f"rank-{rank}.json")
    assert opscope.load(put(store, folder, "chrome")).ranks == [0, 1]


def test_every_command_takes_an_address(store, job, tmp_path, capsys, monkeypatch):
    monkeypatch.chdir(tmp_path)
    address = put(store, job, "job")
    commands = ("summary", "why", "ranks", "ranks --collectives", "why --all", "report")
    more = ("ranks --ask ranks", "summary --rank 1", "export -o all.json")
    query = ["sql", "select count(*) from events"]
    for command in (*map(str.split, commands + more), query):
        name, *rest = command
        main([name, address, *rest])
        assert "Traceback" not in capsys.readouterr().err, command
    assert (tmp_path / "job.html").exists()
    assert json.loads((tmp_path / "all.json").read_text())
    main(["diff", f"{address}/rank=00000", f"{address}/rank=00001"])
    assert "A: rank=00000" in capsys.readouterr().out


def test_what_cannot_be_read_is_reported_with_its_address(store, job, monkeypatch):
    with pytest.raises(TraceFormatError, match="memory://nowhere cannot be read: nothing is there"):
        opscope.load("memory://nowhere")
    with pytest.raises(TraceFormatError, match=r"nosuchthing://a/b cannot be read: .*Check"):
        opscope.load("nosuchthing://a/b")

    def missing(address):
        raise ImportError("Install gcsfs to access it")

    monkeypatch.setattr("fsspec.core.url_to_fs", missing)
    with pytest.raises(MissingDependencyError, match="memory://job cannot be read: Install gcsfs"):
        opscope.load("memory://job")
    monkeypatch.setitem(sys.modules, "fsspec.core", None)
    with pytest.raises(MissingDependencyError, match="pip install fsspec"):
        opscope.load("memory://job")


def test_what_a_store_says_has_no_password(store, job, monkeypatch):
    class Refused(Exception):
        """Of a kind that nobody expects."""

    def refuse(address):
        raise Refused(f"GET {address} was refused with my%20secret and my secret\nmore")

    monkeypatch.setattr("fsspec.core.url_to_fs", refuse)
    with pytest.raises(TraceFormatError) as found:
        opscope.load("memory://key:my%20secret@host/job?token=hidden")
    shown = "".join(traceback.format_exception(found.value))
    assert "memory://host/job cannot be read: Refused. Check" in shown
    assert "my secret" not in shown and "my%20secret" not in str(found.value)
    with pytest.raises(TraceFormatError, match="GET memory://host/job was refused") as found:
        opscope.load("memory://host/job")
    assert isinstance(found.value.__cause__, Refused)


def test_what_changes_before_it_is_copied_is_no_trace(store, job):
    address = put(store, job, "job")
    there = opscope.load(address)
    store.store["/job/rank=00001/events.parquet"].write(b"more")
    name = "/job/rank=00002/names.parquet"
    store.pipe_file(name, store.cat_file(name))  # of the same size
    store.rm("/job/rank=00003/events.parquet")
    for rank in (1, 2):
        with pytest.raises(TraceFormatError, match="memory://job changed during reading"):
            there[rank]
    with pytest.raises(TraceFormatError, match="memory://job cannot be read"):
        there[3]
    assert not list(there.path.glob("rank=0000[1-3]/names.parquet"))
    assert len(there[0].events) == 1
    assert len(opscope.load(address)[2].events) == 1


def test_names_that_lead_elsewhere_are_refused(store, job):
    address = put(store, job, "job")
    for name in ("job/../../etc/passwd", "job/.."):
        with pytest.raises(TraceFormatError, match="outside it"):
            below("job", name)
    assert local_path(address).name == "job"


def test_nothing_is_written_elsewhere(store, job, tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    trace = opscope.load(job, rank=0)
    for write in (
        lambda: trace.save("memory://job"),
        lambda: make_rollups("memory://job"),
        lambda: opscope.load(job).save("memory://copy"),
        lambda: trace.export("chrome", "memory://key:secret@host/trace.json"),
        lambda: opscope.profile(stream_to=Path("memory://key:secret@host/trace")),
        lambda: opscope.tensorboard_trace_handler("memory://key:secret@host/log"),
        lambda: choose(Path("memory://key:secret@host/trace"), None, "train"),
        lambda: choose(None, Path("memory://host/trace.json"), "train"),
        lambda: recover_all(Path("memory://key:secret@host/trace"), Messages()),
    ):
        with pytest.raises(UsageError, match="is a remote address") as found:
            write()
        assert "secret" not in str(found.value)
    assert not (tmp_path / "memory:").exists()


PROGRAM = """
import os, sys
from pathlib import Path
import fsspec, opscope
fsspec.filesystem("memory").put(sys.argv[1], "/job", recursive=True)
job = opscope.load("memory://job")
child = os.fork()
if not child:
    assert len(job[0].events) == 1  # what the parent had not asked for yet
    sys.exit(0)
assert os.waitpid(child, 0)[1] == 0
assert len(job[1].events) == 1
print(job.path)
"""


def test_copies_go_with_the_process_and_not_with_a_forked_child(job):
    done = run_python("-c", PROGRAM, job)
    assert done.returncode == 0, done.stderr
    path = Path(done.stdout.strip())
    assert path.name == "job" and not path.exists() and not os.path.exists(path.parent)


def test_a_copy_that_finds_no_room_says_where_it_was_to_go(store, job, monkeypatch):
    there = opscope.load(put(store, job, "job"))

    def full(source, target):
        raise OSError(errno.ENOSPC, "No space left on device")

    with monkeypatch.context() as patched:
        patched.setattr("opscope.storage.remote.os.replace", full)
        with pytest.raises(TraceFormatError, match=r"memory://job cannot be written to .*TMPDIR"):
            there[1]
    assert len(there[1].events) == 1


def test_names_of_what_was_requested_are_shown(store, job):
    address = put(store, job, "job")
    store.pipe_file("/job/rank=00001/names.parquet", b"no table")
    there = opscope.load(address)
    assert repr(there).startswith("<Job memory://job: ")
    with pytest.raises(
        TraceFormatError, match=r"^memory://job/rank=00001/names\.parquet is damaged"
    ):
        there[1]
