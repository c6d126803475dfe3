"""What of a job an answer is not about, said at its end."""

from __future__ import annotations

from collections.abc import Sequence

from opscope.cli.console import Messages
from opscope.job.job import Job
from opscope.trace.partition import Partition, parts_text


def say_what_is_missing(
    job: Job, messages: Messages, incomplete: Sequence[Partition] | None = None
) -> None:
    """Which ranks are not there, and of which not all is.

    Args:
        job: that was asked.
        messages: says it.
        incomplete: the latter, where that is known; None to find out.
    """
    if missing := job.missing_ranks():
        messages.say(f"{missing}: this is not the whole job")
    parts = job.incomplete() if incomplete is None else incomplete
    if parts:
        among = job.compared if {*parts} <= {*job.compared} else job
        messages.say(
            f"of {parts_text(parts, len(among))} not all is there: `opscope job losses` says what"
        )
