"""What the keeper becomes: when a program has left a recording unfinished, and beside it while one
is long."""

from __future__ import annotations

import errno
import select
import sys
from pathlib import Path

from opscope.cli.console import Messages
from opscope.cli.recover import recover_all
from opscope.errors import OpscopeError
from opscope.launch.keeper_process import NO_ROOM, is_unfinished

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
            f"The recording in {folder} could not be recovered: {error}. Try `opscope recover "
            f"{folder}`."
        )


def drain(pidfd: str, *files: str) -> None:
    """Move what a process records from its file to segments, until it has ended or stopped."""
    from opscope.recording.drain import drain_while

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


if __name__ == "__main__":
    (finish if sys.argv[1] == "finish" else drain)(*sys.argv[2:])
