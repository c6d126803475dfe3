"""Claims a recording of another process; raises an error that says why this is impossible."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from shlex import quote

from opscope.base.artefacts import Artefact, InUseError, LeftKind, claimed
from opscope.base.input_file import unreadable
from opscope.base.locks import Holder, NoLocksError
from opscope.errors import LifecycleError, UsageError

_STILL_RUNS = {
    LeftKind.STREAM: "Wait until it ends; `opscope summary` shows the recording so far.",
    LeftKind.RING: (
        "Request a dump with `opscope attach --dump {process}` if it listens, or with the "
        "signal of its flight recorder. If it is killed, the dump is written automatically."
    ),
}


@contextmanager
def ours(one: Artefact, wait: bool = False) -> Iterator[bool]:
    """Claim an artefact for this process; yields False if it is gone.

    Args:
        wait: if another process makes the trace, wait until it ends.

    Raises:
        LifecycleError: a running process records to it.
        UsageError: another process writes its trace, or the holder is unknown.
        TraceFormatError: opscope did not write it.
    """
    with ExitStack() as held:
        yield _enter(held, one, wait)


def _enter(held: ExitStack, one: Artefact, wait: bool) -> bool:
    try:
        return held.enter_context(claimed(one, wait))
    except InUseError as error:
        raise _in_use(one, error.holder) from error
    except NoLocksError as error:
        raise UsageError(
            f"It is unknown whether the process of {one.path} still runs: {error.strerror}. "
            f"Copy {quote(str(one.folder))} to a disk with file locks, then run `opscope doctor "
            "--recover` there."
        ) from error
    except OSError as error:
        raise unreadable(one.path, error) from error


def _in_use(one: Artefact, holder: Holder) -> LifecycleError | UsageError:
    if holder is Holder.CLAIMANT:
        return UsageError(
            f"Another process writes the trace of {one.path}. Wait for it; if it was killed, "
            "run `opscope doctor --recover` again."
        )
    then = _STILL_RUNS.get(one.kind, "Wait for its end.").format(process=one.process)
    return LifecycleError(
        f"{one.path} belongs to process {one.process}, which still runs, maybe in a container or "
        f"on another machine. {then}"
    )
