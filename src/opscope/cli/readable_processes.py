"""Answers about all processes of a job that can be read."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Generic, TypeVar

from opscope.cli.console import Messages
from opscope.errors import UnreadableProcessError
from opscope.job.job import Job

_Found = TypeVar("_Found")


@dataclass(frozen=True)
class Answer(Generic[_Found]):
    """What was asked, of which processes.

    Attributes:
        job: those that it is about.
        found: the answer.
        left_out: a sentence for each of the others.
    """

    job: Job
    found: _Found
    left_out: tuple[str, ...]


def of_readable(
    job: Job, doing: str, ask: Callable[[Job], _Found], fewest: int = 1
) -> Answer[_Found]:
    """Ask a job without those of its processes that turn out to be damaged, which is said.

    What the others were read for is kept where the job keeps it, so that asking again is quick.

    Args:
        job: with all of them.
        doing: what is shown to be going on.
        ask: called again with fewer processes each time that one cannot be read.
        fewest: processes to compare that it takes for an answer.

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
    left_out = tuple(f"{error.part} is left out: {error.why}" for error in damaged)
    for line in left_out:
        messages.say(line)
    return Answer(job, found, left_out)
