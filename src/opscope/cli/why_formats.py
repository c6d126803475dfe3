"""The account of time as text for people, and as Markdown, JSON or CSV for everything else."""

from __future__ import annotations

import json
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from opscope.analysis.account.account import Account, Entry
from opscope.analysis.account.causes import Cause
from opscope.analysis.findings.finding import Findings
from opscope.analysis.quantity_text import share_text, time_text
from opscope.cli import rows
from opscope.cli.caveats import caveats_of_findings
from opscope.cli.finding_formats import LineTexts, finding_lines, saving_text
from opscope.printable import in_markdown

_MOST_FINDINGS = 3
_MOST_OTHERS = 8
_SMALLEST_SHOWN = 0.001
_SLOW = 1.25
"""How many times the median a step takes of which it is said why."""

CSV_COLUMNS = ("thread", "cause", "time_ns", "share", "error_ns")
_HEADING = ("Where the time went", "Share", "Time", "Per step", "Give or take")


@dataclass(frozen=True)
class Why:
    """What the command shows.

    Attributes:
        account: of the time.
        findings: what to change.
    """

    account: Account
    findings: Findings


def as_text(why: Why, texts: LineTexts) -> RenderableType:
    """The main thread cause by cause, the others in a line each, and what to change."""
    account = why.account
    table = Table(box=None, pad_edge=False, header_style="bold")
    table.add_column(_HEADING[0])
    for heading in _HEADING[1:]:
        table.add_column(heading, justify="right", no_wrap=True)
    for cells in _cells(account):
        table.add_row(*map(Text, cells))
    parts: list[RenderableType] = [Text(_about(why), "dim"), table, Text("")]
    parts += [Text(line) for line in _sentences(account)]
    if foremost := why.findings.foremost(_MOST_FINDINGS):
        parts.append(Text("What to change", "bold"))
        for finding in foremost:
            parts += finding_lines(finding, texts)
    return Group(*parts)


def as_markdown(why: Why, texts: LineTexts) -> str:
    """The same as Markdown."""
    account = why.account
    lines = [in_markdown(_about(why)), "", rows.as_markdown(_HEADING, _cells(account), 1)]
    lines += [f"{in_markdown(line)}\n" for line in _sentences(account)]
    for finding in why.findings.foremost(_MOST_FINDINGS):
        place = f", at `{finding.places[0]}`" if finding.places else ""
        lines.append(f"- {in_markdown(finding.title)}: {saving_text(finding)}{place}")
    return "\n".join(lines) + "\n"


def as_json(why: Why, texts: LineTexts) -> str:
    """One object; see :func:`json_content`."""
    return json.dumps(json_content(why), indent=2) + "\n"


def json_content(why: Why) -> dict[str, Any]:
    """The account (see ``Account.as_dict``), and the findings."""
    return {**why.account.as_dict(), "findings": why.findings.as_dict()["findings"]}


def as_csv(why: Why) -> str:
    """A row for each thread or device and cause."""
    return rows.as_csv(CSV_COLUMNS, csv_rows(why))


def csv_rows(why: Why) -> list[list[object]]:
    """A row for each thread or device and cause."""
    account = why.account
    return [
        [name, entry.cause.name.lower(), entry.time_ns, entry.share, entry.error_ns]
        for row, name in enumerate(account.threads)
        for entry in account.entries(thread=row)
    ]


def _about(why: Why) -> str:
    account = why.account
    per_step = " What one step is: " + account.steps_are + "." if account.steps_are else ""
    about = "; ".join([account.about, *caveats_of_findings(why.findings)])
    return f"Main thread ({account.threads[account.main]}); {about}.{per_step}"


def _cells(account: Account) -> list[tuple[str, ...]]:
    return [
        (
            entry.cause.title,
            share_text(entry.share),
            time_text(entry.time_ns),
            _per_step(account, entry),
            f"± {time_text(entry.error_ns)}" if entry.error_ns else "",
        )
        for entry in account.entries()
        if entry.share >= _SMALLEST_SHOWN
    ]


def _per_step(account: Account, entry: Entry) -> str:
    """The mean over the steps: of what happens in some of them the median would be nothing."""
    if not len(account.steps):
        return ""
    return time_text(int(account.table()[:, entry.cause].mean()))


def _sentences(account: Account) -> Iterator[str]:
    first = account.entries()[:1]
    if first:
        yield f"Most of it is {first[0].cause.title}: {first[0].cause.meaning}"
    yield from _slowest_step(account)
    yield from _other_threads(account)
    yield from account.notes


def _slowest_step(account: Account) -> Iterator[str]:
    """What the slowest step had more of than others."""
    took = account.steps.end_ns - account.steps.start_ns
    if len(took) < 3 or took.max() < _SLOW * np.median(took):
        return
    slowest, table = int(np.argmax(took)), account.table()
    more = table[slowest] - np.median(table, axis=0).astype(np.int64)
    cause = Cause(int(np.argmax(more)))
    yield (
        f"The slowest step, {int(account.steps.number[slowest])}, took "
        f"{time_text(int(took[slowest]))}, {took[slowest] / np.median(took):.1f} times the median: "
        f"{time_text(int(more[cause]))} more of {cause.title}."
    )


def _other_threads(account: Account) -> Iterator[str]:
    """What each other thread or device did while it did something."""
    told = 0
    for row, name in enumerate(account.threads):
        busy = [e for e in account.entries(thread=row) if e.cause is not Cause.IDLE]
        if row == account.main or sum(e.share for e in busy) < _SMALLEST_SHOWN:
            continue
        told += 1
        if told > _MOST_OTHERS:
            yield "More threads are in the JSON."
            return
        parts = ", ".join(f"{e.cause.title} {share_text(e.share)}" for e in busy[:3])
        yield f"{name}: {parts}."
