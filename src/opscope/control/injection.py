"""Having a process listen that never imported opscope: through its own interpreter, from 3.14 on.

``sys.remote_exec`` leaves the name of a file with the other interpreter, which runs it at the next
moment that is safe for that. Debuggers can call functions in a process at any moment, also while it
holds locks that these functions need, so they are not used.
"""

from __future__ import annotations

import os
import sys
import tempfile
import time
from pathlib import Path

from opscope.control.address import address_of
from opscope.control.client import Asking, connect
from opscope.errors import ReachError
from opscope.running_process import is_there

_LISTENING_S = 10.0

_SCRIPT = """
import sys
_before = list(sys.path)
sys.path[:] = {search!r}
try:
    from opscope.control.at_import import listen_if_possible
finally:
    sys.path[:] = _before
listen_if_possible()
"""


def reach(process: int) -> tuple[Asking, bool]:
    """A connection to a process, which is asked to listen if it does not; and whether it was.

    Raises:
        ReachError: it cannot be reached in any way.
    """
    if address_of(process) is not None or not is_there(process):
        return connect(process), False
    execute = getattr(sys, "remote_exec", None)
    if execute is None:
        return connect(process), False  # which says what to do
    with tempfile.TemporaryDirectory(prefix="opscope-") as folder:
        script = Path(folder, "listen.py")
        script.write_text(_SCRIPT.format(search=[os.path.abspath(one) for one in sys.path]))
        try:
            execute(process, str(script))
        except (OSError, RuntimeError, ValueError) as error:
            raise ReachError(
                f"Process {process} cannot be asked to listen: {error}. Its Python has to be of "
                "this version, and this user has to be allowed to trace it; or start it with "
                "OPSCOPE_CONTROL=1."
            ) from error
        _wait_until_it_listens(process)
    return connect(process), True


def _wait_until_it_listens(process: int) -> None:
    until_s = time.monotonic() + _LISTENING_S
    while address_of(process) is None:
        if time.monotonic() > until_s or not is_there(process):
            raise ReachError(
                f"Process {process} was asked to listen and does not within {_LISTENING_S:g} s: "
                "its Python comes to no point where it could. Ask again when it runs Python."
            )
        time.sleep(0.02)
