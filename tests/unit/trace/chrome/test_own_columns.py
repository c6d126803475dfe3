"""What opscope adds to its Chrome files gives back the trace, as long as the rows are unchanged."""

import gzip
import json
import random

import pytest

from opscope.errors import TraceFormatError
from opscope.trace.chrome import own_columns
from opscope.trace.load import load_trace
from support.build_trace import allocation, build_trace, span, tensor
from support.random_trace import assert_same_trace, random_trace

RECORDED = {"options": {"shapes": True}, "process_id": 7}


def recorded(**more):
    return build_trace(
        [
            span("aten::linear", 0, 10, inputs=[tensor(2, 3, impl=16, storage=64, tensor_id=1)]),
            span("aten::mm", 0, 10, outputs=[tensor(2, 4, impl=32, storage=128)], raised=True),
        ],
        allocations=[allocation(3, 32, address=128, allocation_id=5)],
        metadata={**RECORDED, **more},
    )


def written(trace, path, **options):
    from opscope.export.chrome.writer import write_chrome_trace

    write_chrome_trace(trace, path, **options)
    return path


@pytest.mark.parametrize("name", ["trace.json", "trace.json.gz"])
def test_a_file_gives_back_the_trace_that_it_was_written_from(tmp_path, name):
    trace = recorded()

    assert_same_trace(load_trace(written(trace, tmp_path / name)), trace)


@pytest.mark.parametrize("size", [23, 24, 25, 64, 1000])
def test_it_does_not_matter_where_a_file_is_cut_to_be_read(tmp_path, monkeypatch, size):
    trace = recorded()
    path = written(trace, tmp_path / "trace.json")
    monkeypatch.setattr(own_columns, "_PIECE_BYTES", size)

    assert_same_trace(load_trace(path), trace)


def test_the_last_columns_in_a_file_count(tmp_path):
    trace = recorded()
    path = written(trace, tmp_path / "trace.json")
    text = path.read_text()
    begin = text.rindex('"opscope": {"rows": ')
    end = text.index('"traceName"')
    path.write_text(text[:begin] + text[begin:end] + text[begin:])

    assert load_trace(path).metadata["imported_from"] == "trace.json"  # other rows stand before

    path.write_text(text)
    assert_same_trace(load_trace(path), trace)


@pytest.mark.parametrize("seed", range(5))
@pytest.mark.parametrize("few_rows", [0, 1 << 20], ids=["zstd", "zlib"])
def test_any_trace_comes_back(tmp_path, monkeypatch, seed, few_rows):
    monkeypatch.setattr("opscope.trace.packed._FEW_ROWS", few_rows)
    trace = random_trace(seed, 60).with_metadata(RECORDED)

    again = load_trace(written(trace, tmp_path / "trace.json"))

    lines = len(trace.table("source_lines"))
    left_out = again.ledger.get("import", {})
    assert left_out == ({"rows that the file was not given: source_lines": lines} if lines else {})
    kept = ("ledger", "source_lines")
    assert_same_trace(again.with_tables({name: trace.table(name) for name in kept}), trace)


@pytest.mark.parametrize(
    "change",
    [
        lambda text: text.replace("aten::mm", "aten::bm"),
        lambda text: text.replace("aten::mm", "aten::matmul"),
        lambda text: text.replace('"traceEvents": [', '"traceEvents": ['),
        lambda text: json.dumps(json.loads(text)),
    ],
    ids=["a name of the same length", "a longer name", "nothing", "written by another program"],
)
def test_rows_that_were_changed_are_what_counts(tmp_path, change):
    path = written(recorded(), tmp_path / "trace.json")
    before = path.read_text()
    path.write_text(change(before))

    trace = load_trace(path)

    is_own = path.read_text() == before
    assert trace.metadata.get("imported_from") == (None if is_own else "trace.json")
    note = "dropped: opscope's own columns, because the rows changed since"
    assert (note in trace.ledger.get("import", {})) == (not is_own)
    assert "opscope" not in trace.metadata


@pytest.mark.parametrize("seed", range(40))
def test_damaged_columns_are_not_used(tmp_path, seed):
    """Whatever was done to them, loading gives the trace of the rows, or says what is no JSON."""
    path = written(recorded(), tmp_path / "trace.json")
    raw = bytearray(path.read_bytes())
    begin, draw = raw.rindex(b'"opscope"'), random.Random(seed)
    for _ in range(3):
        place = draw.randrange(begin + 30, len(raw) - 40)
        raw[place] = draw.choice(b"AZaz019/+=")
    path.write_bytes(raw)

    try:
        trace = load_trace(path)
    except TraceFormatError as error:
        assert "JSON" in str(error)
    else:
        assert trace.metadata["imported_from"] == "trace.json"
        assert [trace.event_name(row) for row in (0, 1)] == ["aten::linear", "aten::mm"]


def test_columns_of_another_format_are_not_used(tmp_path, monkeypatch):
    path = written(recorded(), tmp_path / "trace.json")
    monkeypatch.setattr(own_columns, "_FORMAT", own_columns._FORMAT + 1)

    assert load_trace(path).metadata["imported_from"] == "trace.json"


def test_more_than_the_columns_say_is_not_unpacked(tmp_path):
    path = written(recorded(), tmp_path / "trace.json")
    text = path.read_text()
    document = json.loads(text)
    tables = document["opscope"]["tables"]
    size, packed = tables["events"]["start_ns"]
    path.write_text(
        text.replace(json.dumps([size, packed]), json.dumps([size - 8, packed])), encoding="utf-8"
    )

    assert load_trace(path).metadata["imported_from"] == "trace.json"


@pytest.mark.parametrize(
    ("metadata", "options"),
    [
        ({}, {"with_python": False}),
        ({"left_out": ["concrete_inputs"]}, {}),
    ],
    ids=["without Python calls", "without values of arguments"],
)
def test_what_is_to_stay_out_of_the_rows_stays_out_of_the_file(tmp_path, metadata, options):
    path = written(recorded(**metadata), tmp_path / "trace.json", **options)

    assert "opscope" not in json.loads(path.read_text())


def test_a_trace_of_another_tool_is_written_without(tmp_path):
    path = written(build_trace("a 0..1"), tmp_path / "trace.json")

    assert "opscope" not in json.loads(path.read_text())


def test_text_of_source_lines_stays_out(tmp_path):
    trace = recorded()
    lines = {"file": [0], "line": [3], "text": ["password = 'secret'"]}
    path = written(
        type(trace)({**trace._tables, "source_lines": lines}, trace.names), tmp_path / "t.json.gz"
    )

    again = load_trace(path)

    assert len(again.table("source_lines")) == 0
    assert again.ledger["import"] == {"rows that the file was not given: source_lines": 1}
    assert b"secret" not in gzip.decompress(path.read_bytes())
