"""The top of a Chrome file and its last rows."""

import json

import numpy as np

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.export.chrome.writer import write_chrome_trace
from support.build_trace import ORIGIN_NS, build_trace
from support.chrome_files import spans_of

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
    # GIVEN times that doubles cannot hold to the nanosecond once added up
    start = ORIGIN_NS + np.arange(2000, dtype=np.int64) * 1_000_003
    trace = Trace(
        {
            "events": {
                "start_ns": start,
                "duration_ns": np.full(2000, 999_999),
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
