"""The part of a program that ``--why`` analyses: some steps after warm-up, or the start.

Everything is recorded of these, and of the rest nothing, so that the rest is as fast as ever.
"""

from __future__ import annotations

import functools
import os
import threading
import time
from collections.abc import Callable

from opscope.base.own_thread import OwnThread
from opscope.torch_api.profile_recording import ProfileRecording

_NOT_YET_WARM = 3  # steps that import, allocate, compile and choose algorithms
_FEWEST, _FEW, _MANY = 2, 5, 30  # steps: enough after 20 s, after a second, however short
_FEW_TO_COMPARE, _FEWEST_TO_COMPARE = 11, 6
"""Steps recorded of each rank, for comparisons: at least five complete ones."""
_SECOND_S, _LONG_S = 1.0, 20.0


class WarmSteps:
    """Records from the start to the end of the first step, then some steps after the third."""

    def __init__(
        self,
        new_recording: Callable[[bool], ProfileRecording],
        when_done: Callable[[ProfileRecording], None],
        when_without: Callable[[ProfileRecording], bool] = lambda recording: False,
        is_rank: Callable[[], bool] = lambda: False,
    ) -> None:
        """Use recordings that ``new_recording`` makes.

        Args:
            new_recording: called for each, with whether it is to be of the warm program; it has not
                started yet.
            when_done: called with the recording of the warm steps as soon as there are enough.
            when_without: called with that of a program in which no step has ended for ``limit_s``,
                such as a server, on a thread of its own; says whether that was all there is to say,
                unless steps follow.
            is_rank: whether the process is known to be one of several ranks.
        """
        self._new_recording, self._when_done = new_recording, when_done
        self._when_without, self._is_answered = when_without, False
        self._is_rank = is_rank
        self._recording: ProfileRecording | None = None  # the one to look at, as things stand
        self._warm: ProfileRecording | None = None
        self._warm_since_s = 0.0
        self._ended = 0  # steps
        self._is_done = False
        self._is_handed_over = False  # not where handing it over was interrupted
        self._process = os.getpid()  # a forked child's steps are its own
        self._limit: OwnThread | None = None
        self._has_stepped_or_ended = threading.Event()

    @property
    def limit_s(self) -> float:
        """How long a program is recorded in which no step ends."""
        return _LONG_S

    @property
    def ended_steps(self) -> int:
        """How many steps of the program have ended."""
        return self._ended

    @property
    def recorded_steps(self) -> int:
        """Whole steps in what is recorded of the warm program."""
        return max(self._ended - _NOT_YET_WARM, 0) if self._warm is not None else 0

    def begin(self) -> None:
        """The program starts."""
        self._recording = self._new_recording(False)
        self._recording.start()
        # A program without steps, a server for instance, is not recorded for good.
        self._limit = OwnThread(
            functools.partial(self._wait_for_steps, self._recording),
            self._has_stepped_or_ended.set,
        )
        try:
            self._limit.start()
        except RuntimeError:
            self._recording.stop()
            raise

    def step_ended(self) -> None:
        """One of the program's steps has ended."""
        if self._is_done or self._recording is None or os.getpid() != self._process:
            return
        self._ended += 1
        if self._ended == 1:
            self._end_start()
        elif self._ended == _NOT_YET_WARM:
            self._warm = self._new_recording(True)
            self._warm_since_s = time.monotonic()
            self._warm.start()
        elif self._warm is not None:
            self._recording = self._warm
            if self._has_enough():
                self._is_done = True
                self._warm.stop()
                self._when_done(self._warm)
                self._is_handed_over = True

    def finish(self) -> ProfileRecording | None:
        """The program has ended: what to look at, stopped; None where it has been handed over."""
        if self._is_handed_over:
            return None
        self._has_stepped_or_ended.set()
        if self._limit is not None:
            self._limit.join()
        self._is_done = self._is_handed_over = True
        self._end_start()
        if self._warm is not None:
            self._warm.stop()
        return None if self._is_answered and self._recording is not self._warm else self._recording

    def _wait_for_steps(self, recording: ProfileRecording) -> None:
        if not self._has_stepped_or_ended.wait(_LONG_S):
            self._end_without_steps(recording)

    def _end_without_steps(self, recording: ProfileRecording) -> None:
        recording.stop()
        if not self._ended and not self._is_done:
            self._is_answered = self._when_without(recording)

    def _end_start(self) -> None:
        self._has_stepped_or_ended.set()
        if self._recording is not None:
            self._recording.stop()

    def _has_enough(self) -> bool:
        steps, took_s = self.recorded_steps, time.monotonic() - self._warm_since_s
        few, fewest = _FEW, _FEWEST
        if steps < _FEW_TO_COMPARE and self._is_rank():
            few, fewest = _FEW_TO_COMPARE, _FEWEST_TO_COMPARE
        return (
            steps >= _MANY
            or (steps >= few and took_s >= _SECOND_S)
            or (steps >= fewest and took_s >= _LONG_S)
        )
