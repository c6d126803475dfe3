"""Starts the process that writes a dump from a snapshot of the ring."""

from __future__ import annotations

import contextlib
import json
import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from shlex import quote
from typing import Any

import opscope._native as _native
from opscope.base.artefacts import at, in_use, is_free, new_name
from opscope.base.daemon_thread import let_others_run
from opscope.base.files import remove_inside
from opscope.base.notice import notice
from opscope.base.python_process import made_of, own_python
from opscope.live.flight.dump_request import SPOOL_PREFIX, TRACE_SUFFIX, Reason, is_complete
from opscope.live.flight.write_dump import place_of

_START_WRITER = str(Path(__file__).with_name("start_writer.py"))


class Dumps:
    """Dumps of one recorder, finished and unfinished."""

    def __init__(self, directory: Path) -> None:
        self.directory = directory
        self._process = os.getpid()
        self._started: list[Path] = []
        self._failed: list[Path] = []
        self._writer: list[str] = []
        self._writer_of: tuple[str, ...] = ()

    def spool(self) -> Path:
        """Path of a new spool, which is not created yet."""
        # The number distinguishes dumps of one second.
        path = self.directory / new_name(SPOOL_PREFIX, _native.new_number())
        self._started.append(path)
        return path

    def command(self, spool: Path) -> list[str]:
        """Command that makes the trace of a spool; empty if no process can be started."""
        # Listing the folders of modules takes 0.2 ms, and each rotation of the ring needs it.
        if self._writer_of != (now := made_of()):
            self._writer, self._writer_of = [], now
            with contextlib.suppress(OSError):
                self._writer = own_python(_START_WRITER)
        return [*self._writer, str(spool)] if self._writer else []

    def write(
        self,
        watch: _native.Watch,
        window: int,
        facts: Callable[[], dict[str, Any]],
        places: bytes,
        reason: Reason,
    ) -> Path:
        """Write the records of ``window``, and start the process that makes the trace.

        Releases the GIL between the parts, for the program's threads.
        """
        spool = self.spool()
        spool.mkdir(mode=0o700, parents=True)
        let_others_run()
        try:
            with in_use(spool):
                stacks = _native.python_stacks(_names_of_threads())
                let_others_run()
                known_facts = facts()
                let_others_run()
                text, why = json.dumps(known_facts), reason.as_json()
                _check(watch.write_spool_files(window, str(spool), text, why, places, stacks))
            let_others_run()
            self._hand_over(spool)
        except BaseException:
            self._started.remove(spool)
            self._failed.append(spool)
            self._remove_failed()
            raise
        return place_of(spool, reason, self._process)

    def _hand_over(self, spool: Path) -> None:
        error = _native.hand_to_writer(self.command(spool))
        if error and is_complete(spool):
            notice(
                f"the trace of a dump was not written ({os.strerror(error)}). Write it with: "
                f"opscope doctor --recover {quote(str(self.directory))}"
            )
        else:
            _check(error)

    def arm(self, watch: _native.Watch, spool: Path, facts: dict[str, Any], places: bytes) -> None:
        """Give the native watch all data for a dump, which it can then write without Python."""
        let_others_run()
        watch.arm(str(spool), json.dumps(facts), places, self.command(spool))

    def written(self, process: int | None = None) -> list[Path]:
        """Traces of a process (default: this one), oldest first."""
        return sorted(self.directory.glob(f"*-{process or self._process}-*{TRACE_SUFFIX}"))

    def count_under_way(self, process: int) -> int:
        """Number of unfinished dumps of a process."""
        return len(list(self.directory.glob(f"{SPOOL_PREFIX}{process}-*")))

    def wait(self, timeout_s: float) -> list[Path]:
        """Wait until no dump is being written; returns the remaining spools."""
        self._remove_failed()
        until_s = time.monotonic() + timeout_s
        while len(self.left()) < len(self._spools()) and time.monotonic() < until_s:
            time.sleep(0.02)
        return self._spools()

    def left(self) -> list[Path]:
        """Spools whose traces no process makes."""
        artefacts = ((spool, at(spool)) for spool in self._spools())
        return [spool for spool, one in artefacts if one is not None and is_free(one)]

    def _remove_failed(self) -> None:
        """Remove spools that failed. If too many files are open, a later call removes them."""
        for spool in self._failed:
            remove_inside(self.directory, spool.name)
        self._failed = [spool for spool in self._failed if spool.exists()]

    def _spools(self) -> list[Path]:
        return [spool for spool in self._started if spool.exists()]


def _names_of_threads() -> dict[int, str]:
    """Thread names by ``ident``; without properties, which subclasses override."""
    names = {thread.ident: vars(thread).get("_name") for thread in threading.enumerate()}
    return {
        ident: name.encode(errors="replace").decode()
        for ident, name in names.items()
        if ident is not None and type(name) is str
    }


def _check(error: int) -> None:
    if error:
        raise OSError(error, os.strerror(error))
