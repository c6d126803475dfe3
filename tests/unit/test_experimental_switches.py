"""The switches of torch's ``_ExperimentalConfig``, in whatever order torch keeps them."""

from opscope.experimental_switches import experimental_switches


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
