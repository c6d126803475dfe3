"""The accounts of several processes, for people: side by side."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import numpy as np
from rich.console import Group, RenderableType
from rich.text import Text

from opscope.analysis.account.causes import Cause
from opscope.analysis.quantity_text import share_text, time_text
from opscope.cli import rows, several_processes
from opscope.cli.narrow import numbers_table, width_of
from opscope.cli.why_formats import Why
from opscope.job.compared_accounts import ComparedAccounts, compare_accounts
from opscope.printable import in_markdown
from opscope.trace.partition import Partition

Whys = Mapping[Partition, Why]

_MOST_CAUSES, _LEAST_SHARE = 6, 0.005
_MOST_DIFFERENCES = 5


def as_text(whys: Whys, slow: Sequence[str], width: int) -> RenderableType:
    """A row for each process, with as many causes as fit; who is slow; who has more of what."""
    compared = compare_accounts({part: why.account for part, why in whys.items()})
    names = [str(process) for process in compared.processes]
    shown = _shown(compared)
    while shown and width_of([("Process", names), *_numbers(compared, shown)]) > width:
        shown = shown[:-1]
    table = numbers_table("Process", names, _numbers(compared, shown), width)
    about = Text("Of the main thread of each process:", "dim")
    return Group(about, table, Text(""), *(Text(line) for line in (*slow, *_sentences(compared))))


def as_markdown(whys: Whys, slow: Sequence[str]) -> str:
    """The same as Markdown."""
    compared = compare_accounts({part: why.account for part, why in whys.items()})
    names = [str(process) for process in compared.processes]
    numbers = _numbers(compared, _shown(compared))
    cells = zip(names, *(column for _, column in numbers), strict=True)
    table = rows.as_markdown(["Process", *(heading for heading, _ in numbers)], cells)
    return table + "".join(f"\n{in_markdown(line)}\n" for line in (*slow, *_sentences(compared)))


def _shown(compared: ComparedAccounts) -> list[Cause]:
    most = [cause for cause in compared.causes if compared.shares[:, cause].max() >= _LEAST_SHARE]
    return most[:_MOST_CAUSES]


def _numbers(compared: ComparedAccounts, shown: list[Cause]) -> list[tuple[str, list[str]]]:
    """Columns, each a heading and its cells."""
    shares = compared.shares
    rest = np.maximum(shares.sum(axis=1) - shares[:, shown].sum(axis=1), 0.0)
    steps = [time_text(step_ns) if step_ns >= 0 else "-" for step_ns in compared.step_ns]
    return [
        ("Step", steps),
        *((cause.title, list(map(share_text, shares[:, cause].tolist()))) for cause in shown),
        ("the rest", list(map(share_text, rest.tolist()))),
    ]


def _sentences(compared: ComparedAccounts) -> Iterator[str]:
    differences = compared.differences
    for one in differences[:_MOST_DIFFERENCES]:
        yield several_processes.difference_text(
            one.cause.title, one.share, one.process, one.middle, compared.compared
        )
    if not differences and compared.compared:
        yield "No process has much more of anything than the others."
    yield "Look closer at one of them, and at what to change there, by choosing it."
