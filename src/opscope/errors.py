"""Everything opscope raises on purpose.

    OpscopeError
    ├── UsageError            an argument or option makes no sense; the message says what does
    │   └── UnknownNameError  there is no table or column of this name
    ├── LifecycleError        right call, wrong moment (export before any recording, ...)
    ├── TraceFormatError      a file is missing, damaged, foreign or newer than this opscope
    │   └── UnreadableProcessError  that is so of one process of a job
    ├── InsufficientMemoryError  a trace does not fit in the memory there is
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
        exit_code: what the command line exits with.
    """

    exit_code = 1

    def __str__(self) -> str:
        # Messages name files and events of traces, and Python prints them as they are.
        # KeyError's own __str__ would quote the message.
        return printable(Exception.__str__(self), keep="\n\t")


class UsageError(OpscopeError, ValueError):
    """An argument, option or metadata value is not usable as given."""

    exit_code = 2


class UnknownNameError(UsageError, KeyError):
    """There is no table or column of this name; the message has those that there are."""


class LifecycleError(OpscopeError, RuntimeError):
    """The call is valid, but not in the state the profiler is in."""


class TraceFormatError(OpscopeError, ValueError):
    """A trace on disk cannot be read as what it claims to be."""


class UnreadableProcessError(TraceFormatError):
    """One process of a job cannot be read; the others may be.

    Attributes:
        part: which one, as a job's ``parts`` has it: its ``kind`` and its ``number``.
        why: what is wrong with it.
    """

    def __init__(self, message: str, part: Any, why: str) -> None:
        super().__init__(message)
        self.part, self.why = part, why

    def __reduce__(self) -> tuple[type[UnreadableProcessError], tuple[object, ...]]:
        return type(self), (self.args[0], self.part, self.why)


class InsufficientMemoryError(OpscopeError, MemoryError):
    """Reading, decoding or showing a trace takes more memory than there is."""


class BridgeError(OpscopeError, RuntimeError):
    """The part of the recorder that is compiled against torch is unavailable."""


class ReachError(OpscopeError, RuntimeError):
    """A process that runs cannot be asked, or has refused."""


class MissingDependencyError(OpscopeError, ImportError):
    """An optional package is needed for this call; the message names the install command."""


def not_installed(package: str, what: str) -> MissingDependencyError:
    """The error that ``what``, which begins a sentence, needs ``package``, as PyPI calls it."""
    return MissingDependencyError(
        f"{what} needs {package}, which cannot be imported here. "
        f"Run: python -m pip install {package}"
    )
