"""``opscope summary --gpu``: device utilisation, causes of idle time, time by module."""

from __future__ import annotations

from collections.abc import Iterator, Mapping

from opscope.analysis.device_use.device_use import DevicesUse, DeviceUse, find_device_use
from opscope.analysis.device_use.idle import Idle
from opscope.analysis.device_use.owners import ModuleDeviceTime, StreamUse
from opscope.analysis.memory.counters import ReservedMemory
from opscope.base.quantity_text import bytes_text, share_text, time_text
from opscope.cli.trace_argument import Chosen, shared_notes
from opscope.cli.views.results import Result, Section, limited
from opscope.cli.views.side_by_side import answer
from opscope.columns.labels import device_title
from opscope.storage.partition import Partition
from opscope.timeline.period import Which

_HEADINGS = ("Of", "What", "Time", "Share", "More")
_CSV_HEADINGS = ("device", "stream", "module", "quantity", "value")
_MOST_MODULES = 15

Row = tuple[str, ...]


def device_use(chosen: Chosen, period: Which, row_limit: int | None) -> Result:
    """Utilisation of the devices of one process or of all."""
    most = _MOST_MODULES if row_limit is None else row_limit
    return answer(
        chosen,
        "reading the devices of",
        lambda one: find_device_use(one, period),
        lambda use: _result(use, most),
        _of_all,
    )


def _result(use: DevicesUse, row_limit: int) -> Result:
    modules, left_out = limited(use.modules_by_time, row_limit, "modules")
    rows = [*_rows(use), *(_module_row(use, module) for module in modules)]
    return Result(
        sections=[Section(columns=_HEADINGS, rows=rows, wraps=True)] if rows else [],
        content=use.as_dict(),
        columns=_CSV_HEADINGS,
        rows=(row for row in _csv_rows(use) if row[-1] is not None),
        about=[use.about, *use.advice().values(), *left_out],
        notes=use.notes,
        overview=[_overview(use, device) for device in use.devices],
        shares=_shares(use),
    )


def _of_all(uses: Mapping[Partition, DevicesUse]) -> Result:
    causes = {part: {*one.mostly_idle().values()} for part, one in uses.items()}
    notes = {p: [f"idle, {c.title}: {c.meaning}" for c in mostly] for p, mostly in causes.items()}
    return Result(lines=shared_notes(notes, len(uses)))


def _shares(use: DevicesUse) -> dict[str, float]:
    """Mean shares of the devices of a process; empty without devices."""
    times = [_times(device) for device in use.devices]
    return {
        what: use.share(sum(one[what] for one in times)) / len(times)
        for what in (times[0] if times else ())
    }


def _times(device: DeviceUse) -> dict[str, int]:
    idle = {f"idle, {cause.title}": device.idle_ns.get(cause, 0) for cause in Idle}
    return {
        "busy": device.busy_ns,
        "exposed communication": device.communicating_ns - device.hidden_communicating_ns,
        "exposed copies": device.copying_ns - device.hidden_copying_ns,
        **idle,
    }


def _overview(use: DevicesUse, device: DeviceUse) -> dict[str, str]:
    times = _times(device)
    mostly = max(device.idle_ns, key=lambda cause: device.idle_ns[cause], default=None)
    return {
        "Device": device_title(device.device),
        "Mostly idle": mostly.title if mostly is not None else "--",
        "Busy": share_text(use.share(device.busy_ns)),
        "Computing": share_text(use.share(device.computing_ns)),
        "Exposed": share_text(use.share(times["exposed communication"])),
        "Copies": share_text(use.share(times["exposed copies"])),
        "Idle": share_text(use.share(sum(device.idle_ns.values()))),
    }


def _csv_rows(use: DevicesUse) -> Iterator[tuple[object, ...]]:
    content = use.as_dict()
    yield "", "", "", "wall_ns", use.wall_ns
    for device in content["devices"]:
        name, streams, idle_ns = device.pop("device"), device.pop("streams"), device.pop("idle_ns")
        causes = {f"idle_ns: {cause}": time_ns for cause, time_ns in idle_ns.items()}
        for quantity, value in (device | causes).items():
            yield name, "", "", quantity, value
        for stream in streams:
            number = stream.pop("stream")
            for quantity, value in stream.items():
                yield name, number, "", quantity, value
    for memory in content["memory"]:
        name = memory.pop("device")
        for quantity, value in memory.items():
            yield name, "", "", quantity, value
    for module in content["modules"]:
        name = module.pop("module")
        for quantity, value in module.items():
            yield "", "", name, quantity, value


def _rows(use: DevicesUse) -> Iterator[Row]:
    for device in use.devices:
        title = device_title(device.device)
        yield from _device_rows(use, device, title)
        for stream in device.streams:
            yield _stream_row(use, stream, f"{title}, stream {stream.stream}")
    for memory in use.memory:
        yield _memory_row(memory)


def _device_rows(use: DevicesUse, device: DeviceUse, title: str) -> Iterator[Row]:
    def row(what: str, time_ns: int, detail: str = "") -> Row:
        return title, what, time_text(time_ns), share_text(use.share(time_ns)), detail

    occupancy = "" if device.occupancy < 0 else f"occupancy {share_text(device.occupancy)}"
    yield row("busy", device.busy_ns, f"{device.work:,} activities")
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
        yield row(
            "work without operator or module", device.without_owner_ns, f"{device.without_owner:,}"
        )


def _stream_row(use: DevicesUse, stream: StreamUse, title: str) -> Row:
    delay = "launch unknown"
    if stream.delay_median_ns >= 0:
        delay = (
            f"{stream.launches:,} launches, delay {time_text(stream.delay_median_ns)} (p90 "
            f"{time_text(stream.delay_90_ns)}); queue length {stream.depth_mean:.1f}, at most "
            f"{stream.depth_max:,}"
        )
    share = share_text(use.share(stream.busy_ns))
    return title, "busy", time_text(stream.busy_ns), share, delay


def _memory_row(memory: ReservedMemory) -> Row:
    title = f"{device_title(memory.device)}, memory"
    used = f"at most {bytes_text(memory.peak_used_bytes)} in use"
    if memory.peak_reserved_bytes < 0:
        return title, used, "", "", "reserved memory was not reported"
    reserved = f"{bytes_text(memory.peak_reserved_bytes)} reserved"
    then = f"{bytes_text(memory.used_then_bytes)} in use then"
    unused = f"{share_text(memory.unused_share)} of it unused on average"
    return title, used, "", "", f"{reserved}, {then}; {unused}"


def _module_row(use: DevicesUse, module: ModuleDeviceTime) -> Row:
    total_ns = module.forward_ns + module.backward_ns
    passes = f"forward {time_text(module.forward_ns)}, backward {time_text(module.backward_ns)}"
    graphs = f", in graphs {time_text(module.graph_ns)}" if module.graph_ns else ""
    share = share_text(use.share(total_ns))
    return "modules", module.module, time_text(total_ns), share, passes + graphs
