"""What moved adds up to nothing, and is never more than what changed."""

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from opscope.analysis.diff.places import CallPlace
from opscope.analysis.diff.shift import moved_times

PLACES = st.builds(CallPlace, st.sampled_from("abc"), st.sampled_from(["mm", "add", "relu"]))
CHANGES = st.lists(st.tuples(PLACES, st.floats(-1e9, 1e9, allow_subnormal=False)), max_size=30)


@given(CHANGES)
def test_sums(changes):
    places, change = [place for place, _ in changes], np.array([ns for _, ns in changes])
    moved = moved_times(places, change)
    slack = 1e-9 * (np.abs(change).sum() + 1)
    assert abs(moved.sum()) <= slack
    assert (np.abs(moved) <= np.abs(change) + slack).all()
    assert (moved * change >= -slack).all()
    left = change - moved
    assert abs(left.sum() - change.sum()) <= slack
    for kind in ("operator", "module"):  # of what is left, kin goes in one direction alone
        for name in {getattr(place, kind) for place in places}:
            of_kin = left[[getattr(place, kind) == name for place in places]]
            assert np.maximum(of_kin, 0).sum() <= slack or np.maximum(-of_kin, 0).sum() <= slack


def test_an_operator_that_another_module_calls_now():
    places = [CallPlace("old", "mm"), CallPlace("new", "mm"), CallPlace("new", "add")]
    assert moved_times(places, np.array([-100.0, 130.0, 20.0])).tolist() == [-100.0, 100.0, 0.0]


def test_another_operator_of_the_same_module():
    places = [CallPlace("head", "addmm"), CallPlace("head", "mm"), CallPlace("tail", "mm")]
    assert moved_times(places, np.array([-50.0, 60.0, 0.0])).tolist() == [-50.0, 50.0, 0.0]


def test_nothing_changed():
    assert moved_times([], np.zeros(0)).tolist() == []
