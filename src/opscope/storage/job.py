"""The job of a rank's trace, and its missing ranks.

A rank that was killed, or whose files were not copied, leaves a folder like that of a smaller job.
Every rank's metadata has the job's size, so a reader can list the missing ranks.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from opscope.columns.table import Table
from opscope.columns.unknown_codes import with_rows
from opscope.storage.partition import RANK, Partition, ranges_text

SOURCE = "ranks of the job"  # source in the ledger of a trace read from a folder
_MAX_GAP_NS = 600 * 10**9
"""Clocks of machines differ by seconds; recordings further apart are of different jobs."""

_TOTAL, _MISSING = "in all", "not in this folder: "


def place_in_job(metadata: Mapping[str, Any]) -> tuple[int, int]:
    """Rank and world size; 0 of 1 if the metadata has none, or invalid ones."""
    info = metadata.get("distributedInfo")
    if not isinstance(info, dict):
        return 0, 1
    rank, size = info.get("rank"), info.get("world_size")
    if type(rank) is not int or type(size) is not int or not 0 <= rank < size <= 100_000:
        return 0, 1
    return rank, size


def rank_of(part: Partition | None, metadata: Mapping[str, Any]) -> int | None:
    """Global rank of a process, by its part or else by its metadata; None outside a job."""
    if part is not None and part.kind == RANK:
        return part.number
    rank, size = place_in_job(metadata)
    return rank if size > 1 else None


def ledger_with_ranks(
    ledger: Table, metadata: Mapping[str, Any], rank: int, present: Collection[int]
) -> Table:
    """The ledger with the ranks that are missing in the folder that ``rank`` was read from.

    Counts of an earlier reader of another folder are removed. A trace in the folder of another rank
    was put there for comparison, so the ranks beside it are unknown.
    """
    own_rank, size = place_in_job(metadata)
    is_of_job = own_rank == rank and size > 1  # a single process may have any number
    missing = sorted(set(range(size)) - set(present)) if is_of_job else []
    counts = {_TOTAL: size, f"{_MISSING}{ranges_text(missing)}": len(missing)} if missing else {}
    others = ledger.take(np.flatnonzero(ledger["source"] != SOURCE))
    return with_rows(others, {(SOURCE, what): count for what, count in counts.items()})


def missing_ranks(ledger: Mapping[str, Mapping[str, float]]) -> str:
    """The missing ranks of a trace's job, as the begin of a sentence; usually empty."""
    ranks = ledger.get(SOURCE, {})
    for what, count in ranks.items():
        if what.startswith(_MISSING):
            return _missing_text(what.removeprefix(_MISSING), int(count), int(ranks.get(_TOTAL, 0)))
    return ""


def missing_beside(metadata: Mapping[str, Any], present: Collection[int]) -> str:
    """Sentence about missing ranks, from a rank's metadata and the ``present`` ranks."""
    size = place_in_job(metadata)[1]
    missing = sorted(set(range(size)) - set(present))
    return _missing_text(ranges_text(missing), len(missing), size) if missing and size > 1 else ""


def of_another_job(about: Mapping[int, Mapping[str, Any]]) -> str:
    """Sentence about ranks that are of another job than most in their folder; usually empty.

    Ranks that save their traces to a folder of an earlier, larger job leave some of its ranks
    there: these have another world size, or were recorded at another time.
    """
    group: dict[int, tuple[int, int]] = {}
    number, until_ns = 0, 0
    for start_ns, rank in sorted(
        (_time_ns(facts, "start_ns"), rank) for rank, facts in about.items()
    ):
        size = place_in_job(about[rank])[1]
        if size == 1 or start_ns <= 0:  # it has no data about its job
            continue
        number += int(until_ns > 0 and start_ns - until_ns > _MAX_GAP_NS)
        until_ns = max(until_ns, start_ns, _time_ns(about[rank], "end_ns"))
        group[rank] = (size, number)
    counts = Counter(group.values())
    largest = max(counts, key=lambda key: (counts[key], key[1]), default=None)
    others = sorted(rank for rank, key in group.items() if key != largest)
    if largest is None or not others:
        return ""
    is_size = any(group[rank][0] != largest[0] for rank in others)
    reason = (
        "because its number of ranks differs"
        if is_size
        else "because it was recorded at another time"
    )
    single = len(others) == 1
    return (
        f"{'rank' if single else 'ranks'} {ranges_text(others)} {'is' if single else 'are'} from "
        f"another job than the rest of this folder, {reason}."
    )


def _time_ns(about: Mapping[str, Any], name: str) -> int:
    value = about.get(name)
    return value if type(value) is int else 0


def _missing_text(ranks: str, count: int, size: int) -> str:
    are = f"rank {ranks} of {size} is" if count == 1 else f"ranks {ranks} of {size} are"
    return f"{are} not in this folder"
