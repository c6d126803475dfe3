"""Having a process listen that never imported opscope: through its own interpreter, from 3.14 on.

``sys.remote_exec`` leaves the name of a file with the other interpreter, whose main thread runs it
at the next moment that is safe for that, which may be long after; it cannot be taken back. So the
file is one of opscope's own (``asked_script.py``), and looks for a request beside it, which is
taken back: a file in a folder that only the other process's user can enter. Debuggers can call
functions in a process at any moment, also while it holds locks that these functions need, so they
are not used.
"""

from __future__ import annotations

import contextlib
import importlib.util
import os
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

from opscope.control.address import Address, address_of, opened_folder, owner_of, remove_if_stale
from opscope.control.client import ANSWER_S, Asking, connect, why_silent
from opscope.errors import ReachError
from opscope.running_process import is_there, state_of

_LISTENING_S = 10.0
_SCRIPT = Path(__file__).with_name("asked_script.py")
_FAILED = ".failed"


def reach(process: int) -> Asking:
    """A connection to a process, which is asked to listen for as long as it is asked, if it does
    not.

    Raises:
        ReachError: it cannot be reached in any way.
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
        _have_it_listen(process, execute)
    return connect(process)


def _is_gone(address: Address) -> bool:
    """Whether its process has just ended to listen, or another had its number that never did."""
    remove_if_stale(address)
    return address_of(address.process) is None


def _have_it_listen(process: int, execute: Callable[[int, str], None]) -> None:
    _check_that_it_can_read(process)
    with _request(process) as request:
        try:
            execute(process, str(_SCRIPT))
        except (OSError, RuntimeError, ValueError) as error:
            if not is_there(process):
                raise ReachError(
                    f"Process {process} has ended before it could be asked."
                ) from error
            raise ReachError(
                f"Process {process} cannot be asked to listen: {error}. Its Python has to be of "
                "this version, and this user has to be allowed to trace it; or start it with "
                "OPSCOPE_CONTROL=1."
            ) from error
        _wait_until_it_listens(process, request)


@contextlib.contextmanager
def _request(process: int) -> Iterator[Path]:
    """A file that says that the process is to listen, and until when; taken back afterwards."""
    owner = owner_of(process)
    user = os.getuid() if owner is None else owner
    folder, opened = opened_folder(user)
    request = folder / f"{process}.asked-{os.getpid()}"
    try:
        _remove_forgotten(opened)
        _remove(opened, request.name)  # of an earlier process that had this number
        _write(opened, request, user)
        yield request
    finally:
        _remove(opened, request.name)
        os.close(opened)


def _write(opened: int, request: Path, user: int) -> None:
    until_ns = time.monotonic_ns() + int(_LISTENING_S * 1e9)
    flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
    try:
        file = os.open(request.name, flags, 0o600, dir_fd=opened)
        with open(file, "wb") as request_file:
            request_file.write(b"\0".join((b"%d" % until_ns, *_where_modules_are())))
            os.fchown(file, user, -1)
    except OSError as error:
        raise ReachError(
            f"Nothing can be written to {request.parent}: {error.strerror or error}. Make room "
            "there, or start the program with OPSCOPE_CONTROL=1."
        ) from error


def _remove(folder: int, name: str) -> None:
    for each in (name, name + _FAILED):
        with contextlib.suppress(OSError):
            os.unlink(each, dir_fd=folder)


def _remove_forgotten(folder: int) -> None:
    """Requests of those that were killed while they waited."""
    for name in os.listdir(folder):
        asker = name.removesuffix(_FAILED).partition(".asked-")[2]
        if asker.isdecimal() and not is_there(int(asker)):
            with contextlib.suppress(OSError):
                os.unlink(name, dir_fd=folder)


def _where_modules_are() -> list[bytes]:
    """The folders that have opscope and what recording needs."""
    found = [str(Path(__file__).resolve().parents[2])]
    numpy = importlib.util.find_spec("numpy")
    if numpy is not None and numpy.origin is not None:
        found.append(str(Path(numpy.origin).resolve().parents[1]))
    return [os.fsencode(place) for place in dict.fromkeys(found)]


def _wait_until_it_listens(process: int, request: Path) -> None:
    began_s = time.monotonic()
    while address_of(process) is None:
        waited_s = time.monotonic() - began_s
        with contextlib.suppress(OSError):
            said = Path(f"{request}{_FAILED}").read_text(encoding="utf-8")
            raise ReachError(
                f"Process {process} was asked to listen and cannot: {said}. Start it with "
                "OPSCOPE_CONTROL=1."
            )
        if not is_there(process):
            raise ReachError(f"Process {process} has ended before it could be asked.")
        if waited_s > ANSWER_S and (why := why_silent(process)) is not None:
            raise ReachError(f"Process {process} does not answer within {ANSWER_S:g} s: {why}.")
        if waited_s > _LISTENING_S:
            raise ReachError(
                f"Process {process} was asked to listen and does not within {_LISTENING_S:g} s: "
                f"its main thread, which is the one that is asked, {_what_it_does(process)}. Ask "
                "again when it runs Python, or start it with OPSCOPE_CONTROL=1."
            )
        time.sleep(0.02)


def _what_it_does(process: int) -> str:
    is_waiting = state_of(process) == "S"
    return "waits in C code for something" if is_waiting else "is in C code that does not return"


def _check_that_it_can_read(process: int) -> None:
    """Whether its user may read opscope, and finds it at this place.

    Raises:
        ReachError: not so; its interpreter would print an error of its own.
    """
    seen = Path(f"/proc/{process}/root{_SCRIPT}")
    with contextlib.suppress(PermissionError):
        if not seen.exists() or not seen.samefile(_SCRIPT):
            raise ReachError(
                f"Process {process} sees another file system, without {_SCRIPT}. It is in a "
                "container: use opscope there."
            )
    if not _may_read(process, _SCRIPT):
        raise ReachError(
            f"The user of process {process} cannot read {_SCRIPT}. Install opscope where everybody "
            "can read it, or start the program with OPSCOPE_CONTROL=1."
        )


def _may_read(process: int, path: Path) -> bool:
    """By the modes of a file and its folders; True where the process cannot be looked at."""
    said: dict[str, list[int]] = {}
    with contextlib.suppress(OSError, ValueError):
        for line in Path(f"/proc/{process}/status").read_text().splitlines():
            name, _, values = line.partition(":")
            if name in ("Uid", "Gid", "Groups"):
                said[name] = [int(value) for value in values.split()]
    if "Uid" not in said or said["Uid"][1] == 0:
        return True
    user, groups = said["Uid"][1], {said["Gid"][1], *said.get("Groups", [])}
    needed = [(path, 0o4), *((folder, 0o1) for folder in path.parents)]
    return all(_is_allowed(os.stat(place), user, groups, bit) for place, bit in needed)


def _is_allowed(there: os.stat_result, user: int, groups: set[int], bit: int) -> bool:
    if there.st_uid == user:
        return bool(there.st_mode & bit << 6)
    return bool(there.st_mode & (bit << 3 if there.st_gid in groups else bit))
