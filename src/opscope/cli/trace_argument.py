"""The trace that most commands read: the same argument, options and progress everywhere."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, TypeAlias

import typer

from opscope.cli.console import Messages
from opscope.errors import UsageError
from opscope.trace.job import missing_ranks
from opscope.trace.load import load
from opscope.trace.store import ranks
from opscope.trace.trace import Trace

TraceArgument: TypeAlias = Annotated[
    Path,
    typer.Argument(
        metavar="TRACE",
        help="Folder of a trace, or a Chrome or execution trace (.json, .json.gz) of any profiler.",
    ),
]

RankOption: TypeAlias = Annotated[
    int | None,
    typer.Option(metavar="N", help="Which process of a distributed job, where there are several."),
]


def open_trace(path: Path, rank: int | None) -> Trace:
    """Load it, showing that this is going on; says which ranks of its job are not there.

    Raises:
        TraceFormatError, UsageError: as :func:`opscope.load`.
    """
    known = ranks(path)
    if rank is None and len(known) > 1:
        raise UsageError(
            f"{path} holds several ranks: {', '.join(map(str, known))}. Choose one with --rank."
        )
    messages = Messages()
    with messages.progress(f"reading {path}"):
        loaded = load(path, rank)
    if missing := missing_ranks(loaded.ledger):
        messages.say(f"{missing}: this is not the whole job")
    return loaded
