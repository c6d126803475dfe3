"""The switches of torch's ``_ExperimentalConfig``, in whatever order torch keeps them."""

import pytest

from opscope.errors import UsageError
from opscope.torch_api.experimental_switches import experimental_switches, with_switch


class Config:
    """As torch 2.6 has it: fewer switches, in another order."""

    def __init__(self, profiler_metrics=(), verbose=False, adjust_profiler_step=False):
        self.state = (adjust_profiler_step, list(profiler_metrics), verbose)

    def __getstate__(self):
        return self.state


class Forgetful(Config):
    """Pickling leaves a switch out."""

    def __getstate__(self):
        return self.state[1:]


def test_switches_are_found_in_any_order():
    config = Config(profiler_metrics=["m"], adjust_profiler_step=True)
    assert experimental_switches(config) == {
        "profiler_metrics": ["m"],
        "verbose": False,
        "adjust_profiler_step": True,
    }


def test_what_cannot_be_seen_is_left_out():
    found = experimental_switches(Forgetful(adjust_profiler_step=True))
    assert found == {"profiler_metrics": [], "verbose": False}


def test_no_configuration_has_no_switches():
    assert experimental_switches(None) == {}


def test_switches_of_any_torch_may_be_named():
    asked = {"profiler_metrics": ["m"], "trace_only": True}
    assert experimental_switches(asked) == asked


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
