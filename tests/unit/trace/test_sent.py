"""What a process sent: added up, and read from metadata that may say anything."""

import pytest

from opscope.trace.sent import Sent, read_sent


def test_it_is_added_up_and_taken_since_a_moment():
    assert Sent(5, 70) - Sent(2, 30) + Sent(1, 1) == Sent(4, 41)


def test_what_metadata_says_is_read_back():
    assert read_sent({"sent": Sent(5, 70).as_dict()}) == Sent(5, 70)


@pytest.mark.parametrize(
    "said", [None, 3, {}, {"arrived_bytes": 5}, {"arrived_bytes": -1, "sending_ns": 2},
             {"arrived_bytes": "5", "sending_ns": 2}],
)  # fmt: skip
def test_what_makes_no_sense_is_not_known(said):
    assert read_sent({"sent": said}) is None
