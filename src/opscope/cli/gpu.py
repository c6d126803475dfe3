"""``opscope gpu``: are devices busy, why not, and whose work do they do?"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterator
from typing import Annotated

from rich.table import Table
from rich.text import Text

from opscope.analysis.device_use.device_use import DevicesUse, DeviceUse, find_device_use
from opscope.analysis.device_use.owners import ModuleDeviceTime
from opscope.analysis.device_use.reserved import ReservedMemory
from opscope.analysis.device_use.streams import StreamUse
from opscope.analysis.devices import device_title
from opscope.analysis.period import Which, find_which
from opscope.analysis.quantity_text import bytes_text, share_text, time_text
from opscope.cli import several_devices
from opscope.cli.console import Messages, Output, console_for
from opscope.cli.parameters import Option
from opscope.cli.part_option import PartOption, RangeOption, StepsOption
from opscope.cli.rows import RowsFormat, as_csv, as_markdown
from opscope.cli.several_processes import said_once
from opscope.cli.trace_argument import (
    Chosen,
    PeriodOption,
    ProcessOption,
    RankOption,
    TraceArgument,
    choose_trace,
    each_process,
    load_chosen,
)
from opscope.printable import printable

_HEADINGS = ("Of", "What", "Time", "Share", "More")
_CSV_HEADINGS = ("device", "stream", "module", "quantity", "value")
_MOST_MODULES, _MOST_NOTES = 15, 8

Row = tuple[str, ...]


def gpu(
    trace: TraceArgument = None,
    row_limit: Annotated[
        int,
        Option(metavar="N", minimum=-1, help="Modules to show, those with most time; -1 for all."),
    ] = _MOST_MODULES,
    period: PeriodOption = Which.STEADY.value,
    format: Annotated[RowsFormat, Option(help="How to print it.")] = RowsFormat.TABLE,
    rank: RankOption = None,
    process: ProcessOption = None,
    range: RangeOption = None,
    steps: StepsOption = None,
) -> None:
    """Show how busy devices are, why they are idle, and whose work they do.

    Shares are of the time looked at. "Hidden" is what went on while something was computed. Idle
    time is said by what the thread did that launched what came next. A launch waits from the
    beginning of its call until its work begins. Occupancy is an estimate from sizes of kernels.

    For imported traces of torch.profiler as for recordings. JSON and CSV have times in nanoseconds
    and shares from 0 to 1; CSV has a row for each quantity, and all modules.

    Of a folder with several processes and none chosen, it shows the devices of all side by side,
    and which processes differ; JSON and CSV have all of each.
    """
    messages, which = Messages(), find_which(period)
    chosen, part = choose_trace(trace, rank, process), PartOption(range, steps)
    if chosen.is_of_several and part.is_all:
        return _print_several(chosen, which, format)
    loaded = load_chosen(chosen, part)
    found = find_device_use(loaded, which)
    rows = list(_rows(found, row_limit))
    if format is RowsFormat.JSON:
        Output().write(json.dumps(found.as_dict(), indent=2) + "\n")
    elif format is RowsFormat.CSV:
        Output().write(as_csv(_CSV_HEADINGS, _known(found)))
    elif format is RowsFormat.MARKDOWN:
        Output().show(as_markdown(_HEADINGS, rows, texts=2))
    elif rows:
        console_for(sys.stdout).print(_table(rows))
    messages.say(found.about)
    for line in (*found.notes, *found.advice().values(), *_left_out(found, row_limit)):
        messages.say(line)


def _print_several(chosen: Chosen, which: Which, format: RowsFormat) -> None:
    found = {
        part: find_device_use(one, which)
        for part, one in each_process(chosen, "looking at the devices of")
    }
    compared = chosen.job.only(found).compared
    rows_of = {part: _known(one) for part, one in found.items()}
    several_devices.side_by_side(found, compared, _CSV_HEADINGS, rows_of).show(format)
    for said in (
        {part: one.notes for part, one in found.items()},
        {part: several_devices.advice(one) for part, one in found.items()},
    ):
        for line in said_once(said, len(chosen.parts), _MOST_NOTES):
            Messages().say(line)


def _table(rows: list[Row]) -> Table:
    table = Table(box=None, pad_edge=False, header_style="bold")
    for column, heading in enumerate(_HEADINGS):
        table.add_column(heading, justify="right" if column in (2, 3) else "left")
    before = ""
    for row in rows:
        cells = ("" if row[0] == before else row[0], *row[1:])
        before = row[0]
        table.add_row(*(Text(printable(cell)) for cell in cells))
    return table


def _known(found: DevicesUse) -> Iterator[tuple[object, ...]]:
    return (row for row in _csv_rows(found) if row[-1] is not None)


def _csv_rows(found: DevicesUse) -> Iterator[tuple[object, ...]]:
    """Every number with its name in JSON."""
    whole = found.as_dict()
    yield "", "", "", "wall_ns", found.wall_ns
    for device in whole["devices"]:
        name, streams, idle_ns = device.pop("device"), device.pop("streams"), device.pop("idle_ns")
        causes = {f"idle_ns: {cause}": time_ns for cause, time_ns in idle_ns.items()}
        for quantity, value in (device | causes).items():
            yield name, "", "", quantity, value
        for stream in streams:
            number = stream.pop("stream")
            for quantity, value in stream.items():
                yield name, number, "", quantity, value
    for memory in whole["memory"]:
        name = memory.pop("device")
        for quantity, value in memory.items():
            yield name, "", "", quantity, value
    for module in whole["modules"]:
        name = module.pop("module")
        for quantity, value in module.items():
            yield "", "", name, quantity, value


def _rows(found: DevicesUse, row_limit: int) -> Iterator[Row]:
    for device in found.devices:
        title = device_title(device.device)
        yield from _device_rows(found, device, title)
        for stream in device.streams:
            yield _stream_row(found, stream, f"{title}, stream {stream.stream}")
    for memory in found.memory:
        yield _memory_row(memory)
    for module in found.modules_by_time[: None if row_limit < 0 else row_limit]:
        yield _module_row(found, module)


def _device_rows(found: DevicesUse, device: DeviceUse, title: str) -> Iterator[Row]:
    def row(what: str, time_ns: int, more: str = "") -> Row:
        return title, what, time_text(time_ns), share_text(found.share(time_ns)), more

    occupancy = "" if device.occupancy < 0 else f"occupancy {share_text(device.occupancy)}"
    yield row("busy", device.busy_ns, f"{device.work:,} pieces of work")
    yield row("computing", device.computing_ns, occupancy)
    for what, time_ns, hidden_ns in (
        ("communicating", device.communicating_ns, device.hidden_communicating_ns),
        ("copying", device.copying_ns, device.hidden_copying_ns),
    ):
        if time_ns:
            yield row(what, time_ns, f"{share_text(hidden_ns / time_ns)} hidden")
    idle_ns = sum(device.idle_ns.values())
    longest = f"{device.gaps:,} times, longest {time_text(device.longest_gap_ns)}"
    yield row("idle", idle_ns, longest if device.gaps else "")
    for cause, time_ns in sorted(device.idle_ns.items(), key=lambda one: -one[1]):
        yield row(f"  {cause.title}", time_ns)
    if device.without_owner:
        yield row("work without an owner", device.without_owner_ns, f"{device.without_owner:,}")


def _stream_row(found: DevicesUse, stream: StreamUse, title: str) -> Row:
    delay = "no launch known"
    if stream.delay_median_ns >= 0:
        delay = (
            f"{stream.launches:,} launches wait {time_text(stream.delay_median_ns)}, one of ten "
            f"{time_text(stream.delay_90_ns)}; {stream.depth_mean:.1f} at once, at most "
            f"{stream.depth_max:,}"
        )
    share = share_text(found.share(stream.busy_ns))
    return title, "busy", time_text(stream.busy_ns), share, delay


def _memory_row(memory: ReservedMemory) -> Row:
    title = f"{device_title(memory.device)}, memory"
    used = f"at most {bytes_text(memory.peak_used_bytes)} in use"
    if memory.peak_reserved_bytes < 0:
        return title, used, "", "", "what was reserved was not reported"
    reserved = f"{bytes_text(memory.peak_reserved_bytes)} reserved"
    then = f"{bytes_text(memory.used_then_bytes)} in use then"
    unused = f"{share_text(memory.unused_share)} of it unused on average"
    return title, used, "", "", f"{reserved}, {then}; {unused}"


def _module_row(found: DevicesUse, module: ModuleDeviceTime) -> Row:
    total_ns = module.forward_ns + module.backward_ns
    passes = f"forward {time_text(module.forward_ns)}, backward {time_text(module.backward_ns)}"
    graphs = f", in graphs {time_text(module.graph_ns)}" if module.graph_ns else ""
    share = share_text(found.share(total_ns))
    return "modules", module.module, time_text(total_ns), share, passes + graphs


def _left_out(found: DevicesUse, row_limit: int) -> Iterator[str]:
    left_out = len(found.modules) - row_limit
    if row_limit >= 0 and left_out > 0:
        yield f"{left_out:,} more modules: --row-limit -1 shows all"
