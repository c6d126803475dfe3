"""The watchdog process after the program: it recovers an unfinished recording, and beside it while
one is long."""

from __future__ import annotations

import errno
import select
import socket
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from pathlib import Path

from opscope.cli.session.recover import recover_all
from opscope.cli.views.console import Messages
from opscope.errors import OpscopeError
from opscope.launch.keeper_process import DONE, NO_ROOM, is_unfinished
from opscope.live.recovery import recover_ended
from opscope.recording.streams.trace_request import EndRequest

_BETWEEN_LOOKS_S = 0.05


def finish(folder: str, owner: str, how: str) -> None:
    """Recover what a process left in ``folder``, and say where it is."""
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
    """Do what the program asks for through ``pipe``, and say there that it is done."""
    requests = socket.socket(fileno=int(pipe))
    with requests.makefile(encoding="utf-8") as lines:
        text = lines.readline()
    if not text.endswith("\n"):  # it was killed in the middle of asking
        return finish(folder, owner, "")
    from opscope.cli.session.end_of_run import end_of_run as do

    do(EndRequest.from_text(text), Messages(animated=False))
    with suppress(OSError):  # the program has left
        requests.send(DONE, socket.MSG_NOSIGNAL)


def job(folder: str) -> None:
    """Recover what the processes of a job have left; what cannot be stays for ``opscope doctor
    --recover``.

    To watch costs nothing, but a keeper that comes late does not see how processes ended.
    """
    recover_ended(Path(folder))


def drain(pidfd: str, *files: str) -> None:
    """Move what a process records from its file to segments, until it has ended or stopped."""
    from opscope.recording.recovered import drain_while

    poll = select.poll()
    poll.register(int(pidfd), select.POLLIN)

    def goes_on() -> bool:
        return not poll.poll(int(_BETWEEN_LOOKS_S * 1000))

    for file in files:
        try:
            drain_while(Path(file), goes_on)
        except (OpscopeError, OSError) as error:  # recovering it says what is wrong
            if _is_of_a_full_disk(error):
                sys.exit(NO_ROOM)


def _is_of_a_full_disk(error: BaseException | None) -> bool:
    while error is not None:
        if isinstance(error, OSError) and error.errno in (errno.ENOSPC, errno.EDQUOT):
            return True
        error = error.__cause__ or error.__context__
    return False


_BECOMES: Mapping[str, Callable[..., None]] = {
    "finish": finish,
    "drain": drain,
    "end_of_run": end_of_run,
    "job": job,
}

if __name__ == "__main__":
    _BECOMES[sys.argv[1]](*sys.argv[2:])
