"""Random programs by their seeds, in this process: the first failure ends it.

    python -m torture.case EFFECTS FIRST COUNT [--without NAME]...

Prints each seed as it begins, so that whoever started this process knows which one it died of.
"""

from __future__ import annotations

import argparse
import faulthandler
import gc
import os
import signal
import sys
import time
import traceback
import warnings
from pathlib import Path

import torch

import opscope.drop_in
from opscope import _native
from torture import (
    acts_calls,
    acts_memory,
    acts_processes,
    acts_signals,
    acts_spans,
    acts_threads,
    acts_windows,
    expectations,
)
from torture.acts import Player
from torture.children import in_child
from torture.effects import Effects
from torture.invariants import check_invariants
from torture.left_out import LEFT_OUT
from torture.primitives import PRIMITIVES
from torture.program import FEWEST_ACTS, MOST_ACTS, Program, Settings
from torture.views import check_views
from torture.windows import Window, finish_all

_ = (
    acts_calls,
    acts_memory,
    acts_processes,
    acts_signals,
    acts_spans,
    acts_threads,
    acts_windows,
)  # add their acts

SLACK_NS = 200_000_000  # between Python's look at the clock and the recorder's


def run(settings: Settings) -> Program:
    """One program, from nothing to nothing.

    Raises:
        AssertionError: something was recorded wrongly.
    """
    program = Program(settings)
    choices = program.random
    for number in range(choices.randrange(1, 5)):
        play_in_thread(program, f"{settings.seed}/{number}", choices.random() < 0.7)
    main = program.history.new_actor()
    program.as_actor(main, lambda: _play(program, f"{settings.seed}/main"))
    for thread in program.threads:  # grows while they run
        thread.join()
    for wait in program.waits:
        wait()
    program.as_actor(main, lambda: finish_all(program))
    assert not program.history.errors, "\n".join(program.history.errors)
    return program


def play_in_thread(program: Program, seed: str, gated: bool) -> None:
    """A thread with a part of its own."""
    program.start_thread(lambda: _play(program, seed), gated=gated)


def _play(program: Program, seed: str) -> None:
    player = Player(program, seed)
    player.play(player.random.randrange(FEWEST_ACTS, MOST_ACTS))


def check(program: Program) -> tuple[int, int]:
    """Compare every window with what is known; how many there were, with how many events.

    Raises:
        AssertionError: they differ.
    """
    told, events, viewed = [], 0, []
    for window in program.history.windows:
        trace = window.look()
        if trace is None:
            continue
        check_invariants(trace)
        expectations.check_owners(window, program.history)
        began, ended = window.began_ns - SLACK_NS, window.ended_ns + SLACK_NS
        assert not len(trace.events) or began <= trace.events["start_ns"][0]
        assert not len(trace.events) or trace.end_ns.max() <= ended
        told += expectations.differences(window, program.history)
        if program.random.random() < 0.3:
            viewed.append(window)
        events += len(trace.events)
    assert not told, "\n".join(told[:20])
    if viewed:
        in_child(lambda: _views_differ(viewed))
    return len(program.history.windows), events


def _views_differ(windows: list[Window]) -> str:
    """For a child: views load Arrow and DuckDB, which the process of the programs must not have.

    Both bring an allocator that clears up when a thread ends, under a lock that it holds during a
    fork. A fork that meets a thread there leaves glibc (2.36) with what it has not cleared yet, for
    the next thread of the child that gets that thread's stack; the child crashes when it ends.
    """
    for window in windows:
        check_views(window)
    return ""


def check_nothing_is_left() -> None:
    """No window is open, and nobody listens any more.

    Raises:
        AssertionError: something is left.
    """
    left = _native.statistics()
    assert (left["wanted"], left["windows"]) == (0, 0), left
    assert sys.getprofile() is None
    assert not torch.autograd._profiler_enabled()
    assert not any("opscope" in getattr(c, "__module__", "") for c in gc.callbacks), gc.callbacks
    assert signal.getitimer(signal.ITIMER_REAL) == (0.0, 0.0)


def main() -> None:
    """Run the seeds that were asked for."""
    parser = argparse.ArgumentParser()
    parser.add_argument("effects", type=Path)
    parser.add_argument("first", type=int)
    parser.add_argument("count", type=int)
    parser.add_argument("--without", action="append", default=[], choices=sorted(LEFT_OUT))
    asked = parser.parse_args()
    faulthandler.enable()
    gc.disable()
    sys.setrecursionlimit(10_000)
    torch.set_num_threads(1)
    warnings.filterwarnings("ignore", "Profiler won't be using warmup")
    opscope.drop_in.install()
    # Imported when first asked for: not by a handler of signals in the middle of that very import.
    _ = opscope.profile, opscope.record_function
    effects = Effects(asked.effects)
    for primitive in PRIMITIVES.values():
        primitive.run(1009)
        primitive.run(1009)
    # torch registers an exit function at the first call of many functions. glibc has a lock for
    # that, which no fork waits for: a child that is forked meanwhile hangs at its next one.
    list(torch.utils.data.DataLoader([0], generator=torch.Generator()))
    for seed in range(asked.first, asked.first + asked.count):
        print("seed", seed, "begins", flush=True)
        began = time.monotonic()
        program = run(Settings(seed, effects, frozenset(asked.without)))
        windows, events = check(program)
        del program
        gc.collect()
        check_nothing_is_left()
        pages = int(Path("/proc/self/statm").read_text().split()[1])
        print(
            f"seed {seed}: {windows} windows, {events} events, {time.monotonic() - began:.1f} s, "
            f"resident {pages * 4096 >> 20} MiB",
            flush=True,
        )


def run_and_leave() -> None:
    """Leave at once after a failure: torch aborts where finalizers run backward at exit."""
    try:
        main()
    except SystemExit:
        raise
    except BaseException:
        traceback.print_exc()
        sys.stderr.flush()
        os._exit(1)


if __name__ == "__main__":
    run_and_leave()
