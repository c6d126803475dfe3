"""Saving is refused where the process may run out of the memory it is allowed."""

import sys
from importlib import import_module

import pytest

from opscope.errors import InsufficientMemoryError
from opscope.storage import store
from opscope.storage.store import _LIBRARIES_BYTES, _POOLS_BYTES
from support.build_trace import build_trace, span


@pytest.mark.parametrize(
    ("left", "is_saved", "is_loaded"),
    [
        (None, True, True),
        (_LIBRARIES_BYTES, False, False),
        (_LIBRARIES_BYTES, True, True),
        (_POOLS_BYTES, False, True),
    ],
)
def test_the_libraries_and_every_row_need_some(tmp_path, monkeypatch, left, is_saved, is_loaded):
    if not is_loaded:
        monkeypatch.delitem(sys.modules, "pyarrow.parquet", raising=False)
    else:
        import_module("pyarrow.parquet")
    monkeypatch.setattr(store, "process_memory_left", lambda: left)
    trace = build_trace([span("one", 0, 1)])
    if is_saved:
        trace.save(tmp_path / "t")
    else:
        with pytest.raises(InsufficientMemoryError, match=r"writing .*t: it needs about"):
            trace.save(tmp_path / "t")
    assert (tmp_path / "t").exists() is is_saved
