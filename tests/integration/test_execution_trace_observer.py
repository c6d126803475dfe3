"""``ExecutionTraceObserver`` in every way that a program uses torch's."""

import gc
import os
import warnings

import pytest
import torch

import opscope
from opscope import ExecutionTraceObserver, UsageError, profile, record_function, schedule
from opscope.errors import TraceFormatError
from support.execution_traces import (
    PROCESS,
    THREAD,
    names_of,
    nodes_of,
    record_function_ids,
    timeline_ids,
)
from support.torch_processes import run_torch


def train():
    x = torch.ones(3, 4, requires_grad=True)
    (x * 2).relu().sum().backward()


def registered(path):
    return ExecutionTraceObserver().register_callback(path)


def loops(nodes):
    return [name for name in names_of(nodes) if name.startswith("loop ")]


def test_inside_a_profile_with_a_schedule_both_files_count_the_same(tmp_path):
    charts = []

    def ready(finished):
        charts.append(tmp_path / f"chart{len(charts)}.json")
        finished.export_chrome_trace(charts[-1])

    # GIVEN a profile that records two of four steps, twice
    observer = registered(tmp_path / "t.json")
    steps = schedule(skip_first=1, wait=1, warmup=1, active=2, repeat=2)
    with profile(
        schedule=steps, on_trace_ready=ready, execution_trace_observer=observer
    ) as running:
        for i in range(10):
            with record_function(f"loop {i}"):
                train()
            running.step()
        assert running.execution_trace_observer.get_output_file_path() == str(tmp_path / "t.json")

    # THEN the file holds just those steps, and every rf_id is one of the Chrome traces
    nodes = nodes_of(tmp_path / "t.json")
    assert loops(nodes) == ["loop 3", "loop 4", "loop 7", "loop 8"]
    assert len(charts) == 2
    ids = record_function_ids(nodes)
    assert ids == sorted(number for chart in charts for number in timeline_ids(chart))
    assert len(set(ids)) == len(ids) > 20


def test_started_and_stopped_many_times_into_one_file(tmp_path):
    observer = registered(tmp_path / "t.json")
    for i in range(10):
        if i in (3, 4, 6):
            observer.start()
        elif i in (5, 7):
            observer.stop()
        with record_function(f"loop {i}"):
            train()
    observer.unregister_callback()

    nodes = nodes_of(tmp_path / "t.json")
    assert loops(nodes) == ["loop 3", "loop 4", "loop 6"]
    assert len({node["id"] for node in nodes}) == len(nodes)
    assert [node["name"] for node in nodes].count(PROCESS) == 1
    assert [node["name"] for node in nodes].count(THREAD) == len({
        node["attributes"]["tid"] for node in nodes if node["name"] != PROCESS
    })  # fmt: skip


def test_its_state_is_reported_and_every_call_may_come_at_any_time(tmp_path):
    observer = ExecutionTraceObserver()
    assert (observer.is_registered, observer.is_running()) == (False, False)
    assert observer.get_output_file_path() is None
    for call in (observer.start, observer.stop, observer.cleanup, observer.unregister_callback):
        call()
    with profile(execution_trace_observer=observer):
        train()

    assert observer.register_callback(tmp_path / "a.json") is observer
    observer.register_callback(tmp_path / "ignored.json")
    observer.start()
    observer.start()
    assert (observer.is_registered, observer.is_running()) == (True, True)
    observer.cleanup()
    observer.cleanup()

    assert (observer.is_registered, observer.is_running()) == (False, False)
    assert [path.name for path in tmp_path.iterdir()] == ["a.json"]


def test_an_object_that_is_let_go_writes_its_file(tmp_path):
    observer = registered(tmp_path / "t.json.gz")
    observer.start()
    train()
    del observer
    gc.collect()

    assert "aten::relu" in names_of(nodes_of(tmp_path / "t.json.gz"))


def test_a_path_that_cannot_be_written_is_refused_at_once(tmp_path):
    (tmp_path / "file").write_text("")
    for path in (tmp_path / "none" / "t.json", tmp_path / "file" / "t.json", tmp_path):
        observer = ExecutionTraceObserver()
        with pytest.raises(UsageError):
            observer.register_callback(path)
        assert not observer.is_registered
        observer.start()
        observer.stop()


def test_a_folder_that_vanishes_meanwhile_is_a_warning(tmp_path):
    folder = tmp_path / "folder"
    folder.mkdir()
    observer = registered(folder / "t.json")
    observer.start()
    train()
    folder.rmdir()

    with pytest.warns(UserWarning, match="execution trace was not written"):
        observer.unregister_callback()


def test_in_a_child_process_the_parents_file_is_left_alone(tmp_path):
    observer = registered(tmp_path / "t.json")
    observer.start()
    train()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        child = os.fork()
    if child == 0:
        observer.unregister_callback()
        os._exit(0)
    os.waitpid(child, 0)
    assert not (tmp_path / "t.json").exists()
    observer.unregister_callback()

    assert "aten::relu" in names_of(nodes_of(tmp_path / "t.json"))


# ---- The environment -----------------------------------------------------------------------


def test_without_the_variable_the_environment_makes_none(monkeypatch):
    monkeypatch.delenv("ENABLE_PYTORCH_EXECUTION_TRACE", raising=False)
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "0")
    assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None


def test_the_environment_makes_one_for_every_profile(monkeypatch, tmp_path):
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("PYTORCH_EXECUTION_TRACE_PATH", str(tmp_path / "named.json"))
    with profile() as running:
        train()

    assert running.execution_trace_observer.get_output_file_path() == str(tmp_path / "named.json")
    assert "aten::relu" in names_of(nodes_of(tmp_path / "named.json"))


def test_without_a_path_the_file_is_a_temporary_one(monkeypatch, tmp_path):
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.delenv("PYTORCH_EXECUTION_TRACE_PATH", raising=False)
    monkeypatch.setattr("tempfile.tempdir", str(tmp_path))
    observer = ExecutionTraceObserver.build_execution_trace_obs_from_env()

    path = observer.get_output_file_path()
    assert path.startswith(str(tmp_path))
    assert path.endswith(".et.json")
    observer.unregister_callback()


def test_an_environment_that_cannot_work_is_a_warning(monkeypatch, tmp_path):
    monkeypatch.setenv("ENABLE_PYTORCH_EXECUTION_TRACE", "1")
    monkeypatch.setenv("PYTORCH_EXECUTION_TRACE_PATH", str(tmp_path / "none" / "t.json"))
    with pytest.warns(UserWarning, match="No execution trace will be recorded"):
        assert ExecutionTraceObserver.build_execution_trace_obs_from_env() is None


# ---- Generated kernels ---------------------------------------------------------------------

COMPILES = """
import os, sys
os.environ["ENABLE_PYTORCH_EXECUTION_TRACE"] = "1"
os.environ["ENABLE_PYTORCH_EXECUTION_TRACE_EXTRAS"] = "1"
os.environ["PYTORCH_EXECUTION_TRACE_PATH"] = sys.argv[1] + "/t.json"
import torch, opscope
compiled = torch.compile(lambda a, b: (torch.nn.functional.linear(a, b) + 1).cos())
arguments = torch.ones(3, 4), torch.ones(5, 4)
expected = compiled(*arguments)
with opscope.profile() as profile:
    torch.testing.assert_close(compiled(*arguments), expected)
print(profile.execution_trace_observer.get_resources_dir())
"""


def test_a_program_compiled_by_inductor_leaves_its_kernels_beside_the_file(tmp_path):
    # In a process of its own: the compiler's worker threads outlive a test.
    cache = {"TORCHINDUCTOR_CACHE_DIR": str(tmp_path / "cache")}
    done = run_torch("-c", COMPILES, tmp_path, added=cache)
    assert done.returncode == 0, done.stderr

    resources = tmp_path / "t_resources"
    assert done.stdout.strip().splitlines()[-1] == str(resources)
    [kernel] = [path for path in resources.iterdir() if path.suffix == ".py"]
    assert "def call" in kernel.read_text()
    names = names_of(nodes_of(tmp_path / "t.json"))
    assert any(name.startswith("Torch-Compiled Region") for name in names)
    assert "aten::addmm" in names or "aten::mm" in names


def test_resources_belong_to_the_trace(tmp_path):
    resources = ExecutionTraceObserver.get_resources_dir_for_et_path
    assert resources(tmp_path / "a.json") is None
    assert resources(tmp_path / "a.json", create_dir=True) == str(tmp_path / "a_resources")
    assert resources(tmp_path / "a.json") == str(tmp_path / "a_resources")
    with pytest.warns(UserWarning, match="cannot be created"):
        assert resources(tmp_path / "none" / "a.json", create_dir=True) is None

    observer = registered(tmp_path / "b.json")
    assert observer.get_resources_dir(can_create=True) is None  # not asked for
    observer.set_extra_resource_collection(True)
    assert observer.get_resources_dir() == str(tmp_path / "b_resources")
    observer.unregister_callback()


# ---- Beyond torch's ------------------------------------------------------------------------


def test_a_saved_profile_becomes_the_same_file(tmp_path):
    observer = registered(tmp_path / "observed.json")
    with profile(record_outputs=True, execution_trace_observer=observer) as running:
        train()
    running.trace.save(tmp_path / "saved.opscope")

    opscope.load(tmp_path / "saved.opscope").export("execution-trace", tmp_path / "exported.json")

    def untimed(name):  # clocks of two recordings are read in turn, so times differ by a nanosecond
        times = ("ts", "inclusive_dur", "exclusive_dur")
        nodes = nodes_of(tmp_path / name)
        return [{key: value for key, value in one.items() if key not in times} for one in nodes]

    assert untimed("exported.json") == untimed("observed.json")


@pytest.mark.parametrize(
    "observer_class", [torch.profiler.ExecutionTraceObserver, ExecutionTraceObserver]
)
def test_loading_one_reports_what_to_record(tmp_path, observer_class):
    observer = observer_class()
    observer.register_callback(str(tmp_path / "t.json"))
    observer.start()
    train()
    observer.stop()
    observer.unregister_callback()

    with pytest.raises(TraceFormatError, match=r"is an execution trace .*opscope run.*--shapes"):
        opscope.load(tmp_path / "t.json")
