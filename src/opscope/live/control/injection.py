"""Makes a process listen that never imported opscope, with ``sys.remote_exec`` of Python 3.14.

``sys.remote_exec`` passes the name of a file, which the main thread of the other interpreter runs
at the next safe moment. That may be much later, and cannot be cancelled. So the file
(``injected_script.py``) needs a link, in a folder that only the other process's user can enter, and
the client removes the link. A debugger is no alternative: it would call functions while the process
holds locks that they need.
"""

from __future__ import annotations

import contextlib
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opscope.errors import ReachError
from opscope.launch.process_end import is_there, state_of
from opscope.live.control.address import (
    Address,
    address_of,
    opened_folder,
    owner_of,
    remove_if_stale,
)
from opscope.live.control.client import ANSWER_S, ControlClient, connect, why_silent

_LISTENING_S = 10.0
_SCRIPT = Path(__file__).with_name("injected_script.py")


def reach(process: int) -> ControlClient:
    """Connect to a process; if it does not listen, let it listen while clients are connected.

    Raises:
        ReachError: the process cannot be reached.
    """
    execute: Callable[[int, str], None] | None = getattr(sys, "remote_exec", None)
    address = address_of(process)
    if address is not None:
        try:
            return connect(process)
        except ReachError:
            if execute is None or not _is_gone(address):
                raise
    if execute is not None and is_there(process):
        _make_listen(process, execute)
    return connect(process)


def _is_gone(address: Address) -> bool:
    """Whether the socket is stale: the listener ended, or another process had this id."""
    remove_if_stale(address)
    return address_of(address.process) is None


def _make_listen(process: int, execute: Callable[[int, str], None]) -> None:
    user = owner_of(process)
    _check_readable(process, user)
    with _request(process, os.getuid() if user is None else user):
        try:
            execute(process, str(_SCRIPT))
        except (OSError, RuntimeError, ValueError) as error:
            if not is_there(process):
                raise _has_ended(process) from error
            raise ReachError(
                f"opscope cannot make process {process} listen: {error}. This needs the "
                "version of Python that the process has, and permission to trace the process. "
                "Otherwise start the process with OPSCOPE_CONTROL=1."
            ) from error
        _wait_until_it_listens(process)


@contextlib.contextmanager
def _request(process: int, user: int) -> Iterator[None]:
    """A link that requests listening and contains opscope's path; removed afterwards."""
    folder, opened = opened_folder(user)
    name = f"{process}.request"
    try:
        with contextlib.suppress(FileNotFoundError):
            os.unlink(name, dir_fd=opened)  # left by a client that was killed
        os.symlink(Path(__file__).resolve().parents[2], name, dir_fd=opened)
        yield
    except OSError as error:
        raise ReachError(
            f"{folder} is not writable: {error.strerror or error}. Free space there, or start "
            "the program with OPSCOPE_CONTROL=1."
        ) from error
    finally:
        with contextlib.suppress(OSError):
            os.unlink(name, dir_fd=opened)
        os.close(opened)


def _wait_until_it_listens(process: int) -> None:
    began_s = time.monotonic()
    while address_of(process) is None:
        waited_s = time.monotonic() - began_s
        if not is_there(process):
            raise _has_ended(process)
        if waited_s > ANSWER_S and (why := why_silent(process)) is not None:
            raise ReachError(f"Process {process} does not answer within {ANSWER_S:g} s: {why}.")
        if waited_s > _LISTENING_S:
            raise ReachError(
                f"Process {process} did not start to listen within {_LISTENING_S:g} s: its main "
                f"thread {_state_text(process)}, or it cannot create a socket or a thread. "
                "Try again when it runs Python, or start it with OPSCOPE_CONTROL=1."
            )
        time.sleep(0.02)


def _has_ended(process: int) -> ReachError:
    return ReachError(f"Process {process} ended before it could listen.")


def _state_text(process: int) -> str:
    is_waiting = state_of(process) == "S"
    return "waits in C code" if is_waiting else "is in C code that does not return"


def _check_readable(process: int, user: int | None) -> None:
    """Raise ReachError unless the process's user can read opscope at this path."""
    visible_script = Path(f"/proc/{process}/root{_SCRIPT}")
    with contextlib.suppress(PermissionError):
        if not visible_script.exists() or not visible_script.samefile(_SCRIPT):
            raise ReachError(
                f"Process {process} is in a container without {_SCRIPT}. Run opscope in that "
                "container."
            )
    if user and not (
        _may(user, _SCRIPT, 0o4) and all(_may(user, folder, 0o1) for folder in _SCRIPT.parents)
    ):
        raise ReachError(
            f"The user of process {process} cannot read {_SCRIPT}. Install opscope in a folder "
            "that this user can read, or start the program with OPSCOPE_CONTROL=1."
        )


def _may(user: int, place: Path, bit: int) -> bool:
    """Whether the mode of ``place`` has the permission for the user, as owner or as other."""
    status = os.stat(place)
    return bool(status.st_mode & (bit << 6 if status.st_uid == user else bit))
