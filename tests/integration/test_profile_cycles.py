"""A profile's life: steps and cycles, what is handed over when, metadata, ids, files."""

import gzip
import json
import warnings

import pytest
import torch
from torch.profiler import ProfilerActivity

import opscope
from support.recorded import names


def schedule(**counts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        return opscope.schedule(**{"wait": 0, "warmup": 0, "active": 1, **counts})


def run(prof, steps):
    """``steps`` steps that each make a tensor with as many elements as the step's number + 1."""
    for step in range(steps):
        torch.full((step + 1,), 1)
        prof.step()


def steps_of(prof):
    return [name for name in names(prof.trace) if name.startswith("ProfilerStep#")]


def sizes_of(trace):
    """The sizes that the operators aten::full were asked for, as texts."""
    scalars = trace.table("scalars")
    fulls = {row for row, name in enumerate(names(trace)) if name == "aten::full"}
    return [
        trace.names[scalars["value"][row]]
        for row in range(len(scalars))
        if scalars["event"][row] in fulls and scalars["argument"][row] == 0
    ]


# -- Steps and cycles ------------------------------------------------------------------------------


def test_every_cycle_is_handed_over_when_it_ends():
    seen = []

    def ready(prof):
        seen.append((prof.step_num, steps_of(prof), sizes_of(prof.trace)))

    chosen = schedule(wait=1, warmup=1, active=2, repeat=2)
    with opscope.profile(schedule=chosen, on_trace_ready=ready, record_shapes=True) as prof:
        run(prof, 10)
    assert seen == [
        (4, ["ProfilerStep#2", "ProfilerStep#3"], ["[3]", "[4]"]),
        (8, ["ProfilerStep#6", "ProfilerStep#7"], ["[7]", "[8]"]),
    ]
    assert prof.step_num == 10
    assert prof.current_action is opscope.ProfilerAction.NONE


def test_nothing_is_handed_over_if_nothing_was_recorded():
    seen = []
    with opscope.profile(schedule=schedule(wait=9), on_trace_ready=seen.append) as prof:
        run(prof, 3)
    assert seen == []
    with pytest.raises(opscope.LifecycleError, match="There is no recording yet"):
        prof.events()
    with pytest.raises(opscope.LifecycleError, match="There is no recording yet"):
        prof.export_chrome_trace("never.json")


def test_a_profile_without_a_schedule_counts_steps_but_shows_none():
    with opscope.profile() as prof:
        run(prof, 3)
    assert prof.step_num == 3
    assert steps_of(prof) == []


def test_what_runs_in_a_step_is_inside_its_span():
    with opscope.profile(schedule=schedule(warmup=1, active=2)) as prof:
        run(prof, 3)
    events, found = prof.trace.events, names(prof.trace)
    fulls = [row for row, name in enumerate(found) if name == "aten::full"]
    around = {found[parent] for parent in events["parent"][fulls].tolist()}
    assert around == {"ProfilerStep#1", "ProfilerStep#2"}
    assert set(events["step"][fulls].tolist()) == {1, 2}


@pytest.mark.parametrize(
    ("actions", "warned", "cycles"),
    [
        ("NONE RECORD NONE", "RECORD followed by NONE", 0),
        ("RECORD WARMUP RECORD_AND_SAVE NONE", "RECORD followed by WARMUP", 1),
        ("RECORD_AND_SAVE RECORD_AND_SAVE NONE", None, 2),
        ("RECORD_AND_SAVE WARMUP RECORD_AND_SAVE NONE", None, 2),
        ("RECORD_AND_SAVE RECORD RECORD_AND_SAVE NONE", None, 2),
    ],
)
def test_every_transition(actions, warned, cycles):
    seen, planned = [], [opscope.ProfilerAction[name] for name in actions.split()]
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        with opscope.profile(
            schedule=lambda step: planned[min(step, len(planned) - 1)],
            on_trace_ready=lambda prof: seen.append(names(prof.trace).count("aten::full")),
        ) as prof:
            run(prof, len(planned) - 1)
    messages = [str(w.message) for w in caught if "schedule" in str(w.message)]
    assert messages == ([f"Incorrect schedule: {warned}"] if warned else [])
    assert len(seen) == cycles


@pytest.mark.parametrize("answer", ["RECORD", opscope.ProfilerAction.DEVICE_STOPPED])
def test_schedules_that_answer_nonsense(answer):
    with pytest.raises(opscope.UsageError, match="schedule"):
        opscope.profile(schedule=lambda step: answer)


def test_an_error_in_the_program_ends_the_recording_and_comes_through():
    seen = []
    prof = opscope.profile(on_trace_ready=seen.append, schedule=schedule(active=3))
    with pytest.raises(ZeroDivisionError), prof:
        torch.ones(1)
        _ = 1 / 0
    assert seen == [prof]
    assert "aten::ones" in names(prof.trace)


def test_an_error_in_the_callback_comes_through_and_leaves_a_usable_profile():
    def ready(prof):
        raise KeyError("mine")

    prof = opscope.profile(on_trace_ready=ready)
    prof.start()
    torch.ones(1)
    with pytest.raises(KeyError, match="mine"):
        prof.stop()
    assert "aten::ones" in names(prof.trace)
    prof.on_trace_ready = None
    with prof:
        torch.zeros(1)
    assert "aten::zeros" in names(prof.trace)


def test_the_callback_may_do_anything_to_its_profile(tmp_path):
    exported = []

    def ready(prof):
        path = tmp_path / f"{len(exported)}.json"
        prof.add_metadata("cycle", str(len(exported)))
        prof.export_chrome_trace(path)
        prof.key_averages().table()
        exported.append(path)
        if len(exported) == 2:
            prof.stop()

    with opscope.profile(schedule=schedule(), on_trace_ready=ready) as prof:
        run(prof, 6)
    assert [json.loads(path.read_text())["cycle"] for path in exported] == ["0", "1"]


# -- Accumulating ----------------------------------------------------------------------------------


def test_events_of_earlier_cycles_are_kept_with_their_trees_if_requested():
    chosen = schedule(active=1, repeat=2)
    with opscope.profile(schedule=chosen) as prof:
        run(prof, 3)
    assert sum(event.name == "aten::full" for event in prof.events()) == 1
    with opscope.profile(schedule=chosen, acc_events=True, record_shapes=True) as prof:
        run(prof, 3)
    (row,) = [row for row in prof.key_averages() if row.key == "aten::full"]
    assert row.count == 2
    fulls = [event for event in prof.events() if event.name == "aten::full"]
    assert [event.cpu_parent.name for event in fulls] == ["ProfilerStep*", "ProfilerStep*"]
    assert [event.cpu_parent.trace_name for event in fulls] == ["ProfilerStep#0", "ProfilerStep#1"]
    assert [event.concrete_inputs[0] for event in fulls] == [[1], [2]]
    assert all(
        child.name in ("aten::empty", "aten::fill_") for e in fulls for child in e.cpu_children
    )


# -- Metadata and ids ------------------------------------------------------------------------------


def exported(prof, tmp_path):
    path = tmp_path / "trace.json"
    prof.export_chrome_trace(path)
    return json.loads(path.read_text())


def test_metadata_lands_in_the_file_of_its_cycle_and_the_preset_in_all(tmp_path):
    prof = opscope.profile(record_shapes=True)
    prof.preset_metadata_json("job", '{"name": "night", "tries": [1, 2]}')
    with prof:
        torch.ones(1)
        prof.add_metadata("note", 'a "quoted" text\nof two lines')
        prof.add_metadata_json("numbers", "[1, 2.5, null]")
    prof.add_metadata("afterwards", "too")
    top = exported(prof, tmp_path)
    assert top["job"] == {"name": "night", "tries": [1, 2]}
    assert top["note"] == 'a "quoted" text\nof two lines'
    assert top["numbers"] == [1, 2.5, None]
    assert top["afterwards"] == "too"
    assert top["record_shapes"] == 1 and "with_stack" not in top
    with prof:
        torch.ones(1)
    top = exported(prof, tmp_path)
    assert "note" not in top and top["job"]["name"] == "night"


@pytest.mark.parametrize("method", ["add_metadata_json", "preset_metadata_json"])
def test_what_is_no_json_is_refused_and_nothing_recorded_is_lost(method):
    with opscope.profile() as prof:
        torch.ones(1)
        for text in ("{", "", None):
            with pytest.raises(opscope.UsageError, match=r"'key' is not JSON.*add_metadata"):
                getattr(prof, method)("key", text)
    assert "aten::ones" in names(prof.trace)


def test_ids_of_traces(tmp_path):
    numbers = iter(range(100))
    prof = opscope.profile(
        custom_trace_id_callback=lambda: f"run-{next(numbers)}", post_processing_timeout_s=0.0
    )
    assert prof.get_trace_id() is None
    for expected in ("run-0", "run-1"):
        with prof:
            torch.ones(1)
        assert prof.get_trace_id() == expected
        assert exported(prof, tmp_path)["trace_id"] == expected
    prof.set_custom_trace_id_callback(lambda: "other")
    with prof:
        torch.ones(1)
    assert prof.get_trace_id() == "other"


# -- Files -----------------------------------------------------------------------------------------


def test_a_file_for_every_cycle(tmp_path):
    folder = tmp_path / "deep" / "logs"
    handler = opscope.tensorboard_trace_handler(str(folder), "worker.7", use_gzip=True)
    with opscope.profile(schedule=schedule(warmup=1, repeat=3), on_trace_ready=handler) as prof:
        run(prof, 8)
    files = sorted(folder.iterdir())
    assert len(files) == 3
    for path in files:
        time_ns, ending = path.name.removeprefix("worker.7.").split(".", 1)
        assert path.name.startswith("worker.7.") and time_ns.isdigit()
        assert ending == "pt.trace.json.gz"
        events = json.loads(gzip.decompress(path.read_bytes()))["traceEvents"]
        assert "aten::full" in [event["name"] for event in events if event.get("ph") == "X"]


# -- Activities ------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("kinds", "operators", "annotations", "calls"),
    [
        (["cpu_op", "USER_ANNOTATION"], True, True, False),
        (["PYTHON_FUNCTION"], False, False, True),
        ([], False, False, False),
    ],
)
def test_kinds_of_event_by_name(kinds, operators, annotations, calls):
    def called():
        with opscope.record_function("mine"):
            torch.ones(1)

    with opscope.profile(activities=[{ProfilerActivity.CPU: kinds}], with_stack=True) as prof:
        called()
    found = names(prof.trace)
    assert ("aten::ones" in found) is operators
    assert ("mine" in found) is annotations
    assert any(name.endswith(": called") for name in found) is calls


@pytest.mark.parametrize(
    ("activities", "said"),
    [
        ([], "the list is empty"),
        (["CPU"], "expected ProfilerActivity"),
        ([ProfilerActivity.CPU, ProfilerActivity.CPU], "more than once"),
        ([{ProfilerActivity.CPU: ["KERNELS"]}], "unknown kinds of CPU event.*CPU_OP"),
    ],
)
def test_activities_that_make_no_sense(activities, said):
    with pytest.raises(opscope.UsageError, match=said):
        opscope.profile(activities=activities)


@pytest.mark.skipif(torch.cuda.is_available(), reason="there is a device to record")
def test_only_what_is_not_there_cannot_be_recorded():
    with (
        pytest.warns(UserWarning, match="CUDA is not available"),
        pytest.raises(opscope.UsageError, match="the list is empty"),
    ):
        opscope.profile(activities=[ProfilerActivity.CUDA])


def test_libraries_see_that_a_profiler_runs():
    flag = torch.autograd.profiler
    assert flag._is_profiler_enabled is False
    with opscope.profile():
        assert flag._is_profiler_enabled is True
        assert not torch.autograd._profiler_enabled()  # torch's own does not
    assert flag._is_profiler_enabled is False
