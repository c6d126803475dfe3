"""Which steps are recorded."""

import itertools
import warnings

import pytest

from opscope.errors import UsageError
from opscope.torch_api.schedule import ProfilerAction, schedule

NONE, WARMUP, RECORD, SAVE = (
    ProfilerAction.NONE,
    ProfilerAction.WARMUP,
    ProfilerAction.RECORD,
    ProfilerAction.RECORD_AND_SAVE,
)


def actions(steps, **counts):
    with warnings.catch_warnings():
        warnings.simplefilter("ignore")
        chosen = schedule(**counts)
    return [chosen(step) for step in range(steps)]


def test_every_small_schedule_is_the_one_torch_would_make():
    torch_profiler = pytest.importorskip("torch.profiler")
    names = ("wait", "warmup", "active", "repeat", "skip_first", "skip_first_wait")
    ranges = (range(3), range(3), range(1, 3), range(3), range(3), range(2))
    for values in itertools.product(*ranges):
        counts = dict(zip(names, values, strict=True))
        with warnings.catch_warnings():
            warnings.simplefilter("ignore")
            theirs = torch_profiler.schedule(**counts)
        assert [a.name for a in actions(20, **counts)] == [theirs(n).name for n in range(20)], (
            counts
        )


@pytest.mark.parametrize("name", ["wait", "warmup", "repeat", "skip_first"])
def test_negative_numbers_are_refused(name):
    with pytest.raises(UsageError, match=rf"schedule\({name}=-1\)"):
        schedule(**{"wait": 1, "warmup": 1, "active": 1, name: -1})
    with pytest.raises(UsageError, match="begin at 0"):
        schedule(wait=0, warmup=1, active=1)(-1)


@pytest.mark.parametrize("active", [0, -2])
def test_nothing_to_record_is_refused(active):
    with pytest.raises(UsageError, match="at least one step"):
        schedule(wait=1, warmup=1, active=active)


def test_leaving_out_the_warmup_is_warned_about():
    with pytest.warns(UserWarning, match="warmup"):
        schedule(wait=0, warmup=0, active=1)


def test_a_schedule_explains_itself():
    shown = str(schedule(wait=2, warmup=1, active=3, repeat=2, skip_first=4))
    assert shown == "steps: skip 4, wait 2, warm up 1, record 3; 2 times"
    shown = str(schedule(wait=2, warmup=1, active=3, skip_first_wait=1))
    assert "wait 0, warm up 1" in shown and "waiting 2 before each later cycle" in shown
