"""The job of a rank's trace, and its missing ranks.

A rank that was killed, or whose files were not copied, leaves a folder that looks like that of a
smaller job. Every rank's metadata has the size of the job, so a reader can say what is missing.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from typing import Any

import numpy as np

from opscope.columns.table import Table
from opscope.storage.partition import ranges_text

SOURCE = "ranks of the job"  # what the ledger of a trace read from a folder calls them
_APART_NS = 600 * 10**9
"""Clocks of machines differ by seconds; what is recorded so much later is another job."""

_IN_ALL, _MISSING = "in all", "not in this folder: "


def place_in_job(metadata: Mapping[str, Any]) -> tuple[int, int]:
    """Rank and world size; 0 of 1 where the metadata of a trace does not say, or makes no sense."""
    info = metadata.get("distributedInfo")
    if not isinstance(info, dict):
        return 0, 1
    own, size = info.get("rank"), info.get("world_size")
    if type(own) is not int or type(size) is not int or not 0 <= own < size <= 100_000:
        return 0, 1
    return own, size


def ledger_with_ranks(
    ledger: Table, metadata: Mapping[str, Any], rank: int, there: Collection[int]
) -> Table:
    """The ledger with the ranks that are not ``there``, in the folder ``rank`` was read from.

    What an earlier reader found in another folder is left out. A trace that lies under a rank not
    its own was put there for comparison, so nothing is known of the ranks beside it.
    """
    own, size = place_in_job(metadata)
    is_of_job = own == rank and size > 1  # a process alone may lie under any number
    missing = sorted(set(range(size)) - set(there)) if is_of_job else []
    counts = {_IN_ALL: size, f"{_MISSING}{ranges_text(missing)}": len(missing)} if missing else {}
    kept = ledger.take(np.flatnonzero(ledger["source"] != SOURCE))
    return kept.replaced(
        {
            "source": kept["source"].tolist() + [SOURCE] * len(counts),
            "what": kept["what"].tolist() + list(counts),
            "value": kept["value"].tolist() + [float(count) for count in counts.values()],
        }
    )


def missing_ranks(ledger: Mapping[str, Mapping[str, float]]) -> str:
    """Which ranks of its job a trace was read without, as a sentence's beginning; mostly empty."""
    ranks = ledger.get(SOURCE, {})
    for what, count in ranks.items():
        if what.startswith(_MISSING):
            return _missing_text(
                what.removeprefix(_MISSING), int(count), int(ranks.get(_IN_ALL, 0))
            )
    return ""


def missing_beside(metadata: Mapping[str, Any], there: Collection[int]) -> str:
    """Sentence about missing ranks, from a rank's metadata and the ranks that are ``there``."""
    size = place_in_job(metadata)[1]
    missing = sorted(set(range(size)) - set(there))
    return _missing_text(ranges_text(missing), len(missing), size) if missing and size > 1 else ""


def of_another_job(about: Mapping[int, Mapping[str, Any]]) -> str:
    """Which ranks are of another job than most of those in their folder, as a sentence; mostly
    empty.

    Ranks that save their own traces to a folder of an earlier, larger job leave some of its ranks
    there: these have another world size, or were recorded at another time.
    """
    group: dict[int, tuple[int, int]] = {}
    number, until_ns = 0, 0
    for start_ns, rank in sorted(
        (_time_ns(facts, "start_ns"), rank) for rank, facts in about.items()
    ):
        size = place_in_job(about[rank])[1]
        if size == 1 or start_ns <= 0:  # it says nothing of its job
            continue
        number += int(until_ns > 0 and start_ns - until_ns > _APART_NS)
        until_ns = max(until_ns, start_ns, _time_ns(about[rank], "end_ns"))
        group[rank] = (size, number)
    counts = Counter(group.values())
    most = max(counts, key=lambda one: (counts[one], one[1]), default=None)
    others = sorted(rank for rank, one in group.items() if one != most)
    if most is None or not others:
        return ""
    is_size = any(group[rank][0] != most[0] for rank in others)
    how = (
        "because its number of ranks differs"
        if is_size
        else "because it was recorded at another time"
    )
    one = len(others) == 1
    return (
        f"{'rank' if one else 'ranks'} {ranges_text(others)} {'is' if one else 'are'} from "
        f"another job than the rest of this folder, {how}."
    )


def _time_ns(about: Mapping[str, Any], name: str) -> int:
    found = about.get(name)
    return found if type(found) is int else 0


def _missing_text(ranks: str, count: int, size: int) -> str:
    are = f"rank {ranks} of {size} is" if count == 1 else f"ranks {ranks} of {size} are"
    return f"{are} not in this folder"
