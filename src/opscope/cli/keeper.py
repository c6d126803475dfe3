"""What the keeper becomes when a program has left a recording unfinished."""

from __future__ import annotations

from pathlib import Path

from opscope.cli.console import Messages
from opscope.cli.recover import recover_all
from opscope.errors import OpscopeError


def finish(folder: str, process: str, how: str) -> None:
    """Recover what ``process`` left in ``folder``, and say where it is."""
    messages = Messages(animated=False)
    try:
        recover_all(Path(folder), messages, int(process), how)
    except OpscopeError as error:
        messages.fail(str(error))
    except Exception as error:
        messages.fail(
            f"The recording in {folder} could not be recovered: {error}. Try `opscope recover "
            f"{folder}`."
        )
