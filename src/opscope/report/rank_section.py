"""The ranks panel of the report: steps of all processes, causes of their time, collectives."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import numpy as np

from opscope.columns.causes import Cause
from opscope.jobs.collective_kinds import (
    collective_kinds,
    kind_table,
    rank_table,
    rank_waits,
    sentences,
)
from opscope.jobs.collectives import JobCollectives
from opscope.jobs.rank_steps import NONE
from opscope.jobs.slow_ranks import SlowRanks
from opscope.report.packing import Packer
from opscope.storage.partition import Partition

MOST_STEPS = 1000
"""Maximum number of steps shown; these are the first ones."""

MOST_KINDS, MOST_RANKS = 20, 64
"""Rows of the tables of collectives, and of ranks that others waited for longest."""


def rank_section(
    compared: SlowRanks,
    collectives: JobCollectives,
    on_timeline: Collection[Partition],
    packer: Packer,
) -> dict[str, Any]:
    """Section of the ranks. ``packer`` gets the times of steps plus 1; 0 means no such step."""
    steps = compared.steps
    for name, times in (("rankTime", steps.wall_ns), ("rankOwn", steps.own_ns)):
        shown = times[:, :MOST_STEPS]
        packer.add(name, np.where(shown == NONE, 0, shown + 1).ravel())
    used = np.flatnonzero(steps.cause_ns.any(axis=0)).tolist()
    return {
        "sentences": compared.sentences(),
        "names": [str(process) for process in steps.processes],
        "onTimeline": [process in on_timeline for process in steps.processes],
        "steps": steps.number[:MOST_STEPS].tolist(),
        "allSteps": len(steps.number),
        "what": steps.steps_are,
        "causes": [Cause(cause).title for cause in used],
        "causeMeanings": [Cause(cause).meaning for cause in used],
        "causeTimes": steps.cause_ns[:, used].tolist(),
        "together": _collectives(collectives),
    }


def _collectives(collectives: JobCollectives) -> dict[str, Any]:
    kinds, waits = collective_kinds(collectives), rank_waits(collectives)
    notes = sentences(collectives)
    if len(kinds) > MOST_KINDS:
        notes.append(f"Of {len(kinds)} kinds of collectives, the {MOST_KINDS} longest are shown.")
    if len(waits) > MOST_RANKS:
        waits = sorted(waits, key=lambda one: -one.awaited_ns)[:MOST_RANKS]
        notes.append(f"Of all ranks, the {MOST_RANKS} that others waited for longest are shown.")
    tables = [kind_table(kinds[:MOST_KINDS]), rank_table(waits)] if kinds else []
    return {
        "sentences": notes,
        "tables": [{"heading": list(table.columns), "rows": table.rows} for table in tables],
    }
