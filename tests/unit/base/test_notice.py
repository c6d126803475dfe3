"""A line on standard error, from inside a program."""

import io
import sys

import pytest

from opscope.base.notice import notice


class Full(io.StringIO):
    def write(self, text):
        raise OSError(28, "No space left on device")


def test_it_is_one_printable_line(capsys):
    notice("recording stopped: \x1b[2J\nmore")
    assert capsys.readouterr().err == "opscope: recording stopped: \\x1b[2J\\nmore\n"


@pytest.mark.parametrize("make", [Full, lambda: None])
def test_no_process_to_read_it_is_no_error(capsys, monkeypatch, make):
    monkeypatch.setattr(sys, "stderr", make())
    notice("recording stopped")
    assert capsys.readouterr().out == ""
