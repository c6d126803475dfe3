"""The trace that most commands read: the same argument, options and progress everywhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path
from typing import Annotated, TypeAlias

from opscope.cli.console import Messages
from opscope.cli.parameters import Argument, Option
from opscope.errors import UsageError
from opscope.trace.job import missing_ranks
from opscope.trace.load import load
from opscope.trace.manifest import MANIFEST, rank_folders
from opscope.trace.trace import Trace
from opscope.trace.unfinished_recordings import unfinished_recordings

TraceArgument: TypeAlias = Annotated[
    Path | None,
    Argument(
        metavar="TRACE",
        help="Folder of a trace, or a Chrome or execution trace (.json, .json.gz) of any profiler. "
        "[default: the newest NAME.opscope in this folder]",
    ),
]

RankOption: TypeAlias = Annotated[
    int | None,
    Option(metavar="N", help="Which process of a distributed job, where there are several."),
]


PeriodOption: TypeAlias = Annotated[
    str,
    Option(
        metavar="PART",
        help="What to look at: steady leaves out the start-up, start-up is that alone, all is "
        "everything recorded.",
        default="steady",
    ),
]


def open_trace(asked_for: Path | None, rank: int | None) -> tuple[Path, Trace]:
    """Load it, showing that this is going on; says which ranks of its job are not there.

    Args:
        asked_for: where it is; None for the newest in this folder, which is then said.
        rank: which one, where there are several.

    Returns:
        Where it is, and what it holds.

    Raises:
        TraceFormatError, UsageError: as :func:`opscope.load`.
    """
    messages = Messages()
    path = _newest() if asked_for is None else asked_for
    if asked_for is None:
        messages.say(f"{path}, the newest trace in this folder")
    known = sorted(rank_folders(path))
    if rank is None and len(known) > 1:
        raise UsageError(
            f"{path} holds several ranks: {', '.join(map(str, known))}. Choose one with --rank."
        )
    with messages.progress(f"reading {path}"):
        loaded = load(path, rank)
    if missing := missing_ranks(loaded.ledger):
        messages.say(f"{missing}: this is not the whole job")
    return path, loaded


def _newest() -> Path:
    """The trace in this folder that was written last.

    Raises:
        UsageError: there is none.
    """
    written = list(_traces_here())
    if not written:
        raise UsageError(
            f"There is no trace in {os.getcwd()}. Record one with `opscope run train.py`, or say "
            "which trace is meant."
        )
    return max(written)[1]


def _traces_here() -> Iterator[tuple[int, Path]]:
    """When each was written, and where it is; cycles of a schedule are traces of their own."""
    for pattern in ("*.opscope", "*.opscope/cycle-*"):
        for path in Path().glob(pattern):
            manifests = [folder / MANIFEST for folder in rank_folders(path).values()]
            files = [*manifests, *unfinished_recordings(path)]
            times = [file.stat().st_mtime_ns for file in files if file.is_file()]
            if times:
                yield max(times), path
