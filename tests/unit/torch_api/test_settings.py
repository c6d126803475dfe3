"""One object says what to record, whoever asks: profile, torch.profiler or the command line."""

import pytest

from opscope.errors import UsageError
from opscope.recording.sources import RecordingOptions
from opscope.torch_api.activities import ChosenActivities
from opscope.torch_api.drop_in.backend.config import ProfilerConfig
from opscope.torch_api.settings import FLAGS, ProfileSettings, experimental_switches, with_switch

ALL_FLAGS = dict.fromkeys(FLAGS, True)


@pytest.mark.parametrize(
    ("setting", "options"),
    [
        ("record_shapes", {"shapes": True}),
        ("with_flops", {"shapes": True}),
        ("profile_memory", {"memory": True}),
        ("with_stack", {"stack": True}),
        ("with_modules", {"modules": True}),
        ("record_outputs", {"outputs": True, "overloads": True}),
    ],
)
def test_a_setting_asks_the_recorder_for(setting, options):
    asked = ProfileSettings.of({setting: True}).recording_options(ChosenActivities())
    assert asked == RecordingOptions(**options)


@pytest.mark.parametrize(("kinds", "records"), [(None, True), ({"GPU_MEMCPY"}, True), ((), False)])
def test_devices_are_recorded_unless_no_kind_of_theirs_is_wanted(kinds, records):
    chosen = ChosenActivities(cuda=True, device_kinds=kinds if kinds is None else frozenset(kinds))
    assert ProfileSettings().recording_options(chosen).gpu is records


def test_torchs_configuration_asks_for_the_same_but_for_what_torch_leaves_out():
    config = ProfilerConfig("KINETO", True, True, True, True, True)
    ours = ProfileSettings(**ALL_FLAGS)
    assert config.settings.flags == ours.flags == ALL_FLAGS
    assert config.settings.metadata() == ours.metadata()
    assert config.settings.list_options() == ours.list_options()
    theirs = config.settings.recording_options(ChosenActivities())
    both = theirs.union(RecordingOptions(gc_pauses=True, new_threads=True))
    assert both == ours.recording_options(ChosenActivities())
    assert not theirs.gc_pauses and not theirs.new_threads


def test_switches_ask_for_what_torch_leaves_out():
    switches = {"record_python_gc_info": True, "profile_all_threads": True}
    settings = ProfileSettings(as_torch=True, switches=switches)
    assert settings.recording_options(ChosenActivities()) == RecordingOptions(
        compiled=False, thread_samples=False
    )


class Config:
    """As torch 2.6 has it: fewer switches, in another order."""

    def __init__(self, profiler_metrics=(), verbose=False, adjust_profiler_step=False):
        self.state = (adjust_profiler_step, list(profiler_metrics), verbose)

    def __getstate__(self):
        return self.state


def test_switches_are_found_in_any_order():
    config = Config(profiler_metrics=["m"], adjust_profiler_step=True)
    assert experimental_switches(config) == {
        "profiler_metrics": ["m"],
        "verbose": False,
        "adjust_profiler_step": True,
    }


def test_a_name_that_is_no_switch_is_refused():
    with pytest.raises(UsageError, match="there is no switch trace_olny; there are"):
        experimental_switches({"trace_olny": True})


def test_one_switch_can_be_set_in_a_copy():
    profiler = pytest.importorskip("torch._C._profiler", reason="the copy is torch's own")
    config = profiler._ExperimentalConfig(verbose=True)
    other = with_switch(config, "enable_cuda_sync_events", True)
    found = experimental_switches(other)
    assert found["verbose"] and found["enable_cuda_sync_events"]
    assert not experimental_switches(config)["enable_cuda_sync_events"]
    assert experimental_switches(with_switch(None, "verbose", True))["verbose"]
