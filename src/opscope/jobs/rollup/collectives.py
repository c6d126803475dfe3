"""The collectives of one process as a table of its rollup, and back."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from opscope.analysis.collectives.process_collectives import ProcessCollectives, ProcessGroup
from opscope.columns.table import Table

SOURCE, STRAYS = "collectives", "transfers without a call"
"""The row of ``rollup_ledger`` that says how many there are."""

NUMBERS = (
    "event", "number", "peer", "root", "tag", "begin_ns", "returned_ns", "start_ns", "end_ns",
    "sent_bytes", "received_bytes", "exposed_ns", "step",
)  # fmt: skip
"""Columns that are the same in both."""


def collective_columns(found: ProcessCollectives) -> dict[str, Any]:
    """Of ``rollup_collectives``."""
    of = [found.groups[row] for row in found.group.tolist()]
    return {
        **{name: getattr(found, name) for name in NUMBERS},
        "name": list(found.name),
        "group_name": [group.name for group in of],
        "group_ranks": [",".join(map(str, group.ranks)) for group in of],
    }


def collectives_of_table(table: Table, ledger: Table) -> ProcessCollectives:
    """What was written.

    Raises:
        ValueError: it is damaged.
    """
    texts = zip(table["group_name"].tolist(), table["group_ranks"].tolist(), strict=True)
    of = [ProcessGroup(name, _ranks(ranks)) for name, ranks in texts]
    groups = tuple(sorted(set(of)))
    place = {group: row for row, group in enumerate(groups)}
    is_row = (ledger["source"] == SOURCE) & (ledger["what"] == STRAYS)
    return ProcessCollectives(
        **{name: table[name] for name in NUMBERS},
        name=tuple(table["name"].tolist()),
        group=np.array([place[group] for group in of], dtype=np.int64),
        groups=groups,
        strays=int(ledger["value"][is_row].sum()),
    )


def _ranks(text: str) -> tuple[int, ...]:
    parts: Sequence[str] = text.split(",") if text else ()
    return tuple(map(int, parts))
