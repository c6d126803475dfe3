"""The recording of a started or forked process; other processes make the trace.

All events are in a file. Making the trace here would delay the end of this process, so the first
process of the job makes it, or the keeper.
"""

from __future__ import annotations

import atexit
import json
import os
import sys
from collections.abc import Callable, Mapping
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from functools import partial
from pathlib import Path
from typing import Any, Protocol, TypeAlias

from opscope.base.artefacts import unfinished_name
from opscope.base.files import read_inside
from opscope.launch.torch_import import ImportWatcher, when_imported
from opscope.live.children.start_hook.opscope_children import ANCESTOR_WITH_RANK, note
from opscope.recording.detailed_steps import DetailedSteps
from opscope.recording.facts.process_facts import launched_rank
from opscope.recording.streams.stream import Streams
from opscope.storage.processes import reserve_number
from opscope.torch_api.drop_in.install import install_and_answer
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.schedule import CyclicSchedule
from opscope.torch_api.settings import ProfileSettings
from opscope.torch_api.steps import after_each_optimizer_step

SETTINGS = ".children.json"
_MOST_BYTES = 1 << 20


@dataclass(frozen=True, kw_only=True)
class ChildSettings:
    """How children are recorded."""

    folder: Path  # folder of the trace, or with a flight recorder of the journal
    arguments: Mapping[str, Any] = field(default_factory=dict)  # arguments of ``ProfileRecording``
    max_disk_bytes: int | None = None  # limit of each file; None for a share of the free space
    drop_in: bool = True  # torch.profiler in children records with opscope
    schedule: Mapping[str, int] | None = None  # arguments of :func:`opscope.schedule`
    detail: Mapping[str, Any] = field(default_factory=dict)  # arguments for steps in detail
    # arguments of :class:`opscope.flight_recorder`, if children have only flight recorders
    flight: Mapping[str, Any] | None = None

    @property
    def has_cycles(self) -> bool:
        """Whether each process may make several recordings, each in the folder of its cycle."""
        return self.schedule is not None and self.schedule["repeat"] != 1

    def write(self) -> None:
        """Write the settings to the folder."""
        values = asdict(self)
        del values["folder"]
        unfinished = self.folder / unfinished_name(SETTINGS)
        unfinished.write_text(json.dumps(values))
        unfinished.replace(self.folder / SETTINGS)

    @classmethod
    def read(cls, folder: Path) -> ChildSettings:
        """Read the settings in the folder."""
        return cls(folder=folder, **json.loads(read_inside(folder, SETTINGS, _MOST_BYTES)))


WhenFailed: TypeAlias = Callable[[Exception], None]


class OwnRecording(Protocol):
    """The recording of one process, from its fork or the import of torch to its end."""

    def start(self) -> None:
        """Start recording, or waiting for the first step to record."""

    def stop(self) -> None:
        """Stop recording."""


def recording_factory(settings: ChildSettings) -> Callable[[Streams, WhenFailed], OwnRecording]:
    """Function that makes the recording of a process; its imports happen now, before any fork.

    Its arguments are the streams and a callback for errors in a step, which must not be raised.
    """
    if settings.flight is not None:
        return _flight_recorders(settings.flight)
    return partial(_WholeOrSomeSteps, settings)


def _flight_recorders(
    arguments: Mapping[str, Any],
) -> Callable[[Streams, WhenFailed], OwnRecording]:
    # Slow to import, and needed only here.
    from opscope.live.flight.recorder import flight_recorder
    from opscope.live.flight.settings import triggers_of_a_program

    return lambda *_: flight_recorder(**arguments, triggers=triggers_of_a_program())


class _WholeOrSomeSteps:
    """Records the whole process, with some steps in detail, or the steps of a schedule."""

    def __init__(self, settings: ChildSettings, streams: Streams, when_failed: WhenFailed) -> None:
        steps: dict[str, Any] = {}
        if settings.schedule is not None:
            steps["schedule"] = CyclicSchedule(**settings.schedule)
            steps["on_trace_ready"] = _save_if_devices_were_used
        self._profile = ProfileRecording(**settings.arguments, **steps)
        self._profile.stream_into(streams)
        self._folder, self._when_failed = settings.folder, when_failed
        self._detailed: DetailedSteps | None = None
        if settings.detail:
            lines = settings.detail.get("source_lines", True)
            self._profile.detail_with(ProfileSettings.of(settings.detail, source_lines=lines))
            self._detailed = DetailedSteps(self._profile.record_detail)
        self._counts_steps = settings.schedule is not None or self._detailed is not None

    def start(self) -> None:
        self._profile.start()
        if self._detailed is not None:
            self._detailed.begin()
        if self._counts_steps:
            after_each_optimizer_step(self._step_ended)

    def stop(self) -> None:
        if self._detailed is not None:
            self._detailed.finish()
        self._profile.stop()
        _save_if_devices_were_used(self._profile)

    def _step_ended(self) -> None:
        # If the folder was removed, the program must not create it again.
        if not self._counts_steps or not self._folder.is_dir():
            return
        try:
            self._profile.step() if self._detailed is None else self._detailed.step_ended()
        except Exception as error:
            self._counts_steps = False
            self._when_failed(error)


def _save_if_devices_were_used(profile: ProfileRecording) -> None:
    torch = sys.modules.get("torch")
    if torch is not None and torch.cuda.is_initialized():
        profile.save_streamed()


_FINALIZERS_LAST = -1000
"""Exit priority in children of multiprocessing: after all others."""


def expect_torch(folder: str) -> ImportWatcher:
    """Record this process once torch is imported; returns the finder that waits for torch."""
    return when_imported("torch", ChildRecording(ChildSettings.read(Path(folder))).begin)


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
