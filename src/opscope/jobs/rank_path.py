"""The longest chain of what had to wait for what through the ranks of a job.

Back from the end: what a rank did since the last collective that it waited for, that collective's
transfer, then what the rank did that came to it last, and so on. A job can only become shorter by
what is on this chain.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from opscope.analysis.collectives.calls import NONE
from opscope.base.quantity_text import share_text, time_text
from opscope.base.shown_result import ShownResult
from opscope.jobs.collectives import JobCollectives
from opscope.storage.partition import Partition
from opscope.timeline.arrays import Flags, Values

_LEAST_SHARE = 0.05
"""Of the path, for a rank to be named in a sentence."""


@dataclass(frozen=True, eq=False)
class RankPath(ShownResult):
    """The critical path of a job, in pieces, from the end back.

    Times are Unix nanoseconds on the job's clock. Arrays have shape (pieces,).

    Attributes:
        processes: the processes of the job.
        process: row of each piece in ``processes``.
        start_ns: begin of the piece.
        end_ns: end of the piece, equal to the start of the previous entry.
        is_transfer: whether the piece is a transfer, after the last rank's arrival.
    """

    processes: tuple[Partition, ...]
    process: Values
    start_ns: Values
    end_ns: Values
    is_transfer: Flags

    def __len__(self) -> int:
        return len(self.process)

    @property
    def length_ns(self) -> int:
        """Total length of the path."""
        return int((self.end_ns - self.start_ns).sum())

    @property
    def transfer_ns(self) -> int:
        """Time of transfers on the path."""
        return int((self.end_ns - self.start_ns)[self.is_transfer].sum())

    @property
    def own_ns(self) -> Values:
        """Time of each process's own work on the path. Shape (processes,)."""
        own = ~self.is_transfer
        time = (self.end_ns - self.start_ns)[own]
        sums = np.bincount(self.process[own], weights=time, minlength=len(self.processes))
        return sums.astype(np.int64)

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        own = zip(self.processes, self.own_ns.tolist(), strict=True)
        return {
            "length_ns": self.length_ns,
            "transfer_ns": self.transfer_ns,
            "own_ns": {str(process): time for process, time in own},
        }

    def __str__(self) -> str:
        if not len(self):
            return ""
        whole = max(self.length_ns, 1)
        shares = [
            (time / whole, str(process))
            for process, time in zip(self.processes, self.own_ns.tolist(), strict=True)
        ]
        named = sorted((one for one in shares if one[0] >= _LEAST_SHARE), reverse=True)
        parts = [f"{share_text(share)} {process}" for share, process in named[:3]]
        parts.append(f"{share_text(self.transfer_ns / whole)} transfers")
        rest = 1 - sum(share for share, _ in named[:3]) - self.transfer_ns / whole
        if rest >= _LEAST_SHARE:
            parts.append(f"{share_text(rest)} other ranks")
        return f"The critical path across ranks is {time_text(whole)} long: {', '.join(parts)}."


def rank_path(found: JobCollectives) -> RankPath:
    """Follow it back from the end of the last collective to when a rank first came to one.

    A collective in which a rank had something else to do all the time held nothing up. Where it is
    not known who came last, the path stays in the rank. Empty without collectives that were waited
    for.
    """
    waited = (found.end_ns != NONE) & (found.start_ns != NONE) & (found.exposed_ns > 0)
    order = np.flatnonzero(waited)[np.argsort(found.end_ns[waited], kind="stable")]
    if not len(order):
        empty = np.zeros(0, dtype=np.int64)
        return RankPath(found.processes, empty, empty, empty, np.zeros(0, dtype=np.bool_))
    of_process = [order[found.process[order] == row] for row in range(len(found.processes))]
    ends = [found.end_ns[rows] for rows in of_process]
    awaited = _awaited(found)
    first = int(found.start_ns[order].min())
    process, now = int(found.process[order[-1]]), int(found.end_ns[order[-1]])
    pieces: list[tuple[int, int, int, bool]] = []
    while now > first:
        place = int(np.searchsorted(ends[process], now, side="right")) - 1
        if place < 0:
            pieces.append((process, first, now, False))
            break
        share = int(of_process[process][place])
        ended = int(ends[process][place])
        pieces.append((process, ended, now, False))
        last = int(awaited[found.collective[share]])
        came = int(found.start_ns[share if last == NONE else last])
        came = min(max(came, first), ended)
        pieces.append((process, came, ended, True))
        if last != NONE:
            process = int(found.process[last])
        now = came if came < now else now - 1  # clocks that are a little off never lead back
    columns = np.array([piece for piece in pieces if piece[2] > piece[1]], dtype=np.int64)
    columns = columns.reshape(-1, 4)
    return RankPath(
        found.processes, columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3] == 1
    )


def _awaited(found: JobCollectives) -> Values:
    """Share of the last rank of each collective; ``NONE`` where unknown."""
    own = np.flatnonzero(found.process == found.last[found.collective])
    share = np.full(len(found), NONE, dtype=np.int64)
    share[found.collective[own]] = own
    comparable = np.isfinite(found.bound_ns)
    return np.where(comparable, share, NONE)
