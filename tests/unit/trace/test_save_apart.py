"""Saving is refused where the process may run out of the memory it is allowed."""

import pytest

from opscope.errors import InsufficientMemoryError
from opscope.trace import save_apart
from opscope.trace.save_apart import _LIBRARIES_BYTES
from support.build_trace import build_trace, span


@pytest.mark.parametrize(("left", "is_saved"), [(None, True), (_LIBRARIES_BYTES, False)])
def test_the_libraries_and_every_row_need_some(tmp_path, monkeypatch, left, is_saved):
    monkeypatch.setattr(save_apart, "process_memory_left", lambda: left)
    trace = build_trace([span("one", 0, 1)])
    if is_saved:
        trace.save(tmp_path / "t")
    else:
        with pytest.raises(InsufficientMemoryError, match=r"writing .*t: it needs about"):
            trace.save(tmp_path / "t")
    assert (tmp_path / "t").exists() is is_saved
