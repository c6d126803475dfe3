"""Naming a part of the program: ``record_function``."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import TypeVar

from opscope._native import Annotation

_Function = TypeVar("_Function", bound=Callable[..., object])


class record_function(Annotation):
    """A span around a ``with`` block or a function, shown under ``name`` in every view.

    Costs a fraction of ``torch.profiler.record_function``, because it does not go through torch.
    Entering while nothing records is harmless, and so is leaving it on another thread.
    torch.compile breaks its graph at one; in functions compiled with ``fullgraph=True`` use
    ``torch.profiler.record_function``, which torch leaves out of the graph.

    Args:
        name: shown as it is.
        args: text kept with the span when shapes are recorded.
    """

    def __call__(self, function: _Function) -> _Function:
        """Use as a decorator: every call of ``function`` becomes a span."""
        name, args = self.name, self.args

        @functools.wraps(function)
        def annotated(*call_args: object, **call_kwargs: object) -> object:
            with Annotation(name, args):
                return function(*call_args, **call_kwargs)

        return annotated  # type: ignore[return-value]
