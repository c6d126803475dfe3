"""What another program's interpreter runs when it is asked to listen (``sys.remote_exec``).

It runs where that program happens to be, maybe long after whoever asked has given up. So it does
nothing but with a request that is still waited for, and that nobody but this user and root can have
put there. It works in a thread of its own: an interruption of the program is not raised in here,
and the program does not wait for modules to be imported. It stays where it is installed, as what is
asked of an interpreter cannot be taken back.
"""

import _thread
import contextlib
import os
import sys

Request = tuple[str, list[str]]


class BorrowedModules:
    """Finds opscope where whoever asks has it, and what it takes where the program has none.

    Only for threads of ours: what others import stays what it was.
    """

    def __init__(self, search: list[str]) -> None:
        from importlib.machinery import PathFinder

        self._find = PathFinder.find_spec
        self._search = search
        self._threads = {_thread.get_ident()}
        self._last = _LastFinder(self)

    def lend(self) -> None:
        """From now on."""
        sys.meta_path.insert(0, self)  # type: ignore[arg-type]
        sys.meta_path.append(self._last)  # type: ignore[arg-type]

    def lend_to(self, thread: int) -> None:
        """To one more thread, by its identifier."""
        self._threads.add(thread)

    def take_back(self) -> None:
        """From now on no more."""
        for finder in (self, self._last):
            with contextlib.suppress(ValueError):
                sys.meta_path.remove(finder)  # type: ignore[arg-type]

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """That of opscope, before all others."""
        return self.find(name) if name == "opscope" else None

    def find(self, name: str) -> object:
        """What whoever asks has; None for parts of what was found, which need no help."""
        if "." in name or _thread.get_ident() not in self._threads:
            return None
        return self._find(name, self._search)


class _LastFinder:
    """What no other finder has found."""

    def __init__(self, modules: BorrowedModules) -> None:
        self._modules = modules

    def find_spec(self, name: str, path: object = None, target: object = None) -> object:
        """What it takes where the program has none."""
        return self._modules.find(name)


def _listen_if_asked() -> None:
    try:
        for request, search in _requests():
            _listen(request, search)
            return
    except (OSError, ValueError, TypeError, KeyError):  # there is no request, or none to be read
        pass


def _listen(request: str, search: list[str]) -> None:
    modules = BorrowedModules(search)
    modules.lend()
    try:
        from opscope.control.server import listen_while_asked

        listen_while_asked(modules)
    except BaseException as error:
        modules.take_back()
        _say(request, f"{type(error).__name__}: {error}")


def _requests() -> list[Request]:
    """Those for this process that are still waited for, with where to look for modules."""
    import json
    import time

    folder = f"/tmp/opscope-{os.getuid()}"
    _check(os.lstat(folder), 0o040000)
    found = []
    for name in os.listdir(folder):
        if not name.startswith(f"{os.getpid()}.asked-") or name.endswith(".failed"):
            continue
        path = f"{folder}/{name}"
        opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
        with open(opened, encoding="utf-8") as file:
            _check(os.fstat(opened), 0o100000)
            said = json.load(file)
        if time.monotonic_ns() < said["until_ns"]:
            found.append((path, [str(place) for place in said["search"]]))
    return found


def _check(there: os.stat_result, kind: int) -> None:
    """Refuse what others could have put there."""
    is_private = there.st_mode & 0o170000 == kind and not there.st_mode & 0o077
    if not is_private or there.st_uid not in (os.getuid(), 0):
        raise PermissionError


def _say(request: str, text: str) -> None:
    """To whoever asked; nothing is printed in a program that did not ask for us."""
    with contextlib.suppress(OSError):
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(f"{request}.failed", flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)


with contextlib.suppress(RuntimeError):  # no thread to spare: as if it had not been asked
    _thread.start_new_thread(_listen_if_asked, ())
