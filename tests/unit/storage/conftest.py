"""A small trace, in memory and on disk."""

import pytest

from opscope.storage.store import save_part
from support.saved_trace import small_trace


@pytest.fixture
def small():
    return small_trace()


@pytest.fixture
def saved(small, tmp_path):
    return save_part(small, tmp_path / "t")
