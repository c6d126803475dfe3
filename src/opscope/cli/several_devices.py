"""What the devices of several processes did, side by side."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence

from opscope.analysis.device_use.device_use import DevicesUse, DeviceUse
from opscope.analysis.device_use.idle import Idle
from opscope.analysis.devices import device_title
from opscope.analysis.quantity_text import share_text
from opscope.cli.side_by_side import SideBySide
from opscope.job.compared_shares import compare_shares_of
from opscope.trace.partition import Partition

Found = Mapping[Partition, DevicesUse]

_HEADING = ("Process", "Device", "Mostly idle", "Busy", "Computing", "Exposed", "Copies", "Idle")
_TEXTS = 3


def side_by_side(
    found: Found,
    among: Collection[Partition],
    csv_heading: Sequence[str],
    csv_rows: Mapping[Partition, Iterable[Sequence[object]]],
) -> SideBySide:
    """A row for each device; processes ``among`` that have any are compared, by their mean."""
    by_what: dict[str, dict[Partition, float]] = {}
    for part, use in found.items():
        for what, share in _shares_of(use).items():
            by_what.setdefault(what, {})[part] = share
    return SideBySide(
        heading=_HEADING,
        rows=[_row(part, use, one) for part, use in found.items() for one in use.devices],
        texts=_TEXTS,
        contents={part: use.as_dict() for part, use in found.items()},
        csv_heading=csv_heading,
        csv_rows=csv_rows,
        compared=compare_shares_of(by_what, among),
    )


def advice(use: DevicesUse) -> Iterator[str]:
    """What most of the idle time of a process's devices means, where it is a good part of all."""
    for cause in dict.fromkeys(use.mostly_idle().values()):
        yield f"idle, {cause.title}: {cause.meaning}"


def _shares_of(use: DevicesUse) -> dict[str, float]:
    """By what they are of, what its devices have on average; of none there is nothing."""
    if not use.devices:
        return {}
    times = [_times_of(device) for device in use.devices]
    return {what: use.share(sum(one[what] for one in times)) / len(times) for what in times[0]}


def _times_of(device: DeviceUse) -> dict[str, int]:
    idle = {f"idle, {cause.title}": device.idle_ns.get(cause, 0) for cause in Idle}
    return {
        "busy": device.busy_ns,
        "exposed communication": device.communicating_ns - device.hidden_communicating_ns,
        "exposed copies": device.copying_ns - device.hidden_copying_ns,
        **idle,
    }


def _row(part: Partition, use: DevicesUse, device: DeviceUse) -> tuple[str, ...]:
    times = _times_of(device)
    mostly = max(device.idle_ns, key=lambda cause: device.idle_ns[cause], default=None)
    return (
        str(part),
        device_title(device.device),
        mostly.title if mostly is not None else "--",
        share_text(use.share(device.busy_ns)),
        share_text(use.share(device.computing_ns)),
        share_text(use.share(times["exposed communication"])),
        share_text(use.share(times["exposed copies"])),
        share_text(use.share(sum(device.idle_ns.values()))),
    )
