"""Computes the tables of a rollup from a trace."""

from __future__ import annotations

import sys
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
from opscope.columns.column import TableSchema
from opscope.columns.table import Table
from opscope.columns.trace_data import TraceData
from opscope.errors import UsageError
from opscope.jobs.rollup.operators import joined, line_columns, operator_columns
from opscope.jobs.rollup.places import place_columns
from opscope.jobs.rollup.schema import (
    ALL_CATEGORIES,
    CAUSES,
    COLLECTIVE_NUMBERS,
    COLLECTIVES,
    LEDGER,
    LINES,
    MEMORY,
    OPERATOR_DETAILS,
    OPERATORS,
    PLACES,
    ROLLUP_TABLES,
    STEPS,
    STRAYS,
    STRAYS_SOURCE,
    cause_column,
)
from opscope.storage.partition import RANK, Partition
from opscope.timeline.detail import in_detail
from opscope.timeline.listing import TorchListing
from opscope.timeline.period import Which

Columns = dict[str, Any]


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
    operators = operator_columns(trace)
    columns = {
        STEPS.name: _step_columns(accounts[Which.ALL]),
        CAUSES.name: joined([_cause_columns(one, which) for which, one in accounts.items()]),
        OPERATORS.name: _columns_of(OPERATORS, operators),
        OPERATOR_DETAILS.name: _columns_of(OPERATOR_DETAILS, operators),
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


def _columns_of(schema: TableSchema, columns: Columns) -> Columns:
    return {one.name: columns[one.name] for one in schema.columns if one.name in columns}


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
