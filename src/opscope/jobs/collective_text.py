"""Collectives of a job as tables of text, for the command line and the report."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np

from opscope.analysis.collectives.kinds import POINT_TO_POINT
from opscope.base.quantity_text import bytes_text, share_text, time_text
from opscope.jobs.collective_kinds import CollectiveKind, RankWaits
from opscope.jobs.collectives import JobCollectives
from opscope.jobs.rank_path import rank_path


@dataclass(frozen=True)
class TextTable:
    """Names and what is known of each.

    Attributes:
        heading: of the names.
        names: one for each row.
        columns: a heading, and a cell for each row.
    """

    heading: str
    names: list[str]
    columns: list[tuple[str, list[str]]]


def kind_table(kinds: Sequence[CollectiveKind]) -> TextTable:
    """Kinds of collectives: how many, how long, how fast, and who came last."""
    return TextTable(
        "Collective",
        [_title(kind) for kind in kinds],
        [
            ("Count", [f"{kind.count:,}" for kind in kinds]),
            ("Transfer", [_time(kind.transfer_ns) for kind in kinds]),
            ("Wait", [_time(kind.wait_ns) for kind in kinds]),
            ("Exposed", [_time(kind.exposed_ns) for kind in kinds]),
            ("Bus/s", [_rate(kind.bus_bandwidth) for kind in kinds]),
            ("Mostly last", [_last(kind) for kind in kinds]),
        ],
    )


def rank_table(waits: Sequence[RankWaits]) -> TextTable:
    """Processes: how long each waited, and others for it."""
    return TextTable(
        "Process",
        [str(one.process) for one in waits],
        [
            ("Collectives", [f"{one.count:,}" for one in waits]),
            ("Waited", [time_text(one.wait_ns) for one in waits]),
            ("Exposed", [time_text(one.exposed_ns) for one in waits]),
            ("Came last", [f"{one.awaited:,}" for one in waits]),
            ("Others waited", [time_text(one.awaited_ns) for one in waits]),
        ],
    )


def sentences(found: JobCollectives) -> list[str]:
    """What had to wait for what, where anything did, and what is to be known about the figures."""
    path = str(rank_path(found))
    return [*([path] if path else []), *found.sentences()]


def _title(kind: CollectiveKind) -> str:
    size = f" {bytes_text(kind.size_bytes)}" if kind.size_bytes else ""
    between = "of two" if kind.name in POINT_TO_POINT else f"{len(kind.group.ranks)} ranks"
    return f"{kind.name}{size}, {between}"


def _time(value: float) -> str:
    return "-" if np.isnan(value) else time_text(round(value))


def _rate(value: float) -> str:
    return "-" if np.isnan(value) else bytes_text(round(value))


def _last(kind: CollectiveKind) -> str:
    return "-" if kind.last is None else f"{kind.last} ({share_text(kind.last_share)})"
