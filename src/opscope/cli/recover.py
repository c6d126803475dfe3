"""``opscope recover``: the trace of a recording whose process ended before it was written."""

from __future__ import annotations

from pathlib import Path
from shlex import quote
from typing import Annotated

from opscope.cli.completeness import describe_completeness, end_of_recording
from opscope.cli.console import Messages
from opscope.cli.dump_line import describe_dump
from opscope.cli.parameters import Argument
from opscope.errors import OpscopeError, TraceFormatError
from opscope.flight.left_dumps import finish_dump, left_dumps
from opscope.flight.left_rings import dump_ring, left_rings
from opscope.recording.recovered import NothingRecorded, recover_file, remove_if_nothing
from opscope.trace.address import refuse_address
from opscope.trace.read_part import load_folder
from opscope.trace.unfinished_recordings import unfinished_below


def recover(
    folder: Annotated[
        Path, Argument(metavar="FOLDER", help="Where the trace was to be written to.")
    ],
) -> None:
    """Write the trace of a recording whose program was killed, or crashed.

    What was recorded until then lies in a hidden file in the folder; it becomes the usual trace,
    and the file is removed. `opscope run` does so by itself, unless that was killed too. In a
    folder of dumps of a flight recorder, those that were not finished become traces.
    """
    refuse_address(folder)
    recover_all(folder, Messages())


def recover_all(
    folder: Path, messages: Messages, process: int | None = None, how: str = ""
) -> None:
    """Recover what is unfinished in ``folder``, of one process or of all, and say so.

    Raises:
        TraceFormatError: nothing could be recovered.
    """
    found = list(unfinished_below(folder, process))
    dumps = left_dumps(folder) if process is None else []
    rings = left_rings(folder, process)
    if not found and not dumps and not rings:
        raise TraceFormatError(
            f"There is no unfinished recording in {folder}. If its trace is there, it is complete: "
            "look at it with `opscope summary`."
        )
    failures = [error for path in found if (error := _recover_one(path, messages, how)) is not None]
    failures += [error for one in dumps if (error := _finish_one(one, messages)) is not None]
    failures += [error for one in rings if (error := _dump_one(one, messages, how)) is not None]
    if len(failures) == len(found) + len(dumps) + len(rings):
        raise failures[-1]
    for error in failures:
        messages.fail(str(error))


def _recover_one(path: Path, messages: Messages, how: str) -> OpscopeError | None:
    try:
        with messages.progress(f"recovering {path}"):
            trace, saved = recover_file(path, how)
    except NothingRecorded as error:
        remove_if_nothing(path)
        return error
    except OpscopeError as error:
        return error
    for line in end_of_recording(trace):
        messages.say(line)
    messages.say(describe_completeness(trace, int(trace.ledger["events"]["recorded"])))
    messages.say(f"trace written to {saved}")
    messages.say(f"look closer with `opscope summary {quote(str(saved))}`")
    return None


def _dump_one(ring: Path, messages: Messages, how: str) -> OpscopeError | None:
    try:
        with messages.progress(f"making a dump of {ring}"):
            saved = dump_ring(ring, how)
    except OpscopeError as error:
        return error
    except (OSError, ValueError) as error:
        return TraceFormatError(
            f"{ring} cannot be made into a dump: {error}. Delete it if you do not need it."
        )
    if saved is not None:
        trace = load_folder(saved)
        messages.say(describe_dump(trace))
        for line in end_of_recording(trace):
            messages.say(line)
        messages.say(f"dump written to {saved}")
        messages.say(f"look at it with `opscope summary {quote(str(saved))}`")
    return None


def _finish_one(dump: Path, messages: Messages) -> OpscopeError | None:
    try:
        with messages.progress(f"making a trace of {dump}"):
            saved = finish_dump(dump)
    except OpscopeError as error:
        return error
    except (OSError, ValueError) as error:
        return TraceFormatError(
            f"{dump} cannot be made into a trace: {error}. Delete it if you do not need it."
        )
    if saved is not None:  # by this process
        messages.say(f"dump written to {saved}")
        messages.say(f"look at it with `opscope summary {quote(str(saved))}`")
    return None
