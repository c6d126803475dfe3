"""Times and sizes as people write them."""

import pytest

from opscope.base.quantity_text import count_bytes, nanoseconds
from opscope.errors import UsageError


@pytest.mark.parametrize(
    ("given", "expected"),
    [("30s", 30_000_000_000), ("500 ms", 500_000_000), ("1.5min", 90_000_000_000), (2, 2 * 10**9)],
)
def test_times(given, expected):
    assert nanoseconds(given, "last=") == expected


@pytest.mark.parametrize(
    ("given", "expected"), [("64MiB", 64 << 20), ("1.5GiB", 3 << 29), (4096, 4096), ("7B", 7)]
)
def test_sizes(given, expected):
    assert count_bytes(given, "max_memory=") == expected


@pytest.mark.parametrize(
    "given", ["", "30", "30 bananas", "-1s", "0s", 0, -3, None, True, "1e400s"]
)
def test_what_is_no_time(given):
    with pytest.raises(UsageError, match=r"last= .* is not a time"):
        nanoseconds(given, "last=")
