"""The tables of a rollup, made of a trace."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.account import Account
from opscope.analysis.account.causes import Cause
from opscope.analysis.account.find import find_account
from opscope.analysis.collectives.process_collectives import ProcessCollectives, process_collectives
from opscope.analysis.findings.subject import Subject
from opscope.analysis.memory.groups import group_blocks
from opscope.analysis.memory.life_categories import categories_of_lives, category_text
from opscope.analysis.memory.peak_moment import PeakMoment, alive_at, devices_with_memory, find_peak
from opscope.analysis.memory.recorded import memory_was_recorded
from opscope.analysis.period import Which
from opscope.cached_property import cached_property
from opscope.rollup.collectives import SOURCE, STRAYS, collective_columns
from opscope.rollup.operators import line_columns, operator_columns
from opscope.rollup.places import place_columns
from opscope.rollup.process_steps import mean_step_ns, steps_of_account
from opscope.rollup.schema import (
    ALL,
    ALL_CATEGORIES,
    CAUSES,
    COLLECTIVES,
    LEDGER,
    LINES,
    MEMORY,
    OPERATOR_DETAILS,
    OPERATORS,
    PLACES,
    ROLLUP_TABLES,
    STEADY,
    STEPS,
    cause_column,
)
from opscope.trace.column import TableSchema
from opscope.trace.partition import RANK, Partition
from opscope.trace.table import Table
from opscope.trace.trace import Trace

Values = npt.NDArray[np.int64]
Columns = dict[str, Any]


@dataclass(frozen=True, eq=False)
class RollupContents:
    """What is written.

    Attributes:
        tables: by name, as ``ROLLUP_TABLES`` has them.
        events: how many the trace has.
        steps_are: what a step is, where the program does not mark them; else empty.
        step_ns: what a step takes on average; -1 without steps, or where neither steps nor causes
            were to be made.
        steady_step_ns: the same of the steady state; -1 also where causes were not.
    """

    tables: dict[str, Table]
    events: int
    steps_are: str
    step_ns: int
    steady_step_ns: int


class TorchNeededError(RuntimeError):
    """What memory was for cannot be told without importing torch, which is not to be done here."""


def contents_of(
    trace: Trace,
    part: Partition,
    may_import_torch: bool = True,
    tables: Collection[str] = ROLLUP_TABLES,
) -> RollupContents:
    """Make the rollup of a trace.

    Args:
        trace: any.
        part: whose it is.
        may_import_torch: whether it may be imported, if it is not yet. A process that has none may
            be one that ends, and torch does not survive being imported then.
        tables: those to make; of the others nothing is computed.

    Raises:
        MemoryError: there is not enough.
        TorchNeededError: it may not, and would have to be.
    """
    makers = _Makers(trace, may_import_torch or "torch" in sys.modules, tables).by_table()
    columns = {name: make() for name, make in makers.items() if name in tables}
    has_account = STEPS.name in tables or CAUSES.name in tables
    whole = find_account(trace, Which.ALL) if has_account else None
    steady = find_account(trace, Which.STEADY) if CAUSES.name in tables else None
    return RollupContents(
        tables={name: _table(name, found, part) for name, found in columns.items()},
        events=len(trace.events),
        steps_are="" if whole is None else whole.steps_are,
        step_ns=-1 if whole is None else mean_step_ns(whole),
        steady_step_ns=-1 if steady is None else mean_step_ns(steady),
    )


class _Makers:
    """What makes the columns of each table. What several need is made once."""

    def __init__(self, trace: Trace, has_torch: bool, tables: Collection[str]) -> None:
        self._trace, self._has_torch, self._tables = trace, has_torch, tables

    def by_table(self) -> dict[str, Callable[[], Columns]]:
        trace = self._trace
        return {
            STEPS.name: lambda: _step_columns(find_account(trace, Which.ALL)),
            CAUSES.name: lambda: _joined(
                [
                    _cause_columns(find_account(trace, Which.ALL), ALL),
                    _cause_columns(find_account(trace, Which.STEADY), STEADY),
                ]
            ),
            OPERATORS.name: lambda: _those_of(OPERATORS, self._operators),
            OPERATOR_DETAILS.name: lambda: _those_of(OPERATOR_DETAILS, self._operators),
            LINES.name: lambda: line_columns(self._subject),
            PLACES.name: lambda: place_columns(self._subject),
            MEMORY.name: lambda: _memory_columns(trace, self._has_torch),
            LEDGER.name: lambda: _ledger_columns(trace, self._collectives),
            COLLECTIVES.name: lambda: collective_columns(self._collectives),
        }

    @cached_property
    def _subject(self) -> Subject:
        return Subject(self._trace)

    @cached_property
    def _operators(self) -> Columns:
        return operator_columns(self._trace, OPERATOR_DETAILS.name in self._tables)

    @cached_property
    def _collectives(self) -> ProcessCollectives:
        return process_collectives(self._trace)


def _table(name: str, columns: Columns, part: Partition) -> Table:
    rows = len(next(iter(columns.values())))
    is_rank = part.kind == RANK
    own = {"rank": part.number if is_rank else -1, "process": -1 if is_rank else part.number}
    of = {key: np.full(rows, number, dtype=np.int64) for key, number in own.items()}
    return Table(ROLLUP_TABLES[name], {**of, **columns})


def _those_of(schema: TableSchema, columns: Columns) -> Columns:
    return {one.name: columns[one.name] for one in schema.columns if one.name in columns}


def _step_columns(account: Account) -> Columns:
    steps = steps_of_account(account)
    return {
        "step": steps.number,
        "start_ns": account.steps.start_ns,
        "wall_ns": steps.wall_ns,
        "own_ns": steps.own_ns,
        **{cause_column(cause): steps.table_ns[:, cause] for cause in Cause},
    }


def _cause_columns(account: Account, period: str) -> Columns:
    entries = account.entries()
    return {
        "period": [period] * len(entries),
        "cause": [entry.cause.name.lower() for entry in entries],
        "time_ns": np.array([entry.time_ns for entry in entries], dtype=np.int64),
        "error_ns": np.array([entry.error_ns for entry in entries], dtype=np.int64),
    }


def _memory_columns(trace: Trace, has_torch: bool) -> Columns:
    found: list[tuple[str, str, int, int]] = []
    if memory_was_recorded(trace):
        for device in devices_with_memory(trace):
            peak = find_peak(trace, device)
            found.append((device, ALL_CATEGORIES, peak.in_use, peak.time_ns))
            found += [
                (device, name, size, peak.time_ns)
                for name, size in _by_category(trace, peak, has_torch)
            ]
    return {
        "device": [row[0] for row in found],
        "category": [row[1] for row in found],
        "bytes": np.array([row[2] for row in found], dtype=np.int64),
        "time_ns": np.array([row[3] for row in found], dtype=np.int64),
    }


def _by_category(trace: Trace, peak: PeakMoment, has_torch: bool) -> list[tuple[str, int]]:
    """What was in use by what it was for; nothing where that is not known of any."""
    if not len(trace.table("tensors")):  # nothing would be known, and torch imported for it
        return []
    if not has_torch:
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


def _ledger_columns(trace: Trace, collectives: ProcessCollectives) -> Columns:
    ledger = trace.table("ledger")
    more = {"source": SOURCE, "what": STRAYS, "value": float(collectives.strays)}
    return {name: [*ledger[name].tolist(), value] for name, value in more.items()}


def _joined(parts: list[Columns]) -> Columns:
    return {
        name: [value for part in parts for value in part[name]]
        if isinstance(values, list)
        else np.concatenate([part[name] for part in parts])
        for name, values in parts[0].items()
    }
