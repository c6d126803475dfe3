"""Every measurement in a process of its own, so that none leaves the next a used heap.

A profiler is usually started once in a process that has been running for a while. A fork of a
process that has imported everything is just that, and takes no time to make. Repeating measurements
in one process would flatter opscope: torch.profiler leaves the heap so scattered that whatever
allocates next, usually torch.profiler again, takes several times as long.
"""

from __future__ import annotations

import os
import pickle
import traceback
import warnings
from collections.abc import Callable
from typing import Any, TypeVar

Result = TypeVar("Result")


def in_fork(function: Callable[..., Result], *arguments: Any) -> Result:
    """Call ``function`` in a forked child, and return what it returns.

    Raises:
        RuntimeError: it failed there.
    """
    reader, writer = os.pipe()
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)  # Python 3.12: forking with threads
        child = os.fork()
    if child == 0:
        os.close(reader)
        _answer(writer, function, arguments)
    os.close(writer)
    with os.fdopen(reader, "rb") as pipe:
        answer = pipe.read()
    os.waitpid(child, 0)
    if not answer:
        raise RuntimeError(f"{function.__name__}{arguments} failed; the reason is above.")
    result: Result = pickle.loads(answer)
    return result


def _answer(writer: int, function: Callable[..., Any], arguments: tuple[Any, ...]) -> None:
    try:
        with os.fdopen(writer, "wb") as pipe:
            pickle.dump(function(*arguments), pipe)
    except BaseException:
        traceback.print_exc()
    finally:
        os._exit(0)
