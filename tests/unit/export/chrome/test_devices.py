"""Memory and what devices did, in the rows of a Chrome file."""

from opscope.columns.schema import AllocationAction, EventKind
from support.build_trace import allocation, build_trace, kernel, span
from support.chrome_files import named, thread_names


def test_memory_is_written_as_instants(export):
    address = (1 << 64) - 16
    trace = build_trace(
        [span("aten::empty", 0, 10)],
        allocations=[
            allocation(1, 64, address=address, total_reserved_bytes=5),
            allocation(2, -64, address=address),
            allocation(3, 1 << 50, action=AllocationAction.OUT_OF_MEMORY),
        ],
    )

    document = export(trace)
    allocated, freed, failed = (e for e in document["traceEvents"] if e["name"][0] == "[")

    assert (allocated["name"], freed["name"], failed["name"]) == (
        ("[memory]", "[memory]", "[OutOfMemory]")
    )
    assert {key: allocated[key] for key in ("ph", "cat", "s", "tid")} == {
        "ph": "i",
        "cat": "cpu_instant_event",
        "s": "t",
        "tid": 1001,
    }
    assert "dur" not in allocated
    assert allocated["args"] == {
        "Total Reserved": 5,
        "Total Allocated": 64,
        "Bytes": 64,
        "Device Id": -1,
        "Device Type": 0,
        "Addr": address,
        "finished": False,
        "Ev Idx": 1,
    }
    assert freed["args"]["Bytes"] == -64
    assert "Addr" not in failed["args"] and failed["args"]["Bytes"] == 1 << 50


def test_a_collectives_kernel_says_what_it_communicates(export):
    trace = build_trace(
        [
            span("record_param_comms", 0, 10, keywords={"Collective name": "allreduce"}),
            span("cudaLaunchKernel", 2, 4, kind=EventKind.RUNTIME_CALL),
            span("aten::add", 11, 20),
            span("cudaLaunchKernel", 12, 14, kind=EventKind.RUNTIME_CALL),
        ],
        gpu=[
            kernel("ncclDevKernel", 5, 20, launch=1, correlation_id=9),
            kernel("add", 20, 30, launch=3, correlation_id=10),
        ],
    )

    document = export(trace)

    assert named(document, "ncclDevKernel")["args"]["Collective name"] == "allreduce"
    assert "Collective name" not in named(document, "add")["args"]


def test_a_device_has_its_own_process_and_streams(export):
    trace = build_trace(
        [span("aten::mm", 0, 10), span("cudaLaunchKernel", 2, 4, kind=EventKind.RUNTIME_CALL)],
        gpu=[
            kernel("gemm", 5, 20, launch=1, correlation_id=9, grid=[4, 2, 1], block=[128, 1, 1]),
            kernel("Memcpy HtoD", 20, 22, kind=1, size_bytes=4096, stream=8),
            kernel("Stream Synchronize", 22, 23, kind=3),
        ],
        metadata={"process_id": 50},
    )

    document = export(trace)

    launch, gemm = named(document, "cudaLaunchKernel"), named(document, "gemm")
    assert launch["cat"] == "cuda_runtime"
    assert launch["args"] == {"External id": 1, "correlation": 9, "Ev Idx": 1}
    assert (gemm["cat"], gemm["pid"], gemm["tid"]) == ("kernel", 0, 7)
    assert gemm["args"] == {
        "External id": 1,
        "device": 0,
        "context": 0,
        "stream": 7,
        "correlation": 9,
        "grid": [4, 2, 1],
        "block": [128, 1, 1],
        "Ev Idx": 2,
    }
    assert named(document, "Memcpy HtoD")["args"]["bytes"] == 4096
    assert named(document, "Stream Synchronize")["args"]["cuda_sync_kind"] == "Stream Synchronize"
    arrows = [e for e in document["traceEvents"] if e.get("cat") == "ac2g"]
    assert [(e["ph"], e["id"], e["pid"]) for e in arrows] == [("s", 9, 50), ("f", 9, 0)]
    rows = document["traceEvents"]
    label = next(i for i, e in enumerate(rows) if e.get("args") == {"labels": "GPU 0"})
    assert rows[label + 1]["args"] == {"sort_index": 5_000_000}
    assert thread_names(document) == {1001: "thread 1001 (main)", 7: "stream 7 ", 8: "stream 8 "}
