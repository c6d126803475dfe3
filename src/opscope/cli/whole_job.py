"""Queries on a whole job: on its readable processes, with the missing parts named."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, TypeVar

from opscope.cli.views.console import Messages
from opscope.errors import UnreadableProcessError
from opscope.storage.partition import Partition, parts_text

if TYPE_CHECKING:
    from opscope.api.job import Job

_Found = TypeVar("_Found")


def of_readable(
    job: Job, doing: str, ask: Callable[[Job], _Found], fewest: int = 1
) -> tuple[_Found, Job, tuple[str, ...]]:
    """Query a job without its damaged processes, which are reported.

    What the others were read for is kept where the job keeps it, so that asking again is quick.

    Args:
        job: with all of them.
        doing: what is shown to be going on.
        ask: called again with fewer processes each time that one cannot be read.
        fewest: processes to compare that it takes for an answer.

    Returns:
        The answer, the processes that it is about, and a sentence for each of the others.

    Raises:
        TraceFormatError: so few can be read; it is about the first that cannot.
    """
    messages = Messages()
    damaged: list[UnreadableProcessError] = []
    with messages.progress(doing):
        while True:
            try:
                found = ask(job)
                break
            except UnreadableProcessError as error:
                damaged.append(error)
                rest = [part for part in job.parts if part != error.part]
                if not rest or len(job.only(rest).compared) < fewest:
                    raise damaged[0] from error
                job = job.only(rest)
    left_out = tuple(f"{error.part} is excluded: {error.why}" for error in damaged)
    for line in left_out:
        messages.say(line)
    return found, job, left_out


def report_missing(
    job: Job, messages: Messages, incomplete: Sequence[Partition] | None = None
) -> None:
    """Which ranks are not there, and of which not all is; those are found out if not given."""
    if missing := job.missing_ranks():
        messages.say(f"{missing}: the job is incomplete")
    parts = job.incomplete() if incomplete is None else incomplete
    if parts:
        among = job.compared if {*parts} <= {*job.compared} else job
        messages.say(
            f"data of {parts_text(parts, len(among))} is missing: `opscope ranks --ask losses` "
            "lists it"
        )
