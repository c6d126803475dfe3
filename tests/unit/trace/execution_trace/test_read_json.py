"""The file, node by node: whole, cut, damaged, foreign, hostile."""

import gzip
import json

import pytest

from opscope import TraceFormatError
from opscope.trace.execution_trace import read_json
from opscope.trace.execution_trace.read_json import read_nodes

NODES = [
    {"id": i, "name": f"node {i} ☃", "attrs": [{"name": "x", "value": 1.5}]} for i in range(50)
]
DOCUMENT = {"schema": "1.1.1-chakra.0.0.4", "pid": 12, "nodes": NODES, "finish_ts": 123456789}


@pytest.fixture
def read(tmp_path):
    """Reads a text as a file; gives the nodes and the rest."""

    def call(content):
        path = tmp_path / "trace.json"
        path.write_bytes(content if isinstance(content, bytes) else content.encode())
        nodes = []
        header = read_nodes(path, nodes.append)
        return nodes, header

    return call


@pytest.mark.parametrize("chunk", [1, 7, 64, 1 << 20])
@pytest.mark.parametrize("indent", [None, 1])
def test_chunks_of_any_size_give_the_same_nodes(read, monkeypatch, chunk, indent):
    monkeypatch.setattr(read_json, "CHUNK_BYTES", chunk)

    nodes, header = read(json.dumps(DOCUMENT, indent=indent))

    assert [node["name"] for node in nodes] == [node["name"] for node in NODES]
    assert header == {"schema": "1.1.1-chakra.0.0.4", "pid": 12, "finish_ts": 123456789}


def test_a_compressed_file_is_read_as_well(read):
    nodes, _ = read(gzip.compress(json.dumps(DOCUMENT).encode()))

    assert len(nodes) == 50


def test_memory_is_bounded_by_a_few_chunks(tmp_path, monkeypatch):
    import tracemalloc

    monkeypatch.setattr(read_json, "CHUNK_BYTES", 1 << 16)
    path = tmp_path / "large.json"
    node = json.dumps({"id": 1, "name": "x" * 1000})
    path.write_text(f'{{"nodes": [{", ".join([node] * 20_000)}]}}')

    count = 0

    def on_node(_):
        nonlocal count
        count += 1

    tracemalloc.start()
    read_nodes(path, on_node)
    _, peak = tracemalloc.get_traced_memory()
    tracemalloc.stop()

    assert count == 20_000
    assert peak < 2 << 20 < path.stat().st_size / 8


def test_elements_that_are_no_nodes_are_passed_over(read):
    nodes, _ = read('{"nodes": [1, null, {"id": 1}, [], "x"]}')

    assert nodes == [{"id": 1}]


@pytest.mark.parametrize("cut", [40, 200, 1000])
def test_a_cut_file_says_how_much_of_it_is_whole(read, cut):
    with pytest.raises(TraceFormatError, match=r"stops in the middle.*\d+ whole nodes.*unregister"):
        read(json.dumps(DOCUMENT)[:cut])


def test_a_file_that_torch_never_finished_is_a_cut_one(read):
    with pytest.raises(TraceFormatError, match="after 1 whole nodes"):
        read('{"schema": "1.1.1-chakra.0.0.4", "nodes": [{"id": 2, "name": "f"},')


@pytest.mark.parametrize(
    ("content", "complaint"),
    [
        ('{"nodes": [{"id": 1} {"id": 2}]}', r"not JSON: Expecting '\]'"),
        ('{"nodes": [{"id": }], "x": 1}', "not JSON"),
        ('{"a": 1}', "no nodes"),
        ("[1, 2]", "not JSON: Expecting '{'"),
        ("", "stops in the middle"),
        ('{1: 2, "nodes": []}', "not JSON"),
        (b"\x00\xff\xfe" * 9, "not JSON"),
        ('{"x": ' + "[" * 100_000, "nests JSON values too deeply"),
        ('{"nodes": [{"id": ' + "9" * 5000 + '}], "x": 1}', "not JSON: Exceeds the limit"),
    ],
)
def test_what_is_wrong_is_said(read, content, complaint):
    with pytest.raises(TraceFormatError, match=complaint):
        read(content)


def test_a_node_of_endless_length_is_not_waited_for(read, monkeypatch):
    monkeypatch.setattr(read_json, "MAX_VALUE_CHARACTERS", 1000)
    monkeypatch.setattr(read_json, "CHUNK_BYTES", 100)

    with pytest.raises(TraceFormatError, match="not JSON"):
        read('{"nodes": ["' + "x" * 100_000)


def test_a_damaged_archive_is_said_to_be_one(read):
    whole = bytearray(gzip.compress(json.dumps(DOCUMENT).encode()))

    with pytest.raises(TraceFormatError, match="stops in the middle of the JSON"):
        read(bytes(whole[: len(whole) // 2]))
    whole[-5] ^= 1
    with pytest.raises(TraceFormatError, match="not a whole packed file"):
        read(bytes(whole))


def test_a_missing_file_is_said_to_be_missing(tmp_path):
    with pytest.raises(TraceFormatError, match="There is no file"):
        read_nodes(tmp_path / "none.json", lambda node: None)
