"""Whether connections took what was sent, read from metadata that may say anything."""

import pytest

from opscope.trace.partition import Partition
from opscope.trace.sending import Sending, known_sending, read_sending, sending_metadata


def test_what_metadata_says_is_read_back():
    metadata = {"sending": sending_metadata(8, 2, 10), "start_ns": 100, "end_ns": 1100}
    assert read_sending(metadata) == Sending(8, 2, looked_ns=800)
    assert read_sending(metadata).share == 0.25
    assert sending_metadata(0, 0, 10) == {}


@pytest.mark.parametrize(
    "said",
    [
        None,
        3,
        {},
        {"looks": 5},
        {"looks": 5, "behind": 2},
        {"looks": 0, "behind": 0, "all_looks": 5},
        {"looks": 5, "behind": 6, "all_looks": 9},
        {"looks": 5, "behind": -1, "all_looks": 9},
        {"looks": 5, "behind": 2, "all_looks": 4},
        {"looks": "5", "behind": 2, "all_looks": 9},
    ],
)
def test_what_makes_no_sense_is_not_known(said):
    assert read_sending({"sending": said}) is None
    assert known_sending({Partition("rank", 0): {"sending": said}}) == {}
