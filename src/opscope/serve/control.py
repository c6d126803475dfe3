"""The recordings of one server: one at a time, until it is stopped or for some steps.

Their folders are confined to one root.
"""

from __future__ import annotations

import atexit
import contextlib
import errno
import functools
import os
import re
import sys
import threading
import time
from collections import Counter
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from opscope.base.daemon_thread import OwnThread
from opscope.base.notice import notice
from opscope.errors import LifecycleError, OpscopeError, ReachError, UsageError
from opscope.recording.facts.process_facts import launched_rank
from opscope.serve.profile_request import ProfileRequest
from opscope.torch_api.hosted_recording import HostedRecording, verdict_name
from opscope.torch_api.profile_recording import ProfileRecording
from opscope.torch_api.steps import listen_to_steps

_PART = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_.+=@-]*")
"""Allowed folder names: no hidden ones, and no characters special to shells or terminals."""
_EXAMPLE = "Give a folder relative to the server's output root, such as 'slow/monday'."


def new_folder(root: Path, output_dir: str, prefix: str, shared_file: str | None = None) -> Path:
    """Make a new folder, named after ``prefix`` and the time, in ``output_dir`` below ``root``.

    With ``shared_file``, the folder is named ``prefix`` alone, and other processes may have made
    it. It must not contain this file, which the calling process will write.

    Raises:
        UsageError: a name is not allowed, a part of the path is a link or a file, or
            ``shared_file`` exists.
        OSError: the folder cannot be made.
    """
    parts = [part for part in output_dir.split("/") if part not in ("", ".")]
    if output_dir.startswith("/"):
        raise UsageError(f"output_dir is an absolute path. {_EXAMPLE}")
    for part in parts:
        if not _PART.fullmatch(part):
            raise UsageError(
                f"output_dir has a part {part[:80]!r}; letters, digits and _.+=@- are allowed, and "
                f"a part begins with none of .+=@-. {_EXAMPLE}"
            )
    if prefix and not _PART.fullmatch(prefix):
        raise UsageError(
            f"profile_prefix is {prefix[:80]!r}; letters, digits and _.+=@- are allowed."
        )
    if shared_file is not None:
        return _shared_folder(root, [*parts, prefix], shared_file)
    name = f"{prefix}-" if prefix else ""
    name += time.strftime("%Y%m%dT%H%M%S", time.gmtime())
    descriptor = _open_below(root, parts)
    try:
        return Path(root, *parts, _make_unused(descriptor, name))
    finally:
        os.close(descriptor)


def _shared_folder(root: Path, parts: list[str], file: str) -> Path:
    if not parts[-1]:
        raise UsageError(
            "merge_profiles needs a profile_prefix that names the folder, the same for every rank."
        )
    os.close(_open_below(root, parts))
    folder = Path(root, *parts)
    if (folder / file).exists():
        raise UsageError(f"{parts[-1]} has a recording of this rank. Give another profile_prefix.")
    return folder


def _open_below(root: Path, parts: list[str]) -> int:
    """Open a folder without following links; create missing ones."""
    root.mkdir(parents=True, exist_ok=True)
    folder = os.open(root, os.O_RDONLY | os.O_DIRECTORY)
    for part in parts:
        parent = folder
        try:
            with contextlib.suppress(FileExistsError):
                os.mkdir(part, dir_fd=parent)
            folder = os.open(part, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW, dir_fd=parent)
        except OSError as error:
            if error.errno not in (errno.ENOTDIR, errno.ELOOP):
                raise
            raise UsageError(
                f"output_dir has a part {part!r} that is a link or a file. {_EXAMPLE}"
            ) from None
        finally:
            os.close(parent)
    return folder


def _make_unused(parent: int, name: str) -> str:
    """Create ``name`` in an open folder, with a number if it exists; returns the new name."""
    number, chosen = 1, name
    while True:
        try:
            os.mkdir(chosen, dir_fd=parent)
            return chosen
        except FileExistsError:
            number += 1
            chosen = f"{name}-{number}"


STAGES = ("prefill", "decode")
_HAND_OVER_S = 2.0
"""Longest wait at the program's end for a thread that hands a recording over."""


class TakenError(LifecycleError):
    """Another recording is running; ``who`` describes it."""

    def __init__(self, who: dict[str, Any]) -> None:
        super().__init__(
            f"{who['client']} records since {who['since']} to {who['output_dir']}. "
            "POST /stop_profile ends that, or wait for it."
        )
        self.who = who


@dataclass
class _Running:
    request: ProfileRequest
    who: dict[str, Any]
    hosted: HostedRecording
    recording: ProfileRecording
    first_step: int
    has_begun: bool = False
    steps: Counter[str | None] = field(default_factory=Counter)  # recorded, by stage

    def begin(self) -> None:
        self.recording.start()
        self.has_begun = True

    def has_enough(self) -> bool:
        """Whether the requested number of steps is recorded, if by stage then of each stage."""
        num_steps = self.request.num_steps
        if num_steps is None:
            return False
        if self.request.by_stage and any(self.steps[stage] for stage in STAGES):
            return all(self.steps[stage] >= num_steps for stage in STAGES)
        return self.steps.total() >= num_steps


class Control:
    """Starts and stops recordings; :meth:`step_ended` counts steps or requests."""

    def __init__(self, root: Path) -> None:
        self._root = Path(os.path.realpath(root))
        self._lock = threading.Lock()
        self._running: _Running | None = None
        self._last: HostedRecording | None = None
        self._leaving: HostedRecording | None = None  # stopped, and not handed over yet
        self._process = os.getpid()
        self._steps = 0
        listen_to_steps(self.step_ended)
        atexit.register(self.finish)

    def start(self, request: ProfileRequest, client: str) -> dict[str, Any]:
        """Record from now or from the requested step; returns a description of the recording.

        Raises:
            TakenError: another recording is running.
            ReachError: torch is not imported.
            OpscopeError: the request or the state of the process does not allow it.
        """
        self._reset_after_fork()
        if not self._lock.acquire(blocking=False):
            raise LifecycleError("Another request starts or stops a recording. Try again.")
        try:
            if self._running is not None:
                raise TakenError(self._running.who)
            return self._start_recording(request, client)
        finally:
            self._lock.release()

    def _start_recording(self, request: ProfileRequest, client: str) -> dict[str, Any]:
        torch = sys.modules.get("torch")
        if torch is None or not hasattr(torch, "ops"):
            raise ReachError("The program has not imported torch yet. Try again later.")
        arguments: dict[str, Any] = dict(request.arguments)
        if request.activities is not None:
            from torch.profiler import ProfilerActivity

            arguments["activities"] = [getattr(ProfilerActivity, a) for a in request.activities]
        is_shared = request.merge_profiles and launched_rank() is not None
        shared = verdict_name() if is_shared else None
        folder = new_folder(self._root, request.output_dir, request.profile_prefix, shared)
        hosted = HostedRecording(folder, arguments, request.by_stage)
        who = {
            "client": client,
            "since": time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime()),
            "output_dir": os.path.relpath(folder, self._root),
        }
        running = _Running(request, who, hosted, hosted.new(), request.start_step or 0)
        # A request for a number of steps begins when a step ends, so that all steps are whole.
        if running.first_step <= self._steps and request.num_steps is None:
            running.begin()
        self._running = running
        return who

    def stop(self) -> dict[str, Any]:
        """Stop recording; another process writes the results.

        Raises:
            LifecycleError: nothing is recorded.
        """
        self._reset_after_fork()
        if not self._lock.acquire(blocking=False):
            raise LifecycleError("Another request starts or stops a recording. Try again.")
        try:
            running = self._running
            if running is None:
                raise LifecycleError("There is no recording. Start with POST /start_profile.")
            self._make_last(running)
        finally:
            self._lock.release()
        running.recording.stop()
        self._hand_over(running)
        return running.who

    def step_ended(self, stage: str | None = None) -> None:
        """Count a step or request; raises nothing. ``stage``: ``prefill`` or ``decode``."""
        self._steps += 1
        running = self._running
        if running is None or os.getpid() != self._process:
            return
        if running.has_begun:
            running.steps[stage] += 1
            if not running.has_enough():
                return
        elif self._steps < running.first_step:
            return
        if self._lock.acquire(blocking=False):  # if another thread has it, the next step retries
            try:
                self._begin_or_end(running)
            finally:
                self._lock.release()

    def _begin_or_end(self, running: _Running) -> None:
        if self._running is not running:
            return
        if not running.has_begun:
            return self._guarded(running.begin)
        self._make_last(running)
        self._guarded(running.recording.stop)
        # On another thread: collecting facts takes milliseconds, too long for a step.
        OwnThread(functools.partial(self._hand_over, running), lambda: None).start()

    def status(self) -> dict[str, Any]:
        """State of the current and the last recording."""
        self._reset_after_fork()
        running, last = self._running, self._last
        state = "none"
        if last is not None:
            state = "being written" if self.is_being_written else "written"
        return {
            "is_recording": running is not None and running.has_begun,
            "recording": None if running is None else running.who,
            "steps": self._steps,
            "last": None if last is None else self._relative_path(last.files.trace),
            "last_state": state,
        }

    def verdict(self) -> dict[str, Any]:
        """Verdict on the last recording.

        Raises:
            LifecycleError: there is none, it is not ready, or computing it failed.
        """
        if self._last is None:
            raise LifecycleError("There is no recording yet. Record some requests.")
        outcome = self._last.outcome(0)
        return {**outcome.verdict, "trace": self._relative_path(outcome.trace)}

    @property
    def has_recorded(self) -> bool:
        """Whether a recording has ended."""
        return self._last is not None

    @property
    def awaits_step(self) -> str:
        """Reason why a requested recording has not begun; empty if none waits."""
        running = self._running
        if running is None or running.has_begun:
            return ""
        return f"The requested one begins at the end of a step; {self._steps} steps so far"

    @property
    def is_being_written(self) -> bool:
        """Whether another process writes the last recording, or is about to."""
        last = self._last
        return last is not None and (last is self._leaving or last.is_being_made())

    def finish(self) -> None:
        """Stop a running recording at the end of the program; another process writes it."""
        self._reset_after_fork()
        if self._running is not None:
            self._guarded(self.stop)
        until_s = time.monotonic() + _HAND_OVER_S
        while self._leaving is not None and time.monotonic() < until_s:
            time.sleep(0.01)

    def _relative_path(self, path: Path) -> str:
        return os.path.relpath(path, self._root)

    def _make_last(self, running: _Running) -> None:
        """Make this recording the last one, which the verdict is about."""
        self._running = None
        if running.has_begun:
            self._last = self._leaving = running.hosted

    def _hand_over(self, running: _Running) -> None:
        if running.has_begun:
            self._guarded(functools.partial(running.hosted.leave, running.recording))
        if self._leaving is running.hosted:
            self._leaving = None

    def _guarded(self, action: Callable[[], object]) -> None:
        """Call ``action``, and print its errors: the server must continue."""
        try:
            action()
        except (OpscopeError, OSError, ValueError) as error:
            notice(f"the recording over HTTP failed: {error}")

    def _reset_after_fork(self) -> None:
        """Reset the state in a forked worker: the recordings are those of its parent."""
        if os.getpid() != self._process:
            self._process, self._lock = os.getpid(), threading.Lock()
            self._running = self._last = self._leaving = None
