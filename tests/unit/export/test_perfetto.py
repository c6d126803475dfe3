"""Perfetto files, read back with Perfetto's own protocol buffers."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest
from hypothesis import given, settings

from opscope.api.trace import Trace
from opscope.columns.names import Names
from opscope.columns.schema import AllocationAction, EventKind, RecordScope
from opscope.export.perfetto import message, write_perfetto
from support.any_spans import ANY_SPANS
from support.build_trace import (
    ORIGIN_NS,
    allocation,
    build_trace,
    kernel,
    nanoseconds,
    span,
    tensor,
)
from support.read_perfetto import PerfettoFile, Slice, read_perfetto

pytest.importorskip("perfetto", reason="needs the perfetto package: pip install perfetto")


@pytest.fixture
def written(tmp_path: Path):
    def write(trace: Trace) -> PerfettoFile:
        write_perfetto(trace, tmp_path / "trace.pftrace")
        return read_perfetto(tmp_path / "trace.pftrace")

    return write


def times(found: Slice) -> tuple[str, float, float]:
    """Name, start and end in microseconds of the description."""
    return found.name, (found.start - ORIGIN_NS) / 1000, (found.end - ORIGIN_NS) / 1000


def test_spans_are_slices_on_the_tracks_of_their_threads(written):
    file = written(
        build_trace("""
            ProfilerStep#0      0..100
              aten::mm         10..30.5
                aten::empty    11..12
              aten::mm         40..50
            MmBackward0        50..70   @autograd
        """)
    )
    assert [(times(s), s.track) for s in file.slices] == [
        (("ProfilerStep#0", 0, 100), "main"),
        (("aten::mm", 10, 30.5), "main"),
        (("aten::empty", 11, 12), "main"),
        (("aten::mm", 40, 50), "main"),
        (("MmBackward0", 50, 70), "autograd"),
    ]
    assert [s.category for s in file.slices] == ["annotation"] + ["operator"] * 4


def test_arguments_are_one_line_of_text(written):
    file = written(
        build_trace(
            [
                span("aten::add", 0, 1, inputs=[tensor(2, 3), tensor(), 1]),
                span("aten::cat", 2, 3, inputs=[[tensor(4, dtype="int64"), tensor(5)], 0]),
                span("aten::add", 4, 5, inputs=[tensor(2, 3), tensor(), 1]),
                span("aten::rand", 6, 7),
            ]
        )
    )
    assert [s.arguments.get("inputs") for s in file.slices] == [
        "float32[2,3], float32[], 1",
        "int64[4], float32[5], 0",
        "float32[2,3], float32[], 1",
        None,
    ]


def test_arrows_go_from_forward_to_backward_and_from_launch_to_kernel(written):
    file = written(
        build_trace(
            [
                span("aten::mm", 0, 10, sequence_number=3),
                span("cudaLaunchKernel", 2, 3, kind=EventKind.RUNTIME_CALL),
                span(
                    "MmBackward0", 20, 30, "autograd", sequence_number=3, forward_thread=1,
                    scope=RecordScope.BACKWARD_FUNCTION,
                ),
            ],
            gpu=[
                kernel("gemm", 4, 9, launch=1, correlation_id=77, grid=[1, 2, 3], block=[64, 1, 1]),
                kernel("lonely", 10, 11),
                kernel("copy", 12, 13, kind=1, size_bytes=4096, stream=9),
            ],
        )
    )  # fmt: skip
    by_name = {s.name: s for s in file.slices}
    assert by_name["aten::mm"].flows == by_name["MmBackward0"].ends_flows == [1]
    assert by_name["cudaLaunchKernel"].flows == by_name["gemm"].ends_flows == [2]
    assert by_name["lonely"].flows == by_name["lonely"].ends_flows == []
    assert by_name["gemm"].track == "GPU 0/stream 7"
    assert by_name["gemm"].arguments == {
        "correlation": 77, "stream": 7, "grid": "[1,2,3]", "block": "[64,1,1]",
    }  # fmt: skip
    assert by_name["copy"].track == "GPU 0/stream 9"
    assert by_name["copy"].arguments == {"stream": 9, "bytes": 4096}


def test_kernels_have_what_they_were_launched_with(written):
    device = {
        "id": 0, "numSms": 4, "maxThreadsPerMultiprocessor": 2048,
        "regsPerMultiprocessor": 65536, "sharedMemPerMultiprocessor": 65536,
    }  # fmt: skip
    launched = {"grid": [8, 1, 1], "block": [256, 1, 1], "registers_per_thread": 32}
    file = written(
        build_trace(
            "cudaGraphLaunch 0..1",
            gpu=[
                kernel(
                    "in_graph", 2, 3, launch=0, correlation_id=5, shared_memory_bytes=1024,
                    graph=7, graph_node=1 << 40, **launched,
                ),
                kernel("default_stream", 4, 5, stream=0, correlation_id=6, **launched),
                kernel("outer", 2, 5, kind=4),
            ],
            metadata={"deviceProperties": [device]},
        )
    )  # fmt: skip
    by_name = {s.name: s.arguments for s in file.slices}
    sizes = {"grid": "[8,1,1]", "block": "[256,1,1]", "registers per thread": 32}
    assert by_name["in_graph"] == {
        "correlation": 5, "stream": 7, "shared memory": 1024, "graph id": 7,
        "graph node id": 1 << 40, "est. achieved occupancy %": 25, **sizes,
    }  # fmt: skip
    assert by_name["default_stream"] == {
        "correlation": 6, "stream": 0, "shared memory": 0, "est. achieved occupancy %": 25, **sizes,
    }  # fmt: skip
    assert by_name["outer"] == {"stream": 7}


def test_memory_in_use_is_a_counter_per_device(written):
    file = written(
        build_trace(
            [("aten::empty", 0, 10)],
            allocations=[
                allocation(1, 512),
                allocation(2, 64, device_type=1, device_index=0, total_reserved_bytes=2048),
                allocation(3, -512),
                allocation(4, 4096, action=AllocationAction.OUT_OF_MEMORY),
            ],
        )
    )
    assert file.counters == {
        "python/CPU memory allocated": [(nanoseconds(1), 512), (nanoseconds(3), 0)],
        "python/CUDA 0 memory allocated": [(nanoseconds(2), 64)],
        "python/CUDA 0 memory reserved": [(nanoseconds(2), 2048)],
    }
    assert [(s.name, s.start) for s in file.instants] == [("out of memory", nanoseconds(4))]


@pytest.mark.parametrize(
    "name", ["</script><b>", "\x00\x1b[31m", "\ud800", "名前" * 10, "x" * 2_000_000, " "]
)
def test_hostile_names_arrive_whole(written, name):
    (found,) = written(build_trace([span(name, 0, 1, name)])).slices
    assert found.name == name.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
    assert found.track == found.name


def test_bytes_that_are_no_text_are_replaced(written):
    trace = build_trace([span("n", 0, 1, inputs=["text"])])
    blob = bytearray(trace.names.blob)
    blob[:] = b"\xff" * len(blob)
    broken = Trace({n: trace.table(n) for n in ("events", "threads", "scalars")},
                   Names(trace.names.offsets, bytes(blob)))  # fmt: skip
    found = written(broken).slices[0]
    assert (found.name, found.arguments["inputs"]) == ("\ufffd", "\ufffd" * 4)


@settings(max_examples=40, deadline=None)
@given(ANY_SPANS)
def test_no_span_is_dropped_or_cut(tmp_path_factory, rows):
    path = tmp_path_factory.mktemp("perfetto") / "a.pftrace"
    write_perfetto(build_trace(rows), path)
    slices = read_perfetto(path).slices
    expected = Counter((s.name, s.start, s.end, s.thread) for s in rows)
    assert Counter((*times(s), s.track.partition("/")[0]) for s in slices) == expected


pb2 = pytest.importorskip("perfetto.protos.perfetto.trace.perfetto_trace_pb2")


@pytest.mark.parametrize("pid", [0, 1, 127, 128, 2**31 - 1])
@pytest.mark.parametrize("name", ["", "python", "名前", "\ud800", "x" * 300])
def test_fields_are_as_google_reads_them(pid, name):
    descriptor = message((1, 2**64 - 1), (3, message((1, pid), (6, name))), (9, True))
    parsed = pb2.TrackDescriptor.FromString(descriptor)
    assert parsed.uuid == 2**64 - 1
    assert parsed.process.pid == pid
    assert parsed.process.process_name == name.encode("utf-8", "replace").decode()
    assert parsed.disallow_merging_with_system_tracks
