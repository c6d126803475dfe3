"""Tasks of the keeper, each in its own process: output at the end, recovery, draining."""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path
from shlex import quote

from opscope.base.address import refuse_address
from opscope.base.artefacts import Artefact
from opscope.base.input_file import unreadable
from opscope.cli.views.completeness import describe_completeness, describe_dump, end_of_recording
from opscope.cli.views.console import Messages
from opscope.errors import OpscopeError, TraceFormatError
from opscope.launch.keeper_process import DONE, NO_ROOM, is_unfinished
from opscope.live.recovery import Rescued, left_in, recover_ended, rescue
from opscope.recording.streams.trace_request import EndRequest
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


_POLL_S = 0.05


def finish(folder: str, owner: str, how: str) -> None:
    """Make traces of the unfinished recordings of a process in ``folder``, and print the paths."""
    messages = Messages(animated=False)
    if not is_unfinished(owner, folder):
        return  # another keeper has done it
    try:
        recover_all(Path(folder), messages, owner, how)
    except OpscopeError as error:
        messages.fail(str(error))
    except Exception as error:
        messages.fail(
            f"The recording in {folder} could not be recovered: {error}. Try `opscope "
            f"doctor --recover {folder}`."
        )


def end_of_run(pipe: str, folder: str, owner: str) -> None:
    """Execute the program's request from ``pipe``, and reply there when it is done."""
    requests = socket.socket(fileno=int(pipe))
    with requests.makefile(encoding="utf-8") as lines:
        text = lines.readline()
    if not text.endswith("\n"):  # the program was killed while it sent the request
        return finish(folder, owner, "")
    from opscope.cli.session.end_of_run import end_of_run as write_output

    write_output(EndRequest.from_text(text), Messages(animated=False))
    with suppress(OSError):  # the program has left
        requests.send(DONE, socket.MSG_NOSIGNAL)


def job(folder: str) -> None:
    """Make traces of the recordings of ended processes; others stay for ``doctor --recover``."""
    recover_ended(Path(folder))


def drain(pidfd: str, *files: str) -> None:
    """Move records of a running process from its file to segments, until it ends or stops."""
    from opscope.recording.recovered import drain_while

    poll = select.poll()
    poll.register(int(pidfd), select.POLLIN)

    def keep_draining() -> bool:
        return not poll.poll(int(_POLL_S * 1000))

    for file in files:
        try:
            drain_while(Path(file), keep_draining)
        except (OpscopeError, OSError) as error:  # the recovery of the file will print the error
            if _is_disk_full(error):
                sys.exit(NO_ROOM)


def _is_disk_full(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


_TASKS: Mapping[str, Callable[..., None]] = {
    "finish": finish,
    "drain": drain,
    "end_of_run": end_of_run,
    "job": job,
}

if __name__ == "__main__":
    _TASKS[sys.argv[1]](*sys.argv[2:])
