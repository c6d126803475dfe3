"""Fixtures of tests that write Chrome files."""

import pytest

from opscope.export.chrome.writer import write_chrome_trace
from support.chrome_files import load


@pytest.fixture
def export(tmp_path):
    def run(trace, name="trace.json", **options):
        path = tmp_path / name
        write_chrome_trace(trace, path, **options)
        return load(path)

    return run
