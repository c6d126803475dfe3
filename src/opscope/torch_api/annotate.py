"""Naming a part of the program: ``record_function``."""

from __future__ import annotations

import functools
from collections.abc import Awaitable, Callable
from contextlib import AbstractContextManager
from typing import TypeVar

from opscope._native import Annotation
from opscope.launch.torch_import import when_imported
from opscope.recording.torch_compile import leave_uncompiled, trace_as_torch_annotations

_Function = TypeVar("_Function", bound=Callable[..., object])


class record_function(Annotation):
    """A span around a ``with`` block or a function, shown under ``name`` in every view.

    It costs a fraction of ``torch.profiler.record_function``, because it does not go through torch.
    It has no effect if nothing is recorded at its begin, and may end on another thread.
    torch.compile omits it from compiled code, like torch's own, unless
    ``torch._dynamo.config.capture_profiler_record_function`` is set.

    Args:
        name: shown unchanged.
        args: text stored with the span if shapes are recorded.
    """

    def __call__(self, function: _Function) -> _Function:
        """Use as a decorator: every call of ``function`` becomes a span."""
        name, args = self.name, self.args

        @functools.wraps(function)
        def annotated(*call_args: object, **call_kwargs: object) -> object:
            with Annotation(name, args):
                return function(*call_args, **call_kwargs)

        return annotated  # type: ignore[return-value]


async def awaited_within(
    context: AbstractContextManager[object],
    awaitable: Awaitable[object],
    then: Callable[[], object],
) -> None:
    """Await ``awaitable`` in a context; call ``then`` at the end, also after an exception.

    It is in this file because recordings of Python calls omit calls in opscope's other files.
    """
    try:
        with context:
            await awaitable
    finally:
        then()


def _prepare_compilation() -> None:
    trace_as_torch_annotations((record_function, Annotation))
    leave_uncompiled()


when_imported("torch._dynamo", _prepare_compilation)
