"""The event table as text, in torch.profiler's layout, and opscope's lines below it."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from opscope.analysis.device_account import describe_devices
from opscope.analysis.flops import FlopCounts
from opscope.analysis.recording_cost import cost_of_an_event_ns
from opscope.base.printable import printable
from opscope.columns.ledger import LOSS, Ledger
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.timeline.doubts import doubts_text
from opscope.torch_api.event.formatted_times import (
    TIME_UNITS,
    flops_unit,
    format_memory,
    format_time,
    format_time_share,
    shorten,
    shorten_path,
)
from opscope.torch_api.event_list.table_rows import NUMBERS, TableRows

_WIDTH = 12
_GAP = "  "
_DEVICE_WORDS = ("cuda", "xpu", "privateuse1")
SORT_KEYS = (*NUMBERS, "cpu_time", "device_time", "key")


@dataclass(frozen=True)
class TableOptions:
    """Arguments of ``EventList.table``."""

    sort_by: str | None = None
    row_limit: int | None = 100
    max_src_column_width: int | None = 75
    max_name_column_width: int | None = 55
    max_shapes_column_width: int | None = 80
    header: str | None = None
    top_level_events_only: bool = False
    time_unit: str | None = None
    profile_memory: bool = False
    with_flops: bool = False


@dataclass(frozen=True)
class _Column:
    title: str
    width: int
    cell: Callable[[int], str]
    align: str = ">"

    def write(self, text: str) -> str:
        return f"{text:{self.align}{self.width}}{_GAP}"


def format_table(rows: TableRows, options: TableOptions) -> str:
    """The table with torch's footer, ending in a newline."""
    if options.time_unit is not None and options.time_unit not in TIME_UNITS:
        raise UsageError(
            f"There is no time unit {options.time_unit!r}. Use one of: {', '.join(TIME_UNITS)}."
        )
    order = _order(rows, options.sort_by)
    if not len(rows):
        return "No events were recorded: run the program between start() and stop().\n"
    columns = _columns(rows, options)
    return "\n".join([*_head(columns, options), *_body(rows, columns, options, order)]) + "\n"


def _order(rows: TableRows, sort_by: str | None) -> npt.NDArray[np.int64]:
    """Positions in order of printing: unchanged, or by descending value (stable)."""
    if sort_by is None:
        return np.arange(len(rows))
    key = sort_by
    for word in _DEVICE_WORDS:
        key = key.replace(word, "device")
    if key not in SORT_KEYS:
        raise UsageError(
            f"There is no column {sort_by!r} to sort by. Use one of: {', '.join(SORT_KEYS)}; or "
            f"with {' or '.join(_DEVICE_WORDS)} in place of device."
        )
    if key == "key":
        by_name = sorted(range(len(rows)), key=lambda row: rows.names[row], reverse=True)
        return np.array(by_name, dtype=np.int64)
    value = rows.numbers[key] if key in rows.numbers else _per_call(rows, f"{key}_total")
    return np.argsort(-value, kind="stable")


def _per_call(rows: TableRows, name: str) -> npt.NDArray[np.float64]:
    count = rows.numbers["count"]
    average: npt.NDArray[np.float64] = rows.numbers[name] / np.maximum(count, 1)
    return average


def _head(columns: list[_Column], options: TableOptions) -> Iterator[str]:
    line = "=" * (sum(column.width + len(_GAP) for column in columns) - len(_GAP))
    rule = "".join("-" * column.width + _GAP for column in columns)
    if options.header is not None:
        yield from (line, options.header)
    if options.top_level_events_only:
        yield from (line, "This report only display top-level ops statistics")
    yield from (rule, "".join(column.write(column.title) for column in columns), rule)


def _body(
    rows: TableRows, columns: list[_Column], options: TableOptions, order: npt.NDArray[np.int64]
) -> Iterator[str]:
    if options.top_level_events_only:
        order = order[~rows.has_parent[order]]
    limit = options.row_limit
    shown = order if limit is None or limit < 0 else order[:limit]
    for row in shown.tolist():
        yield "".join(column.write(column.cell(row)) for column in columns)
        if rows.stacks is not None:
            yield from _rest_of_stack(rows.stacks[row], columns)
    yield "".join("-" * column.width + _GAP for column in columns)
    yield f"Self CPU time total: {format_time(_cpu_total(rows), options.time_unit)}"
    if _has(rows, "self_device_time_total"):
        total = format_time(_device_total(rows), options.time_unit)
        yield f"Self {_device_name(rows)} time total: {total}"


def _rest_of_stack(stack: object, columns: list[_Column]) -> Iterator[str]:
    """A line for every further frame, and an empty line."""
    entries = list(stack)[1:]  # type: ignore[call-overload]
    for entry in [*entries, ""]:
        cells = [
            shorten_path(printable(entry), column.width)
            if column.title == "Source Location"
            else ""
            for column in columns
        ]
        yield "".join(column.write(cell) for column, cell in zip(columns, cells, strict=True))


def _columns(rows: TableRows, options: TableOptions) -> list[_Column]:
    names = _fit(rows.names.longest, options.max_name_column_width)
    widest = options.max_name_column_width
    columns = [_Column("Name", names, lambda row: shorten(printable(rows.names[row]), widest))]
    if rows.overloads is not None:
        overloads = rows.overloads
        cell: Callable[[int], str] = lambda row: shorten(printable(overloads[row]), widest)  # noqa: E731
        columns.append(_Column("Overload Name", names, cell))
    columns += _cpu_time_columns(rows, options.time_unit)
    if _has(rows, "self_device_time_total"):
        columns += _device_time_columns(rows, options.time_unit)
    if options.profile_memory:
        columns += _memory_columns(rows)
    columns.append(_Column("# of Calls", _WIDTH, _plain(rows, "count")))
    if (rows.numbers["node_id"] != -1).any():
        columns.append(_Column("Node ID", _WIDTH, _plain(rows, "node_id")))
    return columns + _wide_columns(rows, options)


def _wide_columns(rows: TableRows, options: TableOptions) -> list[_Column]:
    columns = []
    if rows.shapes is not None:
        shapes, width = rows.shapes, _fit(rows.shapes.longest, options.max_shapes_column_width)
        columns.append(_Column("Input Shapes", width, lambda row: shapes[row][:width]))
    if rows.stacks is not None:
        stacks, path_width = rows.stacks, _fit(rows.stacks.longest, options.max_src_column_width)
        columns.append(
            _Column(
                "Source Location",
                path_width,
                lambda row: shorten_path(printable(next(iter(stacks[row]), "")), path_width),
                align="<",
            )
        )
    flops = rows.numbers["flops"]
    if options.with_flops and (flops > 0).any():
        scale, unit = flops_unit(float(flops[flops > 0].min()))
        columns.append(
            _Column(
                f"Total {unit}",
                _WIDTH,
                lambda row: f"{flops[row] * scale:8.3f}" if flops[row] > 0 else "--",
            )
        )
    return columns


def _cpu_time_columns(rows: TableRows, unit: str | None) -> list[_Column]:
    self_us, total = rows.numbers["self_cpu_time_total"], rows.numbers["cpu_time_total"]
    average, sum_us = _per_call(rows, "cpu_time_total"), _cpu_total(rows)

    def total_share(row: int) -> str:
        return "0" if rows.is_async[row] else format_time_share(total[row], sum_us)

    return [
        _Column("Self CPU %", _WIDTH, lambda row: format_time_share(self_us[row], sum_us)),
        _Column("Self CPU", _WIDTH, lambda row: format_time(self_us[row], unit)),
        _Column("CPU total %", _WIDTH, total_share),
        _Column("CPU total", _WIDTH, lambda row: format_time(total[row], unit)),
        _Column("CPU time avg", _WIDTH, lambda row: format_time(average[row], unit)),
    ]


def _device_time_columns(rows: TableRows, unit: str | None) -> list[_Column]:
    self_us, total = rows.numbers["self_device_time_total"], rows.numbers["device_time_total"]
    average, sum_us = _per_call(rows, "device_time_total"), _device_total(rows)
    device = _device_name(rows)
    return [
        _Column(f"Self {device}", _WIDTH, lambda row: format_time(self_us[row], unit)),
        _Column(f"Self {device} %", _WIDTH, lambda row: format_time_share(self_us[row], sum_us)),
        _Column(f"{device} total", _WIDTH, lambda row: format_time(total[row], unit)),
        _Column(f"{device} time avg", _WIDTH, lambda row: format_time(average[row], unit)),
    ]


def _memory_columns(rows: TableRows) -> list[_Column]:
    columns = [
        _Column("CPU Mem", _WIDTH, _memory(rows, "cpu_memory_usage")),
        _Column("Self CPU Mem", _WIDTH, _memory(rows, "self_cpu_memory_usage")),
    ]
    if rows.use_device and _has(rows, "self_device_memory_usage"):
        device = _device_name(rows)
        columns += [
            _Column(f"{device} Mem", _WIDTH, _memory(rows, "device_memory_usage")),
            _Column(f"Self {device} Mem", _WIDTH, _memory(rows, "self_device_memory_usage")),
        ]
    return columns


def _memory(rows: TableRows, name: str) -> Callable[[int], str]:
    values = rows.numbers[name]
    return lambda row: format_memory(int(values[row]))


def _plain(rows: TableRows, name: str) -> Callable[[int], str]:
    values = rows.numbers[name]
    return lambda row: str(int(values[row]))


def _fit(longest: int, limit: int | None) -> int:
    return longest + 4 if limit is None else min(longest + 4, limit)


def _has(rows: TableRows, name: str) -> bool:
    return bool((rows.numbers[name] > 0).any())


def _device_name(rows: TableRows) -> str:
    return (rows.use_device or "device").upper()


def _cpu_total(rows: TableRows) -> float:
    return float(rows.numbers["self_cpu_time_total"].sum())


def _device_total(rows: TableRows) -> float:
    return float(rows.numbers["self_device_time_total"][rows.on_device].sum())


def footer(trace: TraceData, flops: FlopCounts | None) -> str:
    """Lines below a table, each ending in a newline; may be empty.

    ``flops``: counted operations, for the share of operator time that they cover.
    """
    lines = [] if flops is None else [_flop_line(flops)]
    lines += [f"Devices: {line}" for line in describe_devices(trace)]
    lines += [line for line in (doubts_text(trace, losses=False),) if line]
    lines += _ledger_lines(trace.ledger)
    if cost_ns := cost_of_an_event_ns(trace):
        lines.append(f"Cost of recording: about {cost_ns:.0f} ns per event")
    return "".join(f"{printable(line)}\n" for line in lines)


def _flop_line(flops: FlopCounts) -> str:
    if not flops.covered_ns:
        return "FLOPs: no operator with a formula and recorded shapes"
    return f"FLOPs: formulas cover {flops.coverage:.1%} of operator time"


def _ledger_lines(ledger: Ledger) -> list[str]:
    losses = [
        f"{value:,.0f} {source} ({what.removeprefix(f'{LOSS}: ')})"
        for source, what, value in ledger.losses()
    ]
    dropped = f"{LOSS}: {', '.join(losses)}" if losses else "none dropped"
    events = ledger.get("events", {})
    if "recorded" in events:
        return [f"Events recorded: {events['recorded']:,.0f}; {dropped}"]
    return [dropped.capitalize()] if losses else []
