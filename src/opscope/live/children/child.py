"""The recording of a started or forked process; other processes make the trace.

All events are in a file. Making the trace here would delay the end of this process, so the first
process of the job makes it, or the keeper.
"""

from __future__ import annotations

import atexit
import os
import sys
from contextlib import suppress
from importlib.abc import MetaPathFinder
from pathlib import Path
from typing import Any

from opscope.launch.torch_import import when_imported
from opscope.live.children.own_recording import OwnRecording, recording_factory
from opscope.live.children.settings import ChildSettings
from opscope.live.children.start_hook.opscope_children import ANCESTOR_WITH_RANK, note
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.streams.stream import Streams
from opscope.storage.processes import reserve_number
from opscope.torch_api.drop_in.install import install_and_answer

_FINALIZERS_LAST = -1000
"""Exit priority in children of multiprocessing: after all others."""


def expect_torch(folder: str) -> MetaPathFinder | None:
    """Record this process once torch is imported; returns the finder that waits for torch."""
    child = ChildRecording(ChildSettings.read(Path(folder)))
    when_imported("torch", child.begin)
    finder = sys.meta_path[0]
    return finder if isinstance(finder, MetaPathFinder) else None


def own_rank() -> int | None:
    """The rank that a launcher gave to this process itself, not to an ancestor."""
    rank = launched_rank()
    return None if str(rank) == os.environ.get(ANCESTOR_WITH_RANK) else rank


def take_rank(rank: int | None) -> None:
    """Mark the rank as taken: child processes inherit the variable, but are not that rank."""
    if rank is not None:
        os.environ[ANCESTOR_WITH_RANK] = str(rank)


class ChildRecording:
    """Records this process and, after a fork, the new one."""

    def __init__(self, settings: ChildSettings) -> None:
        self._settings = settings
        self._new_recording = recording_factory(settings)
        self._recording: OwnRecording | None = None
        self._inherited: OwnRecording | None = None
        self._process = 0
        self._follows_forks = False

    def begin(self) -> None:
        """Start recording once torch is imported. Errors are noted in the journal, not raised."""
        try:
            self._begin(own_rank())
        except Exception as error:
            self._note_refusal(error)

    def follow_forks(self) -> None:
        """Record processes forked from this one, from their start."""
        if not self._follows_forks:
            self._follows_forks = True
            os.register_at_fork(after_in_child=self._forked)

    def end(self) -> None:
        """Stop; a trace is made here only if its data is in this process's memory alone."""
        recording = self._recording
        if recording is None or self._process != os.getpid():
            return
        self._recording = None
        with suppress(Exception):
            recording.stop()
            note(str(self._settings.folder), "ended", how="ended by itself")

    def _begin(self, rank: int | None) -> None:
        settings = self._settings
        if not settings.folder.is_dir():  # removed: the program must not create it again
            return
        if settings.drop_in:
            install_and_answer()
        self._process = os.getpid()
        number = reserve_number(settings.folder, os.getpid()) if rank is None else None
        recording = self._new_recording(self._streams(rank, number), self._note_refusal)
        recording.start()
        self._recording = recording
        part = {"part": number} if rank is None else {"rank": rank}
        note(str(settings.folder), "recording", **part)
        take_rank(rank)
        atexit.register(self.end)
        self._end_with_multiprocessing()
        self.follow_forks()

    def _streams(self, rank: int | None, number: int | None) -> Streams:
        settings = self._settings
        return Streams(
            settings.folder,
            by_cycle=settings.has_cycles,
            max_disk_bytes=settings.max_disk_bytes,
            keeper=False,
            saves=False,
            rank=rank,
            process=number,
        )

    def _forked(self) -> None:
        # Keep a reference, so that the parent's recording is not ended.
        self._inherited, self._recording = self._recording, None
        try:
            self._begin(None)
        except Exception as error:
            self._note_refusal(error)

    def _note_refusal(self, error: Exception) -> None:
        note(str(self._settings.folder), "refused", why=str(error))

    def _end_with_multiprocessing(self) -> None:
        """Register the end for children of multiprocessing, which exit by ``os._exit``."""
        util: Any = sys.modules.get("multiprocessing.util")
        if util is not None:
            util.register_after_fork(self, _finalize_last)


def _finalize_last(child: ChildRecording) -> None:
    util: Any = sys.modules["multiprocessing.util"]
    util.Finalize(None, child.end, exitpriority=_FINALIZERS_LAST)
