"""Being told of every call of a function of torch's, after it."""

from __future__ import annotations

import functools
from collections.abc import Callable
from contextlib import suppress
from typing import Any


def note_calls(owner: Any, name: str, note: Callable[..., None], is_static: bool = False) -> None:
    """Call ``note`` with what each call of ``owner.name`` returned, and what it was given.

    Once, however often this is called; where torch has no such function, never. What is noted goes
    wrong without a word: torch goes on compiling, whatever it has changed.

    Args:
        owner: module or class; None for one that this torch does not have.
        name: of the function in it.
        note: what to call.
        is_static: it is a static method of a class.
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
