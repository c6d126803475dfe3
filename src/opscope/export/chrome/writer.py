"""A trace as Chrome JSON with the fields of torch.profiler's files.

Native code writes the rows in blocks without the GIL; memory is a few blocks at any trace length.
"""

from __future__ import annotations

import os
from collections.abc import Iterator

from opscope import _native
from opscope.base.reused_memory import reusing_memory
from opscope.columns.dtypes import CPP_NAMES
from opscope.columns.trace_data import TraceData
from opscope.export.chrome import columns, device_work
from opscope.export.chrome.header import end_of_file, footer, header
from opscope.export.chrome.tracks import place_on_tracks
from opscope.export.format import Format
from opscope.export.native_columns import argument_columns, blocks_of, name_columns
from opscope.export.output_file import Block, write_file
from opscope.storage.chrome.vocabulary import recorded_counts
from opscope.timeline.window import process_id_of, process_name_of, window_of

BLOCK_BYTES = 4 << 20
"""Large enough that threads seldom meet, small enough to stay in cache while it is compressed."""


@reusing_memory
def write_chrome_trace(
    trace: TraceData, path: str | os.PathLike[str], *, with_python: bool = True
) -> None:
    """Write ``trace`` to ``path``, compressed if ``path`` ends in ``.gz``.

    Times are microseconds after ``baseTimeNanoseconds``, with three decimals: exact to the
    nanosecond. Spans that overlap without nesting are on tracks named "(overlap N)", because
    viewers drop them otherwise. The end of the file counts rows of tables that have no place in
    such a file (``storage/chrome/vocabulary.py``).
    """
    write_file(path, chrome_blocks(trace, os.fspath(path), with_python=with_python))


def chrome_blocks(trace: TraceData, name: str, *, with_python: bool = True) -> Iterator[Block]:
    """The file in blocks of a few megabytes; ``name`` is the ``traceName`` in it."""
    metadata = trace.metadata
    window = window_of(trace, metadata)
    order = columns.event_order(trace, with_python)
    process_id = process_id_of(trace, metadata)
    places = place_on_tracks(trace, order, process_id, process_name_of(metadata))
    extras, fragments = columns.extra_columns(trace, places)
    writer = _native.ChromeWriter(
        {
            "events.order": order,
            "events.track": places.events,
            "allocations.track": places.allocations,
            "gpu.track": places.gpu,
            **name_columns(trace),
            **columns.event_columns(trace),
            **argument_columns(trace),
            **columns.flow_columns(trace),
            **columns.allocation_columns(trace),
            **device_work.gpu_columns(trace),
            **device_work.call_columns(trace),
            **extras,
        },
        tracks=[track.json for track in places.tracks],
        fragments=fragments,
        dtype_names=[CPP_NAMES.get(code, "") for code in range(max(CPP_NAMES) + 1)],
        header=header(metadata, window, places.tracks)
        + "".join(device_work.overhead_rows(trace, window)),
        footer=footer(window),
        base_ns=window.base_ns,
    )
    rows = len(order) + len(trace.table("allocations")) + len(trace.table("gpu"))
    yield from blocks_of(writer, BLOCK_BYTES, rows)
    yield end_of_file(name, recorded_counts(trace)).encode()


FORMAT = Format(
    name="chrome",
    suffixes=(".json", ".json.gz"),
    help="for chrome://tracing, Perfetto and the tools that read torch.profiler's files",
    write=write_chrome_trace,
)
