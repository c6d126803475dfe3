"""The verdict on a job: the rank that the others wait for, else what slows one of them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from opscope.columns.causes import Cause
from opscope.findings.status import Status
from opscope.findings.verdict import SLOW, Verdict
from opscope.jobs.slow_ranks import SlowRank, SlowRanks


def job_verdict(slow: SlowRanks, of_one: Callable[[], Verdict], name: str) -> Verdict:
    """The verdict on several ranks; on the process called ``name`` where no rank is slow."""
    worth = [one for one in slow.found if one.gain_ns >= SLOW * max(one.step_ns, 1)]
    if worth:
        return _of_straggler(worth[0], len(slow.found) - 1)
    one = of_one()
    return replace(one, about=f"{one.about} of {name}", next="opscope why")


def _of_straggler(slow: SlowRank, others: int) -> Verdict:
    share = slow.gain_ns / max(slow.step_ns, 1)
    waits = slow.cause is Cause.DESCHEDULED
    others_have_it = f"{slow.process} waits for a processor, which others have"
    return Verdict(
        status=Status.BUSY if waits else Status.STRAGGLER,
        unsure=(others_have_it,) if waits else (),
        title=str(slow).rstrip("."),
        share=share,
        fix=f"look at what {slow.process} does there: opscope why {slow.process.option}",
        gain_ns=round(slow.gain_ns),
        gain_share=share,
        step_ns=round(slow.step_ns),
        wall_ns=round(slow.step_ns),
        about="mean step of the job",
        others=others,
        next="opscope ranks",
        evidence=("stragglers", slow.cause.name.lower()),
    )
