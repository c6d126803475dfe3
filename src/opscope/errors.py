"""Everything opscope raises on purpose.

    OpscopeError
    ├── UsageError            an argument or option is invalid; the message says what is valid
    │   └── UnknownNameError  there is no table or column of this name
    ├── LifecycleError        right call, wrong moment (export before any recording, ...)
    ├── TraceFormatError      a file is missing, damaged, foreign or newer than this opscope
    │   └── UnreadableProcessError  the same, of one process of a job
    ├── InsufficientMemoryError  a trace does not fit in the available memory
    ├── BridgeError           the torch bridge could not be compiled or loaded
    ├── ReachError            another process cannot be reached, or does not answer
    └── MissingDependencyError  an optional package is needed and absent

Every message is one paragraph that ends with what to do next. The command line prints the message
alone, without a traceback, and exits with ``exit_code``.
"""

from __future__ import annotations

from typing import Any

from opscope.base.printable import printable


class OpscopeError(Exception):
    """Base class of all deliberate errors.

    Attributes:
        exit_code: exit code of the command line.
    """

    exit_code = 1

    def __str__(self) -> str:
        # Messages have names of files and events from traces, which Python prints unchanged.
        # KeyError's own __str__ would quote the message.
        return printable(Exception.__str__(self), keep="\n\t")


class UsageError(OpscopeError, ValueError):
    """An argument, option or metadata value is not usable as given."""

    exit_code = 2


class UnknownNameError(UsageError, KeyError):
    """There is no table or column of this name; the message lists the existing ones."""


class LifecycleError(OpscopeError, RuntimeError):
    """The call is valid, but not in the current state of the profiler."""


class TraceFormatError(OpscopeError, ValueError):
    """A trace on disk cannot be read."""


class UnreadableProcessError(TraceFormatError):
    """One process of a job cannot be read; others may be readable.

    Attributes:
        part: the process, as in a job's ``parts``: its ``kind`` and its ``number``.
        why: the problem.
    """

    def __init__(self, message: str, part: Any, why: str) -> None:
        super().__init__(message)
        self.part, self.why = part, why

    def __reduce__(self) -> tuple[type[UnreadableProcessError], tuple[object, ...]]:
        return type(self), (self.args[0], self.part, self.why)


class InsufficientMemoryError(OpscopeError, MemoryError):
    """Reading, decoding or showing a trace needs more memory than is available."""


class BridgeError(OpscopeError, RuntimeError):
    """The part of the recorder that is compiled against torch is unavailable."""


class ReachError(OpscopeError, RuntimeError):
    """A running process cannot be reached, or has refused a request."""


class MissingDependencyError(OpscopeError, ImportError):
    """An optional package is needed for this call; the message names the install command."""


def not_installed(package: str, what: str) -> MissingDependencyError:
    """The error that ``what``, the start of a sentence, needs the PyPI package ``package``."""
    return MissingDependencyError(
        f"{what} needs {package}, which cannot be imported here. "
        f"Run: python -m pip install {package}"
    )
