"""Queries on the readable processes of a job, and notes on missing ones."""

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
    job: Job, doing: str, query: Callable[[Job], _Found], fewest: int = 1
) -> tuple[_Found, Job, tuple[str, ...]]:
    """Query a job without its damaged processes, which are printed.

    Args:
        job: the job with all processes.
        doing: text of the progress.
        query: called again, with fewer processes, if a process cannot be read. The job caches what
            it has read, so repeated calls are fast.
        fewest: minimum number of processes to compare.

    Returns:
        The result, its processes, and a sentence for each excluded process.

    Raises:
        TraceFormatError: too few processes can be read; the error is that of the first damaged one.
    """
    messages = Messages()
    damaged: list[UnreadableProcessError] = []
    with messages.progress(doing):
        while True:
            try:
                result = query(job)
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
    return result, job, left_out


def report_missing(
    job: Job, messages: Messages, incomplete: Sequence[Partition] | None = None
) -> None:
    """Print missing ranks, and processes with missing data; ``incomplete`` None: find these."""
    if missing := job.missing_ranks():
        messages.say(f"{missing}: the job is incomplete")
    parts = job.incomplete() if incomplete is None else incomplete
    if parts:
        among = job.compared if {*parts} <= {*job.compared} else job
        messages.say(
            f"data of {parts_text(parts, len(among))} is missing: `opscope ranks --ask losses` "
            "lists it"
        )
