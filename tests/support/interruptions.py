"""A signal handler at every place where Python could run one.

That is between any two instructions. Which ones is chosen by a trace function, so that all have
their turn: the first, the second, until an action comes to its end.
"""

from __future__ import annotations

import gc
import inspect
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType
from typing import Any

from opscope import _native
from opscope.recording.torch_compile import report_optimizer_step


class Interruption(BaseException):
    """What a handler raised."""


class _Interrupter:
    """Calls ``handler`` before the ``place``-th instruction of what is called while it traces."""

    def __init__(self, place: int, handler: Callable[[], object]) -> None:
        self._left = place
        self._handler = handler
        self.has_come = False

    def __call__(self, frame: FrameType, event: str, argument: Any) -> Any:
        frame.f_trace_opcodes = True
        if event == "opcode" and not self.has_come and not _is_unsafe_in(frame):
            self._left -= 1
            if self._left == 0:
                self.has_come = True
                self._handler()
        return None if self.has_come else self


def _is_unsafe_in(frame: FrameType) -> bool:
    """Whether Python itself cannot be interrupted there. Where a lock of a module that was imported
    goes, in the callback of a weak reference, what is raised is printed and dropped; and where one
    is taken, the lock of all imports may be kept for ever. What is raised where a generator is
    closed that nobody has any more, at its instructions of no line, is dropped, too."""
    code = frame.f_code
    if frame.f_lineno is None and code.co_flags & inspect.CO_GENERATOR:
        return True
    return (
        code.co_name in ("cb", "_get_module_lock")
        and code.co_filename == "<frozen importlib._bootstrap>"
    )


def _raise() -> None:
    raise Interruption


def interrupt_at(
    place: int, action: Callable[[], object], handler: Callable[[], object] = _raise
) -> bool:
    """Run ``action`` and, before its ``place``-th instruction, ``handler``; False if it has fewer.

    By default it is interrupted there: the handler raises.
    """
    interrupter = _Interrupter(place, handler)
    before = sys.gettrace()
    # Python 3.12 looks at nothing else to decide whether instructions are told at all.
    sys._getframe().f_trace_opcodes = True
    sys.settrace(interrupter)
    try:
        action()
    except Interruption:
        return True
    finally:
        sys.settrace(before)
    return interrupter.has_come


def places(
    action: Callable[[], object],
    handler: Callable[[], object] = _raise,
    *,
    step: int = 1,
    first: int = 1,
) -> Iterator[int]:
    """``interrupt_at`` one place after the other; each is yielded afterwards, for checks."""
    place = first
    while interrupt_at(place, action, handler):
        yield place
        place += step
    assert place > first, "no instruction was told: this test would pass whatever happens"


def what_is_on() -> dict[str, Any]:
    """All that recording switches on in a process, to be compared with what it was."""
    torch_profiler: Any = sys.modules["torch.autograd.profiler"]
    optimizers: Any = sys.modules["torch.optim.optimizer"]
    torch: Any = sys.modules["torch"]
    statistics = _native.statistics()
    return {
        "windows": statistics["windows"],
        "wanted": statistics["wanted"],
        "gc": list(gc.callbacks),
        "new threads": threading.getprofile(),
        "this thread": sys.getprofile(),
        # Ours stays once it is there: see PythonCalls::watch_optimizers.
        "optimizers": [
            hook
            for hook in optimizers._global_optimizer_post_hooks.values()
            if hook is not report_optimizer_step
        ],
        "announced": torch_profiler._is_profiler_enabled,
        "place": torch.autograd._profiler_enabled(),
    }
