"""The rows of a Chrome trace: what Kineto's files hold, from tables described in the test."""

import json
import os
import re
import socket
import time

import numpy as np
import pytest

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import EventKind
from opscope.errors import UsageError
from opscope.export.chrome.writer import tensorboard_trace_handler, write_chrome_trace
from support.build_trace import ORIGIN_NS, build_trace, span
from support.chrome_files import spans_of


def test_python_calls_can_be_left_out(export):
    spans = [
        span("f", 0, 100, kind=EventKind.PYTHON_CALL),
        span("aten::mm", 10, 20, parent=0),
        span("c", 30, 40, kind=EventKind.C_CALL),
    ]

    document = export(build_trace(spans), with_python=False)

    assert [row["name"] for row in spans_of(document)] == ["aten::mm"]
    assert spans_of(document)[0]["args"]["External id"] == 2
    assert export(build_trace(spans[:1]), with_python=False)["traceEvents"][-4]["dur"] == 100_000


def test_unfinished_spans_say_so(export):
    rows = spans_of(export(build_trace("a 0..?\n  b 1..2\n c 3..4")))

    assert [row["args"].get("finished") for row in rows] == [False, None, None]


PERIOD_NS = 7_889_238 * 10**9


def test_the_top_level_is_kinetos_with_what_the_user_added(export):
    metadata = {
        "process_id": 7,
        "host_name": "box",
        "trace_id": "ABC",
        "program": "train.py",
        "record_shapes": True,
        "with_stack": True,
        "with_flops": False,
        "user": {"note": 'say "hi" </script>', "loss": float("nan")},
    }

    document = export(build_trace("a 0..1", metadata=metadata))
    assert list(document) == [
        "schemaVersion",
        "deviceProperties",
        "trace_id",
        "with_stack",
        "record_shapes",
        "note",
        "loss",
        "host_name",
        "displayTimeUnit",
        "baseTimeNanoseconds",
        "traceEvents",
        "traceName",
    ]
    assert document["schemaVersion"] == document["with_stack"] == 1
    assert document["displayTimeUnit"] == "ms"
    assert document["baseTimeNanoseconds"] == ORIGIN_NS // PERIOD_NS * PERIOD_NS
    assert document["note"] == 'say "hi" </script>'
    assert document["loss"] == "nan"
    assert document["traceName"].endswith("trace.json")


def test_a_user_key_never_hides_a_key_of_the_format(export):
    metadata = {"user": {"traceEvents": "mine", "schemaVersion": 9}}

    document = export(build_trace("a 0..1", metadata=metadata))

    assert document["schemaVersion"] == 1
    assert len(spans_of(document)) == 1
    assert document["user traceEvents"] == "mine"
    assert document["user schemaVersion"] == 9


def test_the_last_rows_are_where_readers_look_for_them(export):
    trace = build_trace(
        "a 10..20\n b 30..40",
        metadata={"start_ns": ORIGIN_NS + 5_000, "end_ns": ORIGIN_NS + 60_000},
    )

    rows = export(trace)["traceEvents"]

    base = ORIGIN_NS // PERIOD_NS * PERIOD_NS
    assert rows[-4]["name"] == "PyTorch Profiler (0)"
    assert rows[-4]["ts"] == ORIGIN_NS + 5_000 - base
    assert rows[-4]["dur"] == 55_000
    assert rows[-3]["name"] == "process_sort_index"
    assert rows[-2]["name"] == "Iteration Start: PyTorch Profiler"
    assert rows[-1]["name"] == "Record Window End"
    for row in rows:
        assert row["ts"] >= rows[-4]["ts"]
        assert row["ts"] + row.get("dur", 0) <= rows[-1]["ts"]


def test_times_read_as_floats_stay_inside_the_profile(export, tmp_path):
    # GIVEN spans of one end, which doubles cannot hold to the nanosecond once added up
    start = ORIGIN_NS + np.arange(2000, dtype=np.int64) * 1_000_003
    trace = Trace(
        {
            "events": {
                "start_ns": start,
                "duration_ns": start[-1] + 1_000_010 - start,
                "name": [0] * 2000,
            },
            "threads": {"system_thread_id": [5]},
        },
        Names.from_strings(["a"]),
    )

    # WHEN the file is read as JSON usually is
    write_chrome_trace(trace, tmp_path / "t.json")
    rows = json.loads((tmp_path / "t.json").read_text())["traceEvents"]

    # THEN nothing ends after the end, and every time is still exact
    assert max(row["ts"] + row.get("dur", 0) for row in rows) <= rows[-1]["ts"]
    base = start[0] // PERIOD_NS * PERIOD_NS
    got = [round(row["ts"] * 1000) for row in rows if row["ph"] == "X" and row["name"] == "a"]
    assert got == (start - base).tolist()


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
