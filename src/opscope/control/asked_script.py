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
            with contextlib.suppress(ValueError, AttributeError):
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
    with contextlib.suppress(BaseException):  # nothing is printed in a program that did not ask
        for request, search in _requests():
            if _listen(request, search):
                return


def _listen(request: str, search: list[str]) -> bool:
    modules = BorrowedModules(search)
    try:
        modules.lend()
        from opscope.control.server import listen_while_asked

        listen_while_asked(modules)
    except BaseException as error:
        _say(request, f"{type(error).__name__}: {error}")
        modules.take_back()
        return False
    return True


def _requests() -> list[Request]:
    """Those for this process that are still waited for, with where to look for modules."""
    folder = f"/tmp/opscope-{os.getuid()}"
    try:
        _check(os.lstat(folder), 0o040000)
        names = os.listdir(folder)
    except OSError:
        return []
    found = []
    for name in names:
        process, asked, asker = name.partition(".asked-")
        if process == str(os.getpid()) and asked and asker.isdecimal():
            with contextlib.suppress(OSError, ValueError):  # somebody's who has just given up
                found += _read(f"{folder}/{name}", int(asker))
    return found


def _read(path: str, asker: int) -> list[Request]:
    """A request, if it is one that is still waited for; nothing of the program's takes part."""
    import time

    opened = os.open(path, os.O_RDONLY | os.O_NOFOLLOW | os.O_NONBLOCK)
    with open(opened, "rb") as file:
        _check(os.fstat(opened), 0o100000)
        until_ns, *search = file.read().split(b"\0")
    with contextlib.suppress(PermissionError):
        os.kill(asker, 0)
    return [(path, [*map(os.fsdecode, search)])] if time.monotonic_ns() < int(until_ns) else []


def _check(there: os.stat_result, kind: int) -> None:
    """Refuse what others could have put there."""
    is_private = there.st_mode & 0o170000 == kind and not there.st_mode & 0o077
    if not is_private or there.st_uid not in (os.getuid(), 0):
        raise PermissionError


def _say(request: str, text: str) -> None:
    """To whoever asked; nothing is printed in a program that did not ask for us."""
    with contextlib.suppress(OSError):
        os.stat(request)  # whoever asked may have given up
        flags = os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_NOFOLLOW
        with open(os.open(f"{request}.failed", flags, 0o600), "w", encoding="utf-8") as file:
            file.write(text)


with contextlib.suppress(RuntimeError):  # no thread to spare: as if it had not been asked
    _thread.start_new_thread(_listen_if_asked, ())
