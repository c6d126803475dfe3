"""Memory and what devices did, in the rows of a Chrome file."""

from opscope.columns.schema import EventKind
from support.build_trace import build_trace, kernel, span
from support.chrome_files import named


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
