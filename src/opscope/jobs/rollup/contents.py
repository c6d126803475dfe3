"""Computes the tables of a rollup from a trace."""

from __future__ import annotations

import sys
from collections.abc import Sequence
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.account.account import Account
from opscope.analysis.account.find import find_account
from opscope.analysis.collectives.process_collectives import ProcessCollectives, process_collectives
from opscope.analysis.memory.counters import memory_was_recorded, where_recorded
from opscope.analysis.memory.life_categories import categories_of_lives, category_text, group_blocks
from opscope.analysis.memory.lives import PeakMoment, alive_at, devices_with_memory, find_peak
from opscope.analysis.sites import Sites
from opscope.columns.causes import Cause
from opscope.columns.codes import EventKind
from opscope.columns.labels import device_name
from opscope.columns.row_groups import RowGroups, group_rows
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.jobs.rollup.places import place_columns
from opscope.jobs.rollup.schema import (
    ALL_CATEGORIES,
    CAUSES,
    COLLECTIVE_NUMBERS,
    COLLECTIVES,
    LEDGER,
    LINES,
    MEMORY,
    OPERATORS,
    PLACES,
    ROLLUP_TABLES,
    STEPS,
    STRAYS,
    STRAYS_SOURCE,
    cause_column,
)
from opscope.storage.partition import RANK, Partition
from opscope.timeline.arrays import Values
from opscope.timeline.detail import in_detail
from opscope.timeline.listing import TorchListing
from opscope.timeline.module_attribution import attribute_to_modules
from opscope.timeline.period import Which
from opscope.timeline.phases import NO_PHASE, PHASE_NAMES, find_phases
from opscope.timeline.signatures import group_sums
from opscope.timeline.tree.line_nesting import outermost_of, own_times

Columns = dict[str, Any]

HOST = "cpu"


def operator_columns(trace: TraceData) -> Columns:
    """Columns of ``rollup_operators``, without the process."""
    host = _of_host(trace)
    return joined([host, _of_devices(trace)]) if len(trace.table("gpu")) else host


def joined(parts: Sequence[Columns]) -> Columns:
    """Columns of several parts, one after the other."""
    return {
        name: [value for part in parts for value in part[name]]
        if isinstance(values, list)
        else np.concatenate([part[name] for part in parts])
        for name, values in parts[0].items()
    }


def line_columns(sites: Sites) -> Columns:
    """Columns of ``rollup_lines``, without the process."""
    trace = sites.listing.trace
    frames, names = trace.table("frames"), trace.names
    frame, line = sites.at
    events = np.flatnonzero(frame >= 0)
    # A function may have several frames, of code that was made again.
    file, function = (frames[name][frame[events]] for name in ("file", "function"))
    groups = group_rows(file, line[events], function)
    return {
        "file": [names[row] for row in groups.columns[0].tolist()],
        "line": groups.columns[1],
        "function": [names[row] for row in groups.columns[2].tolist()],
        "count": groups.count,
        "self_ns": group_sums(own_times(trace)[events], groups.group, len(groups)),
    }


def _of_host(trace: TraceData) -> Columns:
    """Columns of host operators; for nested calls of one row, the time of the outer call counts."""
    events = np.flatnonzero(trace.events["kind"] == EventKind.OPERATOR)
    groups = _groups(trace, events, trace.events["name"][events])
    own_ns, took_ns = own_times(trace)[events], trace.events["duration_ns"][events]
    outer = outermost_of(trace, events, groups.group)
    return {
        **_texts(trace, *groups.columns),
        "device": [HOST] * len(groups),
        "count": groups.count,
        "total_ns": group_sums(np.where(outer, took_ns, 0), groups.group, len(groups)),
        "self_ns": group_sums(own_ns, groups.group, len(groups)),
    }


def _of_devices(trace: TraceData) -> Columns:
    """Columns of device work, with the module and phase of its launch."""
    gpu = trace.table("gpu")
    launch = gpu["launch"].astype(np.int64)
    device = gpu["device_type"].astype(np.int64) * 256 + gpu["device_index"]
    groups = _groups(trace, launch, gpu["name"], device)
    pairs = [divmod(code + 128, 256) for code in groups.columns[3].tolist()]
    took_ns = group_sums(gpu["duration_ns"], groups.group, len(groups))
    return {
        **_texts(trace, *groups.columns[:3]),
        "device": [device_name(kind, index - 128) for kind, index in pairs],
        "count": groups.count,
        "total_ns": took_ns,
        "self_ns": took_ns,
    }


def _groups(trace: TraceData, events: Values, name: Values, *more: Values) -> RowGroups:
    """Rows grouped by name, phase and module; -1 for no event."""
    phase = np.append(find_phases(trace).phase, NO_PHASE)[events]
    path = np.append(attribute_to_modules(trace).path, -1)[events]
    return group_rows(name, phase, path, *more)


def _texts(trace: TraceData, name: Values, phase: Values, path: Values) -> Columns:
    modules = attribute_to_modules(trace)
    return {
        "name": [trace.names[row] for row in name.tolist()],
        "phase": [PHASE_NAMES[one] if one >= 0 else "" for one in phase.tolist()],
        "module": [modules.text(one) if one >= 0 else "" for one in path.tolist()],
    }


@dataclass(frozen=True, eq=False)
class RollupContents:
    """Tables and facts of a rollup, before they are written."""

    tables: dict[str, Table]  # by name in ``ROLLUP_TABLES``
    events: int  # number of events of the trace
    steps_are: str  # what a step is, if the program does not mark steps; else empty
    step_ns: dict[str, int]  # mean duration of a step by period; -1 without steps


class TorchNeededError(RuntimeError):
    """Memory categories need torch, which may not be imported here."""


def contents_of(trace: TraceData, part: Partition, may_import_torch: bool = True) -> RollupContents:
    """Compute the rollup of a trace.

    ``may_import_torch``: whether torch may be imported if it is not yet. A process without torch
    may be about to end, and importing torch then crashes.

    Raises:
        MemoryError: there is not enough memory.
        TorchNeededError: torch is needed, and may not be imported.
    """
    accounts = {}
    for which in Which:
        with suppress(UsageError):  # there may be no start-up
            accounts[which] = find_account(trace, which)
    detailed, collectives = in_detail(trace), process_collectives(trace)
    sites = Sites(TorchListing(detailed))
    steps = len(find_account(detailed, Which.ALL).steps)
    all_steps = len(accounts[Which.ALL].steps)
    columns = {
        STEPS.name: _step_columns(accounts[Which.ALL]),
        CAUSES.name: joined([_cause_columns(one, which) for which, one in accounts.items()]),
        OPERATORS.name: operator_columns(trace),
        LINES.name: line_columns(sites),
        PLACES.name: place_columns(sites, all_steps / steps if steps else 1.0),
        MEMORY.name: _memory_columns(
            where_recorded(trace), may_import_torch or "torch" in sys.modules
        ),
        LEDGER.name: _ledger_columns(trace, collectives),
        COLLECTIVES.name: _collective_columns(collectives),
    }
    return RollupContents(
        tables={name: _table(name, found, part) for name, found in columns.items()},
        events=len(trace.events),
        steps_are=accounts[Which.ALL].steps_are,
        step_ns={which.value: one.step_ns for which, one in accounts.items()},
    )


def _table(name: str, columns: Columns, part: Partition) -> Table:
    rows = len(next(iter(columns.values())))
    is_rank = part.kind == RANK
    own = {"rank": part.number if is_rank else -1, "process": -1 if is_rank else part.number}
    of = {key: np.full(rows, number, dtype=np.int64) for key, number in own.items()}
    return Table(ROLLUP_TABLES[name], {**of, **columns})


def _step_columns(account: Account) -> Columns:
    steps, table = account.steps, account.table()
    wall_ns = steps.end_ns - steps.start_ns
    return {
        "step": steps.number,
        "start_ns": steps.start_ns,
        "wall_ns": wall_ns,
        "own_ns": wall_ns - table[:, Cause.COLLECTIVE],
        **{cause_column(cause): table[:, cause] for cause in Cause},
    }


def _cause_columns(account: Account, which: Which) -> Columns:
    entries = account.entries()
    return {
        "period": [which.value] * len(entries),
        "cause": [entry.cause.name.lower() for entry in entries],
        "time_ns": np.array([entry.time_ns for entry in entries], dtype=np.int64),
        "error_ns": np.array([entry.error_ns for entry in entries], dtype=np.int64),
    }


def _memory_columns(trace: TraceData, has_torch: bool) -> Columns:
    rows: list[tuple[str, str, int, int]] = []
    if memory_was_recorded(trace):
        for device in devices_with_memory(trace):
            peak = find_peak(trace, device)
            rows.append((device, ALL_CATEGORIES, peak.in_use, peak.time_ns))
            rows += [
                (device, name, size, peak.time_ns)
                for name, size in _by_category(trace, peak, has_torch)
            ]
    return {
        "device": [row[0] for row in rows],
        "category": [row[1] for row in rows],
        "bytes": np.array([row[2] for row in rows], dtype=np.int64),
        "time_ns": np.array([row[3] for row in rows], dtype=np.int64),
    }


def _by_category(trace: TraceData, peak: PeakMoment, has_torch: bool) -> list[tuple[str, int]]:
    """Bytes in use at the peak by category; empty if categories are unknown."""
    # without tensors there are no categories: do not import torch for them
    if not len(trace.table("tensors")):
        return []
    if not has_torch and not trace.metadata.get("overloads"):
        raise TorchNeededError
    categories = categories_of_lives(trace, peak.lives)
    if categories.unknown_because:
        return []
    alive = alive_at(peak)
    size = peak.lives.size_bytes[alive]
    names = [category_text(code) for code in categories.at(peak.time_ns)[alive].tolist()]
    is_before = peak.lives.start_ns[alive] < 0
    unseen = max(peak.in_use - int(size.sum()), 0)
    return [(one.name, one.size_bytes) for one in group_blocks(names, size, is_before, unseen)]


def _ledger_columns(trace: TraceData, collectives: ProcessCollectives) -> Columns:
    ledger = trace.table("ledger")
    more = {"source": STRAYS_SOURCE, "what": STRAYS, "value": float(collectives.strays)}
    return {name: [*ledger[name].tolist(), value] for name, value in more.items()}


def _collective_columns(collectives: ProcessCollectives) -> Columns:
    group_of_row = [collectives.groups[row] for row in collectives.group.tolist()]
    return {
        **{name: getattr(collectives, name) for name in COLLECTIVE_NUMBERS},
        "name": list(collectives.name),
        "group_name": [group.name for group in group_of_row],
        "group_ranks": [",".join(map(str, group.ranks)) for group in group_of_row],
    }
