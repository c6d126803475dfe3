"""The trace of a recording whose process ended before it was written."""

from __future__ import annotations

from pathlib import Path
from shlex import quote

from opscope.base.address import refuse_address
from opscope.base.artefacts import Artefact
from opscope.base.input_file import unreadable
from opscope.cli.views.completeness import describe_completeness, describe_dump, end_of_recording
from opscope.cli.views.console import Messages
from opscope.errors import OpscopeError, TraceFormatError
from opscope.live.recovery import Rescued, left_in, rescue
from opscope.storage.store import remove_begun


def recover_all(folder: Path, messages: Messages, owner: str | None = None, how: str = "") -> None:
    """Recover what is unfinished in ``folder``, of one process or of all, and say so.

    What was recorded lies in a hidden file in the folder; it becomes the usual trace, and the file
    is removed. In a folder of dumps of a flight recorder, those that were not finished become
    traces.
    """
    refuse_address(folder)
    remove_begun(folder)
    try:
        found = list(left_in(folder, owner))
    except OSError as refused:
        raise unreadable(folder, refused) from refused
    if not found:
        raise TraceFormatError(
            f"There is no unfinished recording in {folder}. If it contains a trace, that is "
            "complete: show it with `opscope summary`."
        )
    failures = [error for one in found if (error := _recover_one(one, messages, how)) is not None]
    if len(failures) == len(found):
        raise failures[-1]
    for error in failures:
        messages.fail(str(error))


def _recover_one(one: Artefact, messages: Messages, how: str) -> OpscopeError | None:
    try:
        with messages.progress(f"recovering {one.path}"):
            made = rescue(one, how)
    except OpscopeError as error:
        return error
    if made is not None:
        _say(made, messages)
    return None


def _say(made: Rescued, messages: Messages) -> None:
    trace, saved = made.trace, made.folder
    if made.is_dump:
        messages.say(describe_dump(trace))
    for line in end_of_recording(trace):
        messages.say(line)
    if not made.is_dump:
        messages.say(describe_completeness(trace, int(trace.ledger["events"]["recorded"])))
    messages.say(f"{'dump' if made.is_dump else 'trace'} written to {saved}")
    messages.say(f"details: `opscope summary {quote(str(saved))}`")
