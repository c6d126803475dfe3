"""Chrome JSON in pieces: whatever the pieces are, and what is said of cut ones."""

import gzip
import json

import pytest

from opscope import load_trace
from opscope.base import memory_limit
from opscope.columns.ledger import END_MISSING
from opscope.errors import InsufficientMemoryError, TraceFormatError
from opscope.storage.chrome import native_columns
from opscope.timeline.doubts import doubts
from support.processes import run_python

EVENTS = [
    {"ph": "M", "name": "thread_name", "pid": 9, "tid": 1, "args": {"name": "mäin"}},
    {"ph": "X", "cat": "cpu_op", "name": "aten::\u2603", "pid": 9, "tid": 1, "ts": 12.5, "dur": 2,
     "args": {"Input type": ["float"], "Input Dims": [[2, 3]], "Input Strides": [[3, 1]],
              "stream": 7}},
    {"ph": "X", "cat": "kernel", "name": "gemm", "pid": 0, "tid": 7, "ts": 20, "dur": 1.5,
     "args": {"grid": [2, 1, 1], "correlation": 7}},
    {"ph": "i", "name": "[memory]", "pid": 9, "tid": 1, "ts": 13, "args": {"Addr": 1, "Bytes": 8}},
]  # fmt: skip


def test_a_replaced_byte_may_lie_between_pieces(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    path.write_bytes(b'[{"ph":"X","ts":1,"pid":1,"name":"a\xe2\x98\x83\xe2\x98b\xff"}]')
    for size in (4, 5, 6, 7, 8, 9, 99):
        monkeypatch.setattr(native_columns, "PIECE_BYTES", size)
        assert load_trace(path).event_name(0) == "a\u2603\ufffdb\ufffd"


def test_faults_are_mended_whatever_the_pieces_are(tmp_path, monkeypatch):
    path = tmp_path / "t.json"
    rows = ",\n".join(
        f'{{"ph": "X", "ts": {i}, "pid": 1,\n  "name": "f.py(0): "{i}\\"",\n "tid": 1}}'
        for i in range(5)
    )
    path.write_text(f"[{rows},\n")
    for size in (4, 11, 50, 1 << 20):
        monkeypatch.setattr(native_columns, "PIECE_BYTES", size)
        trace = load_trace(path)
        assert trace.event_name(4) == 'f.py(0): "4"'
        assert trace.ledger["import"]["names with unescaped quotes, repaired"] == 5


def test_events_are_taken_wherever_they_are_and_once(tmp_path):
    inner = {"ph": "X", "name": "inner", "ts": 1, "pid": 1}
    outer = {"ph": "X", "name": "outer", "ts": 0, "dur": 5, "pid": 1, "args": {"x": [inner]}}
    (tmp_path / "t.json").write_text(json.dumps({"a": {"b": [outer]}, "kept": [1, inner]}))
    trace = load_trace(tmp_path / "t.json")
    assert [trace.event_name(row) for row in range(3)] == ["outer", "inner", "inner"]
    assert trace.metadata["kept"] == [1, None]


def test_the_last_of_equal_keys_counts(tmp_path):
    (tmp_path / "t.json").write_text(
        '{"a": 1, "traceEvents": 5, "a": 2, "traceEvents": ['
        '{"ph": "B", "ph": "X", "cat": "cpu_op", "name": "x", "name": "y", "ts": 1, "pid": 1, '
        '"args": {"External id": 4, "k": 1}, "args": {"k": 2, "k": [], "j": 1, "j": "v"}}]}'
    )
    trace = load_trace(tmp_path / "t.json")
    assert trace.event_name(0) == "y"
    assert trace.metadata["a"] == 2
    scalars = trace.table("scalars")
    assert [trace.names[i] for i in scalars["keyword"]] == ["j"]
    assert [trace.names[i] for i in scalars["value"]] == ["v"]


def test_memory_is_requested_while_a_packed_file_is_read(tmp_path, monkeypatch):
    path = tmp_path / "t.json.gz"
    path.write_bytes(gzip.compress(json.dumps({"traceEvents": EVENTS * 50}).encode()))
    left = iter([1 << 30, 100])
    monkeypatch.setattr(native_columns, "_MEMORY_CHECK_BYTES", 1000)
    monkeypatch.setattr(memory_limit, "memory_left", lambda: next(left))
    with pytest.raises(InsufficientMemoryError, match=r"reading .*t\.json\.gz"):
        load_trace(path)


_MEASURED = """
import sys
from opscope.storage.chrome import load_chrome_trace
def status(key):
    lines = open("/proc/self/status").read().splitlines()
    return next(int(line.split()[1]) * 1024 for line in lines if line.startswith(key))
load_chrome_trace(sys.argv[1])  # what is made once
before = status("VmRSS")
open("/proc/self/clear_refs", "w").write("5")
trace = load_chrome_trace(sys.argv[2])
print(len(trace.events), status("VmHWM") - before)
"""


def test_reading_takes_less_memory_than_the_file_has(tmp_path):
    (tmp_path / "small.json").write_text(json.dumps({"traceEvents": EVENTS}))
    large, rows = tmp_path / "large.json", 40_000
    with large.open("w") as file:
        file.write('{"traceEvents": [\n')
        for i in range(rows):
            event = {**EVENTS[1], "ts": i * 10, "args": {"External id": i, "Ev Idx": i,
                     "Record function id": 0, "Input Dims": [[i % 7, 3]], "Input type": ["float"],
                     "Concrete Inputs": [""], "Input Strides": [[3, 1]]}}  # fmt: skip
            file.write(json.dumps(event, indent=2) + (",\n" if i + 1 < rows else "]}"))
    said = run_python("-c", _MEASURED, tmp_path / "small.json", large, check=True).stdout.split()
    assert int(said[0]) == rows
    assert int(said[1]) < large.stat().st_size


EVENT = '{"ph": "X", "cat": "cpu_op", "name": "n%d", "ts": %d, "dur": 2, "pid": 1, "tid": 1}'
TWO = f"{EVENT % (1, 1)},\n{EVENT % (2, 5)}"


@pytest.mark.parametrize(
    ("text", "is_cut"),
    [
        (f"[{TWO}]", False),
        (f"\n\n  [{TWO}]\n\n", False),
        (f"\ufeff[{TWO}]", False),
        (f"[{TWO},]", False),
        ('{"traceEvents": [' + TWO + ",], }", False),
        ('{"traceEvents": [' + TWO + '], "n": -' + "9" * 4300 + "}", False),
        (f"[{TWO}]" + "\0" * 5000, False),
        (EVENT % (1, 1) + "\n" + EVENT % (2, 5) + "\n", False),
        (f"[{EVENT % (1, 1)}]\n[{EVENT % (2, 5)}]", False),
        (f"[{TWO},\n", True),
        (f"\n  [{TWO},\n\n", True),
        (f"[{TWO}", True),
        ('{"schemaVersion": 1, "traceEvents": [' + TWO + ",\n", True),
        ('{"traceEvents": [' + TWO + ', {"ph": "X", "na', True),
        ('{"traceEvents": [' + TWO + ', {"ph": "X", "name": "\\', True),
        ('{"traceEvents": [' + TWO + '], "note": [1, 2', True),
        (f"[{TWO}, " + "\0" * 5000, True),
    ],
)
@pytest.mark.parametrize("piece", [7, 1 << 20])
def test_what_is_whole_is_read(tmp_path, monkeypatch, text, is_cut, piece):
    monkeypatch.setattr(native_columns, "PIECE_BYTES", piece)
    (tmp_path / "t.json").write_bytes(text.encode())

    trace = load_trace(tmp_path / "t.json")

    assert [trace.event_name(row) for row in range(2)] == ["n1", "n2"]
    assert (END_MISSING in trace.ledger["import"]) == is_cut
    assert bool(doubts(trace)) == is_cut


def test_several_traces_in_one_file_are_refused(tmp_path):
    text = '{"traceEvents": [' + TWO + "]}"
    (tmp_path / "t.json").write_text(f"{text}\n{text}")
    with pytest.raises(TraceFormatError, match="continues after the end of its JSON, at line 3"):
        load_trace(tmp_path / "t.json")
