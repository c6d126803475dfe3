"""Chrome files as they come: compressed, in other encodings, with faults; and what is no trace."""

import gzip
import json

import pytest

from opscope import load_trace
from opscope.columns.ledger import WITHOUT_DURATION
from opscope.errors import TraceFormatError, UsageError
from opscope.timeline.doubts import doubts
from support.chrome_files import names


def test_durations_that_are_none_are_counted(tmp_path):
    events = [
        {"ph": "X", "cat": "cpu_op", "name": "a", "pid": 1, "tid": 1, "ts": 1, "dur": 0},
        {"ph": "X", "cat": "cpu_op", "name": "b", "pid": 1, "tid": 1, "ts": 2, "dur": -5},
        {"ph": "X", "cat": "cpu_op", "name": "c", "pid": 1, "tid": 1, "ts": 3},
        {"ph": "X", "cat": "kernel", "name": "k", "pid": 0, "tid": 7, "ts": 4, "dur": -1},
    ]
    (tmp_path / "t.json").write_text(json.dumps(events))
    trace = load_trace(tmp_path / "t.json")
    assert trace.events["duration_ns"].tolist() == [0, 0, 0]
    assert trace.ledger["import"][WITHOUT_DURATION] == 3
    assert doubts(trace) == [f"3 {WITHOUT_DURATION}"]
    (tmp_path / "t.json").write_text(json.dumps(events[:1]))
    assert WITHOUT_DURATION not in load_trace(tmp_path / "t.json").ledger["import"]


def test_names_with_bare_quotes_as_kineto_writes_them_are_mended(tmp_path):
    path = tmp_path / "t.json"
    path.write_text(
        '{"traceEvents": [\n  {\n    "ph": "X",\n    "cat": "python_function",\n'
        '    "name": "monitor.py(0):     """",\n    "pid": 1,\n "tid":1,"ts":1.5,"dur":1\n  },\n'
        '  {\n    "ph": "X",\n    "name": "C:\\data\\user \\"quoted\\" \\u0041",\n'
        '    "pid": 1, "tid": 1, "ts": 9, "dur": 1\n  }\n]}'
    )
    trace = load_trace(path)
    assert names(trace) == ['monitor.py(0):     """', 'C:\\data\\user "quoted" A']
    assert trace.ledger["import"]["names with unescaped quotes, repaired"] == 2


@pytest.mark.parametrize(
    ("content", "message"),
    [
        (b"", "is empty"),
        (b"   \n", "is empty"),
        (b'{"traceEvents": [{"ph":"X","name":"a","pid":1,"ts":1', "stops in the middle"),
        (b'{"traceEvents": [{"ph":"X","name":"a', "stops in the middle"),
        (b'{"traceEvents": [{"ph" "X"}], "more": 1}', "not JSON.*line 1, column 24"),
        (b'{"a": 1}', "no traceEvents"),
        (b"[]", "no traceEvents"),
        (b"3", "no traceEvents"),
        (b'{"traceEvents": 5}', "no traceEvents"),
        (b"[" * 200_000, "too deeply|stops in the middle"),
        (b'{"traceEvents": [' + b'{"a":' * 200_000, "too deeply|stops in the middle"),
        (b'{"traceEvents": [], "n": ' + b"9" * 5000 + b"}", "Integer of more than 4,300"),
        (gzip.compress(b'{"traceEvents": [1, 2, 3]}')[:-12], "stops in the middle"),
    ],
)  # fmt: skip
def test_a_file_that_is_no_trace_is_refused_with_what_to_do(tmp_path, content, message):
    path = tmp_path / "t.json"
    path.write_bytes(content)
    with pytest.raises(TraceFormatError, match=message) as caught:
        load_trace(path)
    assert str(path) in str(caught.value)
    assert str(caught.value).rstrip().endswith((".", ")."))


def test_an_empty_file_is_a_trace_and_has_no_ranks(tmp_path):
    (tmp_path / "t.json").write_text('{"traceEvents": []}')
    assert len(load_trace(tmp_path / "t.json").events) == 0
    with pytest.raises(UsageError, match="Leave rank out"):
        load_trace(tmp_path / "t.json", rank=1)
