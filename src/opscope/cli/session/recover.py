"""Makes traces of recordings whose processes ended before these were written."""

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
    """Make traces of the unfinished recordings and dumps in ``folder``, and print the results.

    ``owner``: only those of one process.
    """
    refuse_address(folder)
    remove_begun(folder)
    try:
        artefacts = list(left_in(folder, owner))
    except OSError as refused:
        raise unreadable(folder, refused) from refused
    if not artefacts:
        raise TraceFormatError(
            f"There is no unfinished recording in {folder}. If it contains a trace, that is "
            "complete: show it with `opscope summary`."
        )
    failures = [e for a in artefacts if (e := _recover_one(a, messages, how)) is not None]
    if len(failures) == len(artefacts):
        raise failures[-1]
    for error in failures:
        messages.fail(str(error))


def _recover_one(artefact: Artefact, messages: Messages, how: str) -> OpscopeError | None:
    try:
        with messages.progress(f"recovering {artefact.path}"):
            rescued = rescue(artefact, how)
    except OpscopeError as error:
        return error
    if rescued is not None:
        _print_result(rescued, messages)
    return None


def _print_result(rescued: Rescued, messages: Messages) -> None:
    trace, saved = rescued.trace, rescued.folder
    if rescued.is_dump:
        messages.say(describe_dump(trace))
    for line in end_of_recording(trace):
        messages.say(line)
    if not rescued.is_dump:
        messages.say(describe_completeness(trace, int(trace.ledger["events"]["recorded"])))
    messages.say(f"{'dump' if rescued.is_dump else 'trace'} written to {saved}")
    messages.say(f"details: `opscope summary {quote(str(saved))}`")
