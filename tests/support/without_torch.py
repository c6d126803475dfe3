"""Fixtures for tests of the recorder of Python calls as it is where torch was never imported."""

from __future__ import annotations

import sys
import threading
from collections.abc import Iterator

import pytest

from opscope import _native


@pytest.fixture(scope="module")
def no_torch() -> Iterator[None]:
    """The recorder knows nothing of torch; what it knew comes back."""
    _native.set_up_python("", "", "", *[None] * 4)
    yield
    source = sys.modules.get("opscope.recording.facts.python_source")
    if source is not None and source._set_up:
        source._set_up = False
        source.set_up_python_source()


@pytest.fixture
def nothing_left_over() -> Iterator[None]:
    """No window and no hook of ours is left, and the program's own hooks are where they were."""
    profiler = sys.getprofile()
    thread_profiler = threading.getprofile()
    yield
    statistics = _native.statistics()
    assert statistics["windows"] == 0
    assert statistics["wanted"] == 0
    assert sys.getprofile() is profiler
    assert threading.getprofile() is thread_profiler
    if sys.version_info >= (3, 12):
        assert [sys.monitoring.get_tool(i) for i in (3, 4)] == [None, None]
