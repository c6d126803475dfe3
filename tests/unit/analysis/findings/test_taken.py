import numpy as np
import pytest

from opscope.analysis.findings.taken import taken

# 0 calls 1 and 3, 1 calls 2; 4 is by itself.
AROUND = np.array([-1, 0, 1, 0, -1])
OWN = np.array([10, 20, 30, 40, 50, 60])


def test_as_much_as_there_is_goes_evenly_from_what_events_take():
    shares = taken(OWN, AROUND, np.array([1]), 25)
    assert shares == pytest.approx([0, 0.5, 0.5, 0, 0, 0])


@pytest.mark.parametrize(
    ("saved_ns", "shares"),
    [
        (55, [0.5, 1, 1, 0, 0, 0]),  # then what calls them
        (80, [1, 1, 1, 0.5, 0, 0]),  # then what that calls besides
        (130, [1, 1, 1, 1, 0, 0.5]),  # then the time in no event
        (185, [1, 1, 1, 1, 0.5, 1]),  # then all the rest
        (1_000, [1, 1, 1, 1, 1, 1]),  # and never more than there is
    ],
)
def test_the_rest_goes_from_what_is_around_them(saved_ns, shares):
    assert taken(OWN, AROUND, np.array([1]), saved_ns) == pytest.approx(shares)


def test_an_event_inside_another_of_the_finding_counts_once():
    shares = taken(OWN, AROUND, np.array([1, 2]), 50)
    assert shares == pytest.approx([0, 1, 1, 0, 0, 0])


def test_nothing_goes_where_nothing_is_saved():
    assert not taken(OWN, AROUND, np.array([1]), 0).any()
    assert not taken(np.zeros(6, dtype=np.int64), AROUND, np.array([1]), 10).any()


def test_of_running_functions_only_their_own_time_goes_at_first():
    alone = np.array([True, True, False, False, False])
    assert taken(OWN, AROUND, np.array([1]), 10, alone) == pytest.approx([0, 0.5, 0, 0, 0, 0])
