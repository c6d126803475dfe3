"""Texts as torch.profiler writes them."""

import pytest

from opscope.torch_api.event.formatted_times import (
    format_memory,
    format_time,
    format_time_share,
    shorten,
    shorten_path,
)


@pytest.mark.parametrize(
    ("time_us", "unit", "text"),
    [
        (0, None, "0.000us"),
        (999.9994, None, "999.999us"),
        (1000, None, "1.000ms"),
        (1_500_000, None, "1.500s"),
        (-5.5, None, "-5.500us"),
        (1500, "us", "1500.000us"),
        (1500, "s", "0.002s"),
        (1500, "ms", "1.500ms"),
    ],
)
def test_times(time_us, unit, text):
    assert format_time(time_us, unit) == text


def test_shares():
    assert format_time_share(1, 3) == "33.33%"
    assert format_time_share(0, 0) == "NaN"


@pytest.mark.parametrize(
    ("size", "text"),
    [
        (0, "0 B"),
        (-24, "-24 B"),
        (1024, "1.00 KB"),
        (-1536, "-1.50 KB"),
        (1024**2, "1.00 MB"),
        (3 * 1024**3, "3.00 GB"),
    ],
)
def test_sizes(size, text):
    assert format_memory(size) == text


def test_shortening():
    assert shorten("x" * 51, 55) == "x" * 51
    assert shorten("x" * 52, 55) == "x" * 52 + "..."
    assert shorten("x" * 99, None) == "x" * 99
    assert shorten_path("0123456789", 10) == "0123456789"
    assert shorten_path("0123456789", 6) == "...789"
