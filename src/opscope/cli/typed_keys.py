"""Keys that somebody types while a command shows something live."""

from __future__ import annotations

import contextlib
import os
import select
import termios
import time
import tty
from types import TracebackType
from typing import Any


class TypedKeys:
    """Of a terminal, each as it is typed; where there is no terminal, none ever are.

    Ctrl-C stays what it is. The terminal is left as it was.
    """

    def __init__(self, file: int = 0) -> None:
        self._file = file
        self._before: list[Any] | None = None

    def wait_for(self, keys: bytes, seconds: float) -> bool:
        """Wait for so long; True as soon as one of ``keys`` is typed, or the terminal is gone."""
        until_s = time.monotonic() + seconds
        while self._before is not None and (left_s := until_s - time.monotonic()) > 0:
            if not select.select([self._file], [], [], left_s)[0]:
                return False
            typed = b""
            with contextlib.suppress(OSError):
                typed = os.read(self._file, 100)
            if not typed or set(typed) & set(keys):
                return True
        time.sleep(max(until_s - time.monotonic(), 0))
        return False

    def __enter__(self) -> TypedKeys:
        with contextlib.suppress(OSError, termios.error):
            # A command in the background that changed the terminal would be stopped.
            if os.tcgetpgrp(self._file) == os.getpgrp():
                self._before = termios.tcgetattr(self._file)
                tty.setcbreak(self._file, termios.TCSANOW)
        return self

    def __exit__(
        self,
        kind: type[BaseException] | None,
        error: BaseException | None,
        traceback: TracebackType | None,
    ) -> None:
        if self._before is not None:
            with contextlib.suppress(OSError, termios.error):
                termios.tcsetattr(self._file, termios.TCSANOW, self._before)
            self._before = None
