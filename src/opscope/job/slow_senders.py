"""Which rank's messages leave slowly: it keeps the others waiting as long as it waits itself.

In a ring, and in most other ways to add up over ranks, nobody has a result before the slowest
connection has carried its part. All ranks then spend equally long in collectives, so that no
comparison of their times tells whose connection it was; for how long each had something to send
that was not sent yet does (:mod:`opscope.trace.sending`).
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from math import exp, log
from typing import Any

import numpy as np
import numpy.typing as npt

from opscope.analysis.account.causes import Cause
from opscope.analysis.quantity_text import share_text, time_text
from opscope.job.rank_steps import NONE, RankSteps
from opscope.trace.partition import Partition
from opscope.trace.sending import Sending

Amounts = npt.NDArray[np.float64]
Counts = npt.NDArray[np.int64]

_FALSE_ALARMS = 0.001
"""Of jobs whose ranks are alike, in how many one may be said to send slowly, if looks had nothing
to do with each other; those at one message do."""
_LEAST_SHARE = 0.1
"""Of a step: less is not worth saying, and equal ranks differ by as much."""
_LEAST_TIMES = 2.0
"""As long as the middle one of the others."""
_LEAST_OF_MOST = 0.7
"""Of the slowest one: who has to wait for that one to send on has something to send meanwhile."""
_LEAST_APART = 4.0
"""Times what the others differ by among each other."""
_MAD_TO_SIGMA = 1.4826


@dataclass(frozen=True)
class SlowSender:
    """A rank whose messages leave slowly. Times are nanoseconds of a step, on average.

    Attributes:
        process: which.
        sending_ns: how long it had something to send that was not sent yet.
        others_ns: the same of the middle one of the others.
        step_ns: what a step of the job takes.
        gain_ns: how much shorter that would be, at most, if it were as quick as the next slowest.
    """

    process: Partition
    sending_ns: float
    others_ns: float
    step_ns: float
    gain_ns: float

    def as_dict(self) -> dict[str, Any]:
        """What JSON can hold."""
        return {
            self.process.kind: self.process.number,
            "sending_ns": round(self.sending_ns),
            "others_ns": round(self.others_ns),
            "step_ns": round(self.step_ns),
            "gain_ns": round(self.gain_ns),
        }

    def __str__(self) -> str:
        text = (
            f"{self.process} sends slowly, or where it sends to receives slowly: in "
            f"{time_text(int(self.sending_ns))} of a step it had something to send that was not "
            f"sent yet, the middle one of the others in {time_text(int(self.others_ns))}. All wait "
            "for it in collectives"
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


def find_slow_senders(steps: RankSteps, sending: Mapping[Partition, Sending]) -> SlowSenders:
    """Those who had something to send for much longer than the others.

    Args:
        steps: of the ranks.
        sending: what of them is known. Ranks without steps are passed over.
    """
    there = steps.wall_ns != NONE
    rows = [row for row, part in enumerate(steps.processes) if part in sending and there[row].any()]
    if len(rows) < 2:
        return SlowSenders()
    seen = [sending[steps.processes[row]] for row in rows]
    looks, behind = np.array([[one.looks, one.behind] for one in seen]).T
    shares = behind / looks
    collective, wall = (
        float(np.median([table[row, there[row]].mean() for row in rows]))
        for table in (steps.table_ns[:, :, Cause.COLLECTIVE], steps.wall_ns)
    )
    # Of the time that was looked at, so much is of a step: all but what came before the first.
    of_step = np.array([one.looked_ns for one in seen]) / there[rows].sum(axis=1)
    found, needed_ns = [], []
    for place, row in enumerate(rows):
        others = np.delete(shares, place)
        middle, own = float(np.median(others)), float(shares[place])
        needed = max(_needed(others), _by_chance(looks, behind, place) - middle)
        needed_ns.append(max(needed * of_step[place], _LEAST_SHARE * wall))
        is_slowest = own >= _LEAST_OF_MOST * float(shares.max())
        is_worth_it = collective >= _LEAST_SHARE * wall
        if not (is_slowest and is_worth_it and (own - middle) * of_step[place] >= needed_ns[-1]):
            continue
        ahead_ns = (own - float(others.max())) * of_step[place]
        found.append(
            SlowSender(
                process=steps.processes[row],
                sending_ns=own * of_step[place],
                others_ns=middle * of_step[place],
                step_ns=wall,
                gain_ns=max(min(ahead_ns, collective), 0.0),
            )
        )
    named = {one.process for one in found}
    of_found = [needed_ns[at] for at, row in enumerate(rows) if steps.processes[row] in named]
    found.sort(key=lambda one: -one.sending_ns)
    return SlowSenders(tuple(found), float(np.median(of_found or needed_ns)))


def _needed(others: Amounts) -> float:
    """How much more of the time than the middle one of the others is more than they differ by among
    each other."""
    middle = float(np.median(others))
    apart = _MAD_TO_SIGMA * float(np.median(np.abs(others - middle)))
    return float(max(_LEAST_APART * apart, (_LEAST_TIMES - 1) * middle))


def _by_chance(looks: Counts, behind: Counts, place: int) -> float:
    """At what share of its looks a rank would have to have something unsent, for that to be more
    than chance where all ranks are alike."""
    own, all_looks = int(looks[place]), int(looks.sum())
    others = int(behind.sum() - behind[place])
    low, high = 0, own
    while low < high:
        count = (low + high) // 2
        if _most_likely(count, others, own / all_looks) * len(looks) < _FALSE_ALARMS:
            high = count
        else:
            low = count + 1
    return low / own


def _most_likely(own: int, others: int, usual: float) -> float:
    """How likely at most so many of all are one rank's own, whose share usually is ``usual``: the
    bound of Chernoff (1952), which needs no sums."""
    hits = own + others
    if own <= usual * hits:
        return 1.0
    apart = own * log(own / (usual * hits))
    if others:
        apart += others * log(others / ((1 - usual) * hits))
    return exp(-apart)
