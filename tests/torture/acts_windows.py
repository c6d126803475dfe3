"""Windows of other kinds: by a schedule, of torch.profiler under the switch, with a pause."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import torch

import opscope
import opscope.drop_in
from opscope import ProfilerAction
from torture.acts import Player, act
from torture.history import State
from torture.windows import (
    MOST_OPENED,
    OPTIONS,
    Window,
    choose_options,
    record_some,
    stop_somebodys,
)

_RECORDING = (ProfilerAction.RECORD, ProfilerAction.RECORD_AND_SAVE)
_torch_profiler = threading.Lock()  # there is one at a time


@act(5)
def record_a_window(player: Player) -> None:
    record_some(player)


@act(2)
def stop_a_window_of_another_thread(player: Player) -> None:
    stop_somebodys(player)


class _Cycles:
    """The windows that a schedule opens and closes, one after the other."""

    def __init__(self, player: Player) -> None:
        choices = player.random
        self.player, self.program = player, player.program
        self.options = choose_options(choices)
        self.schedule = opscope.schedule(
            wait=choices.randrange(2),
            warmup=choices.randrange(2),
            active=choices.randrange(1, 3),
            repeat=choices.randrange(3),
        )
        self.traces: list[Any] = []
        self.profile = opscope.profile(
            schedule=self.schedule,
            on_trace_ready=lambda prof: self.traces.append(prof.trace),
            **self.options,
        )
        self.window: Window | None = None

    def change(self, last: int | None, next_: int | None, operation: Callable[[], object]) -> None:
        """Go from one step to the next; None is before the first and after the last."""
        before = ProfilerAction.NONE if last is None else self.schedule(last)
        after = ProfilerAction.NONE if next_ is None else self.schedule(next_)
        ends = before in _RECORDING and (next_ is None or before is ProfilerAction.RECORD_AND_SAVE)
        begins = after in _RECORDING and (ends or before not in _RECORDING)
        ended, opened = self.window, None
        with self.program.passing(together=False):
            if ends:
                ended.set(State.CLOSING)
            if begins:
                opened = self.window = Window(self.program, None, self.options)
                opened.opening()
            name = f"ProfilerStep#{next_}"
            step = self.program.begin([] if next_ is None else [("annotation", name)])
            operation()
            step.after = self.program.history.now()
            if ends:
                ended.set(State.OVER)
                ended.trace = self.traces.pop()
            if opened is not None:
                opened.set(State.OPEN)


@act(2)
def record_by_a_schedule(player: Player) -> None:
    if len(player.program.history.windows) >= MOST_OPENED:
        return
    cycles, step = _Cycles(player), 0
    cycles.change(None, 0, cycles.profile.start)
    try:
        for _ in range(player.random.randrange(8)):
            player.some_acts(2)
            step += 1
            cycles.change(step - 1, step, cycles.profile.step)
    finally:
        cycles.change(step, None, cycles.profile.stop)


@act(2)
def record_with_torch_profiler(player: Player) -> None:
    """Under the switch: Python calls are of the threads that there are when it starts."""
    program = player.program
    if len(program.history.windows) >= MOST_OPENED or not _torch_profiler.acquire(blocking=False):
        return
    try:
        options = {option: player.random.random() < 0.5 for option in OPTIONS[:4]}
        profile = torch.profiler.profile(
            activities=[torch.profiler.ProfilerActivity.CPU], **options
        )
        window = Window(program, profile, options)
        window.is_torchs = True
        window.start()
        try:
            player.some_acts(5)
        finally:
            window.stop()
            window.trace = profile.profiler.kineto_results.trace
            window.profile = None
    finally:
        _torch_profiler.release()


@act(1)
def record_with_a_pause(player: Player) -> None:
    """What happens meanwhile is left out."""
    program = player.program
    if len(program.history.windows) >= MOST_OPENED:
        return
    without = ("with_stack", "with_functions", "with_own_functions")
    options = {**choose_options(player.random), **dict.fromkeys(without, False)}
    window = Window(program, opscope.profile(**options), options)
    cpu = {opscope.ProfilerActivity.CPU}
    window.start()
    try:
        for _ in range(player.random.randrange(3)):
            player.some_acts(2)
            with program.passing(together=False):
                window.is_paused = True
                window.set(State.CLOSING)
                window.profile.toggle_collection_dynamic(False, cpu)
                window.set(State.OVER)
            player.some_acts(1)
            with program.passing(together=False):
                window.next_part()
                window.profile.toggle_collection_dynamic(True, cpu)
                window.set(State.OPEN)
                window.is_paused = False
            player.some_acts(2)
    finally:
        window.is_paused = False
        window.stop()
