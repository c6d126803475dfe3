"""The critical path of a job through its ranks.

It is found from the end: a rank's work since the last collective that it waited for, this
collective's transfer, then the work of the rank that arrived last, and so on. Only a shorter path
makes the job shorter.
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

_LEAST_SHARE = 0.05  # least share of the path for a rank to be named in a sentence


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


def rank_path(job: JobCollectives) -> RankPath:
    """Follow the path from the end of the last collective to the first arrival of a rank.

    A collective during which a rank always had other work delayed nothing. If the last rank is
    unknown, the path stays in the rank. Empty without collectives that ranks waited for.
    """
    waited = (job.end_ns != NONE) & (job.start_ns != NONE) & (job.exposed_ns > 0)
    order = np.flatnonzero(waited)[np.argsort(job.end_ns[waited], kind="stable")]
    if not len(order):
        empty = np.zeros(0, dtype=np.int64)
        return RankPath(job.processes, empty, empty, empty, np.zeros(0, dtype=np.bool_))
    of_process = [order[job.process[order] == row] for row in range(len(job.processes))]
    ends = [job.end_ns[rows] for rows in of_process]
    awaited = _awaited(job)
    first = int(job.start_ns[order].min())
    process, now = int(job.process[order[-1]]), int(job.end_ns[order[-1]])
    pieces: list[tuple[int, int, int, bool]] = []
    while now > first:
        place = int(np.searchsorted(ends[process], now, side="right")) - 1
        if place < 0:
            pieces.append((process, first, now, False))
            break
        share = int(of_process[process][place])
        ended = int(ends[process][place])
        pieces.append((process, ended, now, False))
        last = int(awaited[job.collective[share]])
        came = int(job.start_ns[share if last == NONE else last])
        came = min(max(came, first), ended)
        pieces.append((process, came, ended, True))
        if last != NONE:
            process = int(job.process[last])
        now = came if came < now else now - 1  # despite clock errors, time decreases in every round
    columns = np.array([piece for piece in pieces if piece[2] > piece[1]], dtype=np.int64)
    columns = columns.reshape(-1, 4)
    return RankPath(job.processes, columns[:, 0], columns[:, 1], columns[:, 2], columns[:, 3] == 1)


def _awaited(job: JobCollectives) -> Values:
    """Share of the last rank of each collective; ``NONE`` where unknown."""
    own = np.flatnonzero(job.process == job.last[job.collective])
    share = np.full(len(job), NONE, dtype=np.int64)
    share[job.collective[own]] = own
    comparable = np.isfinite(job.bound_ns)
    return np.where(comparable, share, NONE)
