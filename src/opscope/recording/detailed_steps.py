"""Selects the steps recorded in detail: some after warm-up, spread over the run.

Steps in detail have all data that explains why a program is slow. Other steps record only
operators, so they run nearly as fast as without recording. What a program does between and after
its steps, such as an evaluation, has stretches of its own.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from contextlib import suppress

import opscope._native as _native
from opscope.base.daemon_thread import OwnThread
from opscope.recording.facts.process_facts import is_rank_of_several

_NOT_YET_WARM = 3  # steps that import, allocate, compile and choose algorithms
_FEWEST, _FEW, _MANY = 2, 5, 30  # steps that end a stretch: after 20 s, after 1 s, at once
_FEW_TO_COMPARE, _FEWEST_TO_COMPARE = 11, 6
"""Limits for ranks, whose steps are compared: N step ends enclose N - 1 whole steps."""
_SECOND_S, _LONG_S = 1.0, 20.0
START_S, _LATER_S = 2.0, 1.0
"""First stretch of a program without steps, and later ones at doubling intervals: lengths."""
_BETWEEN = 4  # a pause of this many steps is no step: the program does something else
_SHARE = 0.05  # share of the time in detail after the first steps
_FEWEST_RECORDS = 100  # records between two checks; a program with fewer is idle
_LOOK_S = 0.5
_AT_END_S = 1.0


class DetailedSteps:
    """Begins and ends detail stretches; the first begins with the program."""

    def __init__(
        self,
        record_detail: Callable[[bool, int], None],
        start_s: float = START_S,
        is_rank: Callable[[], bool] = is_rank_of_several,
    ) -> None:
        """Prepare; the recording has begun in detail.

        Args:
            record_detail: begins or ends a stretch; takes the number of steps that ended in it.
            start_s: length of the first stretch if no step ends.
            is_rank: whether the process is known to be one of several ranks.
        """
        self._record_detail, self._start_s, self._is_rank = record_detail, start_s, is_rank
        self._lock = threading.RLock()  # a signal handler may run a step
        self._process = os.getpid()  # a forked child's steps do not count
        self._ended = 0  # steps
        self._on, self._steps = True, 0  # in detail now, and steps ended since then
        self._is_between = False  # the stretch began between steps
        self._began_s = self._since_s = time.monotonic()
        self._next_s = {False: 0.0, True: 0.0}  # of steps or without any, and between steps
        self._stepped_s = self._took_s = 0.0
        self._records = 0
        self._is_over = threading.Event()
        self._looks = OwnThread(self._look_now_and_then, self._is_over.set)

    def begin(self) -> None:
        """Start the thread that ends stretches of programs without steps."""
        self._looks.start()

    def step_ended(self) -> None:
        """Count a finished step of the program."""
        if os.getpid() != self._process or self._is_over.is_set():
            return
        with self._lock:
            self._ended += 1
            if self._is_between:
                self._end_detail(steps=0)
            self._steps += self._on
            now_s = time.monotonic()
            self._stepped_s, self._took_s = now_s, now_s - self._stepped_s
            if self._ended == _NOT_YET_WARM:
                self._end_detail(steps=0)
                self._begin_detail()
            elif self._ended > _NOT_YET_WARM and self._on and self._has_enough():
                self._end_detail(self._steps)
            elif self._ended > _NOT_YET_WARM and not self._on and self._is_due():
                self._begin_detail()

    def finish(self) -> None:
        """End; the program has ended."""
        was_over = self._is_over.is_set()
        self._is_over.set()
        if os.getpid() == self._process and not was_over:
            # A thread that runs out of memory may not end.
            self._looks.join(_AT_END_S)
            if self._lock.acquire(timeout=_AT_END_S):
                try:
                    self._end_detail(self._steps if self._ended > _NOT_YET_WARM else 0)
                finally:
                    self._lock.release()

    def _begin_detail(self, is_between: bool = False) -> None:
        self._on, self._steps, self._since_s = True, 0, time.monotonic()
        self._is_between = is_between
        self._change(True, 0)

    def _end_detail(self, steps: int) -> None:
        if not self._on:
            return
        now_s, is_between = time.monotonic(), self._is_between
        self._on = self._is_between = False
        rest_s = (now_s - self._since_s) / _SHARE if steps or is_between else 0.0
        self._next_s[is_between] = max(now_s + rest_s, 2 * now_s - self._began_s)
        self._change(False, steps)

    def _change(self, on: bool, steps: int) -> None:
        try:
            self._record_detail(on, steps)
        except Exception:  # it would fail every time
            self._is_over.set()
            raise

    def _has_enough(self) -> bool:
        steps, took_s = self._steps, time.monotonic() - self._since_s
        few, fewest = _FEW, _FEWEST
        if steps < _FEW_TO_COMPARE and self._is_rank():
            few, fewest = _FEW_TO_COMPARE, _FEWEST_TO_COMPARE
        return (
            steps >= _MANY
            or (steps >= few and took_s >= _SECOND_S)
            or (steps >= fewest and took_s >= _LONG_S)
        )

    def _is_due(self) -> bool:
        """Whether the next stretch begins: at powers of two, so that all ranks choose the same
        steps."""
        return self._ended & (self._ended - 1) == 0 and time.monotonic() >= self._next_s[False]

    def _look_now_and_then(self) -> None:
        while not self._is_over.wait(_LOOK_S):
            with self._lock, suppress(Exception):  # an error ended recording in detail
                if not self._is_over.is_set():
                    self._look()

    def _look(self) -> None:
        """Begin or end a stretch of a program without steps, between steps or in a long step."""
        now_s, records = time.monotonic(), _native.statistics()["records"]
        is_at_work = records - self._records >= _FEWEST_RECORDS
        self._records = records
        if self._on and now_s - self._since_s >= self._longest_s():
            self._end_detail(self._steps if self._ended > _NOT_YET_WARM else 0)
        elif not self._on and is_at_work:
            is_between = self._ended > 0
            pause_s = max(_LATER_S, _BETWEEN * self._took_s) if is_between else 0.0
            is_due = now_s >= max(self._next_s[is_between], self._stepped_s + pause_s)
            # Ranks of a job are compared by the same steps.
            if is_due and not (is_between and self._is_rank()):
                self._begin_detail(is_between)

    def _longest_s(self) -> float:
        """Length of the current stretch if no step ends it."""
        if self._ended and not self._is_between:  # a step, or what follows the last one
            pause_s = max(_LONG_S, 2 * self._took_s)
            return self._stepped_s + pause_s - self._since_s
        return self._start_s if self._since_s == self._began_s else _LATER_S
