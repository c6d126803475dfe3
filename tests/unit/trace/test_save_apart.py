"""When saving is left to a child: where the process may run out of the memory it is allowed."""

import pytest

from opscope.trace import save_apart
from opscope.trace.save_apart import _LIBRARIES_BYTES, _is_short_of_memory
from support.build_trace import build_trace, span


class Unread:
    """A trace that nobody looks at."""

    def table(self, name):
        raise AssertionError(name)


def test_without_a_limit_no_row_is_counted(monkeypatch):
    monkeypatch.setattr(save_apart, "process_memory_left", lambda: None)
    assert not _is_short_of_memory(Unread())


@pytest.mark.parametrize(("more_bytes", "is_short"), [(0, True), (1 << 20, False)])
def test_the_libraries_and_every_row_need_some(monkeypatch, more_bytes, is_short):
    monkeypatch.setattr(save_apart, "process_memory_left", lambda: _LIBRARIES_BYTES + more_bytes)
    assert _is_short_of_memory(build_trace([span("one", 0, 1)])) is is_short
