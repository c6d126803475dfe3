"""Compilations by torch.compile in this process: reasons and graph breaks.

torch keeps the last 64 compilations, and graph breaks without their time. So both are copied when a
compilation ends, also without a recording: most programs compile before they record.
"""

from __future__ import annotations

import functools
import sys
from collections import deque
from collections.abc import Callable, Iterator
from contextlib import suppress
from dataclasses import dataclass
from typing import Any

from opscope.columns.codes import CompilationKind


def note_calls(owner: Any, name: str, note: Callable[..., None], is_static: bool = False) -> None:
    """Call ``note`` with the result and the arguments of each call of ``owner.name``.

    No effect if the function is missing or already wrapped. Errors in ``note`` are ignored, so that
    compiling continues after changes in torch.
    """
    original = getattr(owner, name, None)
    if original is None or hasattr(original, "__wrapped__"):
        return

    @functools.wraps(original)
    def noted(*args: Any, **kwargs: Any) -> Any:
        result = original(*args, **kwargs)
        with suppress(Exception):
            note(result, *args)
        return result

    setattr(owner, name, staticmethod(noted) if is_static else noted)


_UTILITIES = "torch._dynamo.utils"
_RECORDER = "record_compilation_metrics"
_CONTEXT = "_METRICS_CONTEXT"
"""Object that calls the recorder in torch 2.9 and older; it holds the function itself."""
_MOST = 10_000
_LONGEST_REASON = 400


@dataclass(frozen=True)
class Compilation:
    """One row of ``compilations``, column by column."""

    kind: CompilationKind  # compilation, recompilation or graph break
    start_ns: int  # Unix time
    duration_ns: int  # 0 for a graph break
    compile_id: str  # torch's id: frame and how often it was compiled, such as ``0/1``
    function: str  # the compiled function
    file: str  # file of the function, or of the line where the graph breaks
    line: int  # first line of the function, or line of the break; -1 if unknown
    reason: str  # of the recompilation, the graph break or the failure
    from_cache: bool  # whether the code was read from inductor's cache


_known: deque[Compilation] = deque(maxlen=_MOST)
_breaks_taken: int = 0
_reasons: dict[str, str] = {}  # by id of the running compilation


def listen_to_compilations() -> None:
    """Record every compilation as it ends; dynamo's utilities were just imported."""
    utilities: Any = sys.modules.get(_UTILITIES)
    original = getattr(utilities, _RECORDER, None)
    note_calls(utilities, _RECORDER, lambda *_: _take_over(utilities))
    context = getattr(utilities, _CONTEXT, None)
    if context is not None and getattr(context, "_on_exit", None) is original:
        context._on_exit = getattr(utilities, _RECORDER)


def _listen_to_recompilations() -> None:
    """Record reasons of recompilations with torch 2.6, which does not keep them.

    Called after the first compilation, when dynamo is completely imported.
    """
    reasons = "get_and_maybe_log_recompilation_reason"
    note_calls(sys.modules.get("torch._dynamo.convert_frame"), reasons, _note_reasons)


def _note_reasons(reasons: list[str], *_: Any) -> None:
    guards: Any = sys.modules["torch._guards"]
    _reasons.clear()  # reasons of a compilation that never ended, on any thread
    if reasons:
        _reasons[str(guards.CompileContext.current_compile_id())] = reasons[-1]


def finished_compilations() -> list[Compilation]:
    """Compilations of this process so far, in the order in which they ended."""
    return list(_known)


def is_listening() -> bool:
    """Whether compilations of this process are recorded: torch has the needed functions."""
    utilities = sys.modules.get(_UTILITIES)
    recorder = getattr(utilities, _RECORDER, None)
    context = getattr(utilities, _CONTEXT, None)
    calls = getattr(context, "_on_exit", recorder)  # newer torch looks the recorder up at each end
    return utilities is None or hasattr(calls, "__wrapped__")


def _take_over(utilities: Any) -> None:
    _listen_to_recompilations()
    metrics = utilities.get_compilation_metrics()
    if metrics:
        compilation = _compilation(metrics[-1])
        _known.extend(_graph_breaks(utilities, compilation))
        _known.append(compilation)


def _compilation(metrics: Any) -> Compilation:
    def number(name: str) -> int:
        return int(getattr(metrics, name, None) or 0)

    def text(name: str) -> str:
        return str(getattr(metrics, name, None) or "")

    noted = _reasons.pop(text("compile_id"), "")
    again, failed = text("recompile_reason") or noted, text("fail_reason")
    kind = CompilationKind.RECOMPILATION if again else CompilationKind.COMPILATION
    hits = number("inductor_fx_local_cache_hit_count") + number("aotautograd_local_cache_hit_count")
    is_backward = getattr(metrics, "is_forward", True) is False
    return Compilation(
        kind=CompilationKind.FAILURE if failed else kind,
        start_ns=number("start_time_us") * 1000,
        duration_ns=number("duration_us") * 1000,
        compile_id=text("compile_id"),
        function=text("co_name") or ("backward" if is_backward else ""),
        file=text("co_filename"),
        line=number("co_firstlineno") or -1,
        reason=_shortened(failed or again),
        from_cache=hits > 0,
    )


def _graph_breaks(utilities: Any, compilation: Compilation) -> Iterator[Compilation]:
    """Graph breaks since the previous compilation."""
    global _breaks_taken
    reasons = list(getattr(utilities, "graph_break_reasons", ()))
    start = _breaks_taken if _breaks_taken <= len(reasons) else 0  # else torch was reset
    _breaks_taken = len(reasons)
    for broken in reasons[start:]:
        stack = getattr(broken, "user_stack", None) or []
        place = stack[-1] if stack else None
        yield Compilation(
            kind=CompilationKind.GRAPH_BREAK,
            start_ns=compilation.start_ns,
            duration_ns=0,
            compile_id=compilation.compile_id,
            function=place.name if place is not None else compilation.function,
            file=place.filename if place is not None else compilation.file,
            line=int(place.lineno or -1) if place is not None else -1,
            reason=_shortened(str(broken.reason)),
            from_cache=False,
        )


def _shortened(reason: str) -> str:
    """The reason without the parts for torch's developers, in one line."""
    for end in ("\n\n  Developer debug context", "\nUser stack trace", "  # "):
        reason = reason.partition(end)[0]
    return " ".join(reason.split())[:_LONGEST_REASON]
