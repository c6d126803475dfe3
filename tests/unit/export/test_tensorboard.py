"""tensorboard_trace_handler: names, folders, workers; nothing is overwritten."""

import os
import re
import socket
import time

import pytest

from opscope.errors import UsageError
from opscope.export.tensorboard import tensorboard_trace_handler


class FakeProfiler:
    def __init__(self):
        self.written = []
        self.python_export = []

    def export_chrome_trace(self, path, use_python_export=False):
        self.written.append(os.path.basename(path))
        self.python_export.append(use_python_export)
        with open(path, "x") as file:
            file.write("{}")


def test_every_cycle_has_a_file_named_for_the_plugin(tmp_path):
    profiler = FakeProfiler()
    handler = tensorboard_trace_handler(tmp_path / "logs" / "run", worker_name="w0")

    for _ in range(3):
        handler(profiler)

    assert sorted(os.listdir(tmp_path / "logs" / "run")) == sorted(profiler.written)
    for name in profiler.written:
        assert re.fullmatch(r"w0\.\d{19}\.pt\.trace\.json", name)
    assert profiler.python_export == [False] * 3


def test_the_worker_is_host_and_process_at_the_time_of_writing(tmp_path, monkeypatch):
    profiler = FakeProfiler()
    handler = tensorboard_trace_handler(tmp_path)

    handler(profiler)
    own = os.getpid()
    monkeypatch.setattr(os, "getpid", lambda: own + 1)  # as in a forked worker
    handler(profiler)

    workers = [name.rsplit(".", 4)[0] for name in profiler.written]
    assert workers == [f"{socket.gethostname()}_{own}", f"{socket.gethostname()}_{own + 1}"]


def test_a_clock_that_stands_still_overwrites_nothing(tmp_path, monkeypatch):
    monkeypatch.setattr(time, "time_ns", lambda: 1_700_000_000_000_000_000)
    profiler = FakeProfiler()
    handler = tensorboard_trace_handler(tmp_path, "w")

    for _ in range(3):
        handler(profiler)

    assert [name.split(".")[1][-1] for name in profiler.written] == ["0", "1", "2"]


def test_a_folder_that_cannot_be_made_is_the_users_error(tmp_path):
    (tmp_path / "file").touch()

    with pytest.raises(UsageError, match="Can't create directory"):
        tensorboard_trace_handler(tmp_path / "file" / "logs")(FakeProfiler())
