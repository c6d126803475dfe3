"""What opscope's own views count of each event."""

from opscope.analysis.own_listing import OwnListing
from opscope.analysis.torch_listing.rows import list_rows
from opscope.columns.codes import EventKind
from opscope.timeline.listing import TorchListing
from support.build_trace import allocation, build_trace, kernel, span


def nested_calls():
    """A function that calls itself, twice within the first call: with work and memory in the inner
    two, and memory of its own in the outer."""
    own = {"kind": EventKind.PYTHON_CALL, "frame": ("module.py", 3, "_call_impl")}
    launch = {"kind": EventKind.RUNTIME_CALL}
    return build_trace(
        [
            span("_call_impl", 0, 100, **own),
            span("_call_impl", 10, 40, **own),
            span("cudaLaunchKernel", 20, 22, **launch),
            span("_call_impl", 50, 90, **own),
            span("cudaLaunchKernel", 60, 62, **launch),
        ],
        gpu=[kernel("a", 30, 50, launch=2), kernel("b", 70, 75, launch=4)],
        allocations=[
            allocation(5, 100, event=0),
            allocation(15, 30, event=1),
            allocation(55, 7, event=3, device_type=1, device_index=0),
        ],
    )


def totals(listing, name):
    rows = list_rows(listing)
    values = getattr(rows.quantities, name)
    called = [rows.texts[label].endswith("_call_impl") for label in rows.label]
    return int(values[called].sum())


def test_what_nested_calls_of_a_name_launch_and_hold_counts_once():
    listing = OwnListing(nested_calls())
    assert totals(listing, "cpu_total_ns") == 100_000
    assert totals(listing, "device_total_ns") == 25_000
    assert totals(listing, "cpu_memory_bytes") == 130
    assert totals(listing, "device_memory_bytes") == 7


def test_torchs_tables_count_it_at_every_level_as_torch_does():
    listing = TorchListing(nested_calls())
    assert totals(listing, "device_total_ns") == 50_000
    assert totals(listing, "device_memory_bytes") == 14
