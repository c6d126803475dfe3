"""What a file is, by its structure and not by words in it."""

import json
import pickle

import pytest

from opscope import load_trace
from opscope.errors import TraceFormatError
from opscope.storage.file_kind import FileKind, file_kind, kind_of_json

EVENT = {"ph": "X", "name": "a", "ts": 1, "dur": 2, "pid": 1, "tid": 1,
         "args": {"nodes": [{"id": 7, "name": "n"}], "schema": "1"}}  # fmt: skip
NODE = {"id": 2, "name": "aten::mm", "ctrl_deps": 1, "attrs": [{"ph": "X", "traceEvents": []}]}


@pytest.mark.parametrize(
    "document",
    [
        [EVENT],
        {"traceEvents": [EVENT]},
        {"meta": {"nodes": [1], "schema": 2}, "traceEvents": [EVENT]},
        {"nodes": [{"id": 1}], "schema": "x", "traceEvents": [EVENT]},
        {"nodes": [{"id": 1, "name": "n", "ph": "X"}], "traceEvents": []},
        {"text": '"nodes": [{"id": 1, "name": 2}', "traceEvents": []},
        EVENT,
    ],
)
def test_a_chrome_trace_is_one_whatever_keys_it_has(document):
    assert kind_of_json(json.dumps(document)) is FileKind.CHROME


def test_an_execution_trace_is_one_by_its_nodes_and_anything_else_is_none():
    for document in (
        {"schema": "1.1.1", "nodes": [NODE]},
        {"nodes": [NODE], "schema": "1.1.1"},
        {"schema": "1.1.1", "pid": 3, "time": "now", "start_ts": 4, "nodes": []},
    ):
        assert kind_of_json(json.dumps(document)) is FileKind.EXECUTION_TRACE
    for text in ("", "3", "[", "}", '{"a": 1}', '{"nodes": [1, 2]}', '"traceEvents"'):
        assert kind_of_json(text) is FileKind.OTHER


class _Bomb:
    def __reduce__(self):
        return (exec, ("raise SystemExit('unpickled')",))


@pytest.mark.parametrize("protocol", [0, 2, 5])
def test_a_memory_snapshot_is_named_and_never_unpickled(tmp_path, protocol):
    path = tmp_path / "s.pickle"
    path.write_bytes(pickle.dumps({"segments": [_Bomb()], "device_traces": [[]]}, protocol))

    assert file_kind(path) is FileKind.SNAPSHOT
    with pytest.raises(TraceFormatError, match=r"memory snapshot of torch.*opscope memory FILE"):
        load_trace(path)


@pytest.mark.parametrize(
    ("content", "said"),
    [
        (pickle.dumps([1, 2]), "pickled Python object"),
        (b"SQLite format 3\0" + bytes(100), "SQLite database"),
        (b"PAR1" + bytes(100), "Parquet file"),
    ],
)
def test_files_of_other_kinds_are_named(tmp_path, content, said):
    (tmp_path / "x").write_bytes(content)
    with pytest.raises(TraceFormatError, match=said):
        load_trace(tmp_path / "x")
