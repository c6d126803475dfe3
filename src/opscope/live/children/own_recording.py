"""The recording of one child process, with the settings of the job.

It is in files, and other processes make the traces, unless devices were used: only the process
itself can query these.
"""

from __future__ import annotations

import sys
import warnings
from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, Protocol, TypeAlias

from opscope.live.children.settings import ChildSettings
from opscope.recording.detailed_steps import DetailedSteps
from opscope.recording.streams.stream import Streams
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.schedule import schedule
from opscope.torch_api.settings import ProfileSettings
from opscope.torch_api.steps import after_each_optimizer_step

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
            with warnings.catch_warnings():  # the first process printed the same warnings
                warnings.simplefilter("ignore")
                steps["schedule"] = schedule(**settings.schedule)
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
