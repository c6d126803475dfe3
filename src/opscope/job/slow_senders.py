"""Which rank's messages leave slowly: it keeps the others waiting as long as it waits itself.

In a ring, and in most other ways to add up over ranks, nobody has a result before the slowest
connection has carried its part. All ranks then spend equally long in collectives, so that no
comparison of their times tells whose connection it was; for how long each had something to send
does (:mod:`opscope.trace.sent`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.causes import Cause
from opscope.analysis.quantity_text import bytes_text, share_text, time_text
from opscope.job.rank_steps import NONE, RankSteps
from opscope.trace.partition import Partition
from opscope.trace.sent import Sent

Amounts = npt.NDArray[np.float64]

_LEAST_SHARE = 0.1
"""Of a step: less is not worth saying, and equal ranks differ by as much."""
_LEAST_TIMES, _LEAST_TIMES_OF_FEW = 2.0, 3.0
"""As long as the middle one of the others: how long a message is under way differs by whether
there was a processor to receive it. Few are up to three ranks."""
_FEW = 3
_TICK_NS = 4e6
"""By which the kernel counts; some count more finely."""
_LEAST_OF_MOST = 0.7
"""Of the slowest one: who has to wait for that one to send on has something to send meanwhile."""
_LEAST_APART = 4.0
"""Times what the others differ by among each other, and what chance does."""
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class SlowSender:
    """A rank whose messages leave slowly. Times are nanoseconds of a step, on average.

    Attributes:
        process: which.
        sending_ns: how long it had something to send.
        others_ns: the same of the middle one of the others.
        arrived_bytes: what it sent in a step.
        step_ns: what a step of the job takes.
        gain_ns: how much shorter that would be, at most, if it were as quick as the next slowest.
    """

    process: Partition
    sending_ns: float
    others_ns: float
    arrived_bytes: float
    step_ns: float
    gain_ns: float

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {
            self.process.kind: self.process.number,
            "sending_ns": round(self.sending_ns),
            "others_ns": round(self.others_ns),
            "arrived_bytes": round(self.arrived_bytes),
            "step_ns": round(self.step_ns),
            "gain_ns": round(self.gain_ns),
        }

    def __str__(self) -> str:
        text = (
            f"{self.process} sends slowly, or where it sends to receives slowly: in "
            f"{time_text(int(self.sending_ns))} of a step it had something to send that had not "
            f"arrived, the middle one of the others in {time_text(int(self.others_ns))}, for "
            f"{bytes_text(int(self.arrived_bytes))} a step. All wait for it in collectives"
        )
        if self.gain_ns <= 0:
            return f"{text}."
        saved = share_text(self.gain_ns / max(self.step_ns, 1))
        return f"{text}; a step would take up to {saved} less if it were as quick as the next."


@dataclass(frozen=True)
class SlowSenders:
    """The ranks whose messages leave slowly.

    Attributes:
        found: them, those that take longest first.
        least_ns: by how much longer than the middle one a rank would have to have something to
            send, to be among them; in nanoseconds of a step. None where that is not known.
    """

    found: tuple[SlowSender, ...] = ()
    least_ns: float | None = None


def find_slow_senders(steps: RankSteps, sent: Mapping[Partition, Sent]) -> SlowSenders:
    """Those who had something to send for much longer than the others.

    Args:
        steps: of the ranks.
        sent: what of them is known. Ranks without steps are passed over.
    """
    there = steps.wall_ns != NONE
    rows = [row for row, part in enumerate(steps.processes) if part in sent and there[row].any()]
    if len(rows) < 2:
        return SlowSenders()
    counts = there[rows].sum(axis=1)
    counted = [sent[steps.processes[row]] for row in rows]
    sending = np.array([one.sending_ns for one in counted]) / counts
    collective, wall = (
        float(np.median([table[row, there[row]].mean() for row in rows]))
        for table in (steps.table_ns[:, :, Cause.COLLECTIVE], steps.wall_ns)
    )
    found, needed = [], []
    for place, row in enumerate(rows):
        others = np.delete(sending, place)
        middle, own = float(np.median(others)), float(sending[place])
        needed.append(max(_needed(others, int(counts[place])), _LEAST_SHARE * wall))
        is_slowest = own >= _LEAST_OF_MOST * float(sending.max())
        if not (is_slowest and min(own - middle, collective) >= needed[-1]):
            continue
        found.append(
            SlowSender(
                process=steps.processes[row],
                sending_ns=own,
                others_ns=middle,
                arrived_bytes=counted[place].arrived_bytes / int(counts[place]),
                step_ns=wall,
                gain_ns=max(min(own - float(others.max()), collective), 0.0),
            )
        )
    named = {one.process for one in found}
    found.sort(key=lambda one: -one.sending_ns)
    of_found = [needed[place] for place, row in enumerate(rows) if steps.processes[row] in named]
    return SlowSenders(tuple(found), float(np.median(of_found or needed)))


def _needed(others: Amounts, steps: int) -> float:
    """How much longer than the middle one of the others is more than chance, a step."""
    middle = float(np.median(others))
    apart = _MAD_TO_SIGMA * float(np.median(np.abs(others - middle)))
    times = _LEAST_TIMES if len(others) >= _FEW else _LEAST_TIMES_OF_FEW
    # Ticks of the kernel that fell into sending, as many as chance has it (Poisson): by how much
    # the difference of two such counts exceeds _LEAST_APART of its standard deviations.
    tick = _LEAST_APART**2 * _TICK_NS / steps
    by_ticks = (tick + (tick * tick + 8 * tick * middle) ** 0.5) / 2
    return float(max(_LEAST_APART * apart, (times - 1) * middle, by_ticks))
