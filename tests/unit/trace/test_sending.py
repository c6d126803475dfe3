"""Whether connections took what was sent, read from metadata that may say anything."""

import pytest

from opscope.trace.partition import Partition
from opscope.trace.sending import Sending, known_sending, read_sending


def test_what_metadata_says_is_read_back():
    assert read_sending({"sending": Sending(8, 2).as_dict()}) == Sending(8, 2)
    assert Sending(8, 2).share == 0.25


@pytest.mark.parametrize(
    "said",
    [
        None,
        3,
        {},
        {"looks": 5},
        {"looks": 0, "behind": 0},
        {"looks": 5, "behind": 6},
        {"looks": 5, "behind": -1},
        {"looks": "5", "behind": 2},
    ],
)
def test_what_makes_no_sense_is_not_known(said):
    assert read_sending({"sending": said}) is None
    assert known_sending({Partition("rank", 0): {"sending": said}}) == {}
