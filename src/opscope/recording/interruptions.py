"""Telling errors of ours from those that a signal's handler raised in the middle of our work."""

from __future__ import annotations

import signal
from types import CodeType
from typing import Any


def raised_by_handler(error: BaseException) -> bool:
    """Did a handler that the program installed for a signal raise ``error``?

    Such an error (of a time limit, say) ends what the program is doing, wherever the signal found
    it: it is the program's, not ours to swallow.
    """
    if not isinstance(error, Exception):
        return True  # Ctrl+C, or an exit
    handlers = {_code_of(signal.getsignal(number)) for number in signal.valid_signals()} - {None}
    traceback = error.__traceback__
    while traceback is not None:
        if traceback.tb_frame.f_code in handlers:
            return True
        traceback = traceback.tb_next
    return False


def _code_of(handler: Any) -> CodeType | None:
    handler = getattr(handler, "func", handler)  # a partial function's
    of_class = getattr(type(handler), "__call__", None)  # noqa: B004 (its code is what is wanted)
    for function in (handler, of_class):
        code = getattr(getattr(function, "__func__", function), "__code__", None)
        if isinstance(code, CodeType):
            return code
    return None
