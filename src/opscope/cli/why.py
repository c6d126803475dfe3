"""Show why a step takes as long as it does: each cause, and what to change.

The time of each thread and device is divided by cause: operators, torch call overhead, Python,
waiting (and for what), the machine, opscope itself, unknown. The parts add up to 100 %. JSON gives
nanoseconds for each step; CSV has a row for each thread and cause.

Below that are the findings with the largest savings. --all lists every finding with its line, its
fix and its saving, and names the checks that could not run. With --all, JSON and CSV contain the
findings.

For a folder with several processes it compares all of them, and names the rank that the others wait
for (in JSON: `stragglers`) and the ranks that differ from the others.
"""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np

from opscope._native import keep_freed_memory
from opscope.analysis.account.account import Account, Entry
from opscope.analysis.account.find import find_account
from opscope.base.quantity_text import share_text, time_text
from opscope.cli.parser import Parser, example
from opscope.cli.trace_argument import Chosen, add_trace, choose_trace, shared_notes
from opscope.cli.views.findings import (
    findings_of_all,
    findings_result,
    foremost_section,
    state_of,
    verdict_section,
)
from opscope.cli.views.results import Result, Section, add_format
from opscope.cli.views.side_by_side import answer, difference_text
from opscope.columns.causes import Cause
from opscope.columns.location import LineTexts, line_texts
from opscope.columns.trace_data import TraceData
from opscope.findings.find import find_findings
from opscope.findings.finding import Findings
from opscope.findings.program_time import busy_text
from opscope.findings.verdict import Verdict, weighed
from opscope.storage.partition import Partition
from opscope.timeline.period import Which
from opscope.timeline.typical_stretch import SAMPLE_EVENTS

if TYPE_CHECKING:
    from opscope.api.job import Job
    from opscope.jobs.account_comparison import ComparedAccounts

_MOST_FINDINGS = 3
_MOST_OTHERS = 8
_MOST_CAUSES, _LEAST_SHARE = 6, 0.005
_MOST_DIFFERENCES = 5
_SMALLEST_SHOWN = 0.001
_SLOW = 1.25
"""A step this many times slower than the median is explained."""

_CSV_HEADINGS = ("thread", "cause", "time_ns", "share", "error_ns")
_HEADINGS = ("Where the time went", "Share", "Time", "Per step", "±")


@dataclass(frozen=True)
class Why:
    """Results that the command shows."""

    account: Account
    findings: Findings
    texts: LineTexts  # source lines of the program
    verdict: Verdict


def options(parser: Parser) -> None:
    """Add the options."""
    add_trace(parser)
    group = parser.add_argument_group("what to change")
    group.add_argument("--all", action="store_true", help="List all findings.")
    group.add_argument(
        "--explain",
        action="store_true",
        help="Like --all, and explain how each saving is estimated.",
    )
    group.add_argument(
        "--benchmark",
        action="store_true",
        help="Like --all, and measure savings with torch on this machine where possible.",
    )
    add_format(parser)
    parser.epilog = example("opscope why", "opscope why train.opscope --all --format md")


def main(args: Namespace) -> None:
    """Print where the time went, or the list of findings."""
    if not args.benchmark:  # a benchmark needs the default allocator of other programs
        keep_freed_memory()
    chosen = choose_trace(args)
    if args.all or args.explain or args.benchmark:
        result = _findings(chosen, args)
    else:
        result = _account(chosen, args.period)
    result.show(args.format)


def _account(chosen: Chosen, period: Which) -> Result:
    def find(trace: TraceData) -> Why:
        account, findings = find_account(trace, period), find_findings(trace, which=period)
        return Why(account, findings, line_texts(trace), weighed(trace, period, findings, account))

    def of_all(results: Mapping[Partition, Why]) -> Result:
        return _of_all(results, chosen.job.only(results))

    return answer(chosen, "adding up", find, result_of, of_all, SAMPLE_EVENTS)


def _findings(chosen: Chosen, args: Namespace) -> Result:
    def find(trace: TraceData) -> tuple[Findings, LineTexts]:
        findings = find_findings(trace, args.benchmark, which=args.period)
        return findings, line_texts(trace)

    def of_all(findings: Mapping[Partition, tuple[Findings, LineTexts]]) -> Result:
        states = {part: [state_of(one)] for part, (one, _) in findings.items()}
        return Result(sections=findings_of_all(findings), lines=shared_notes(states, len(findings)))

    return answer(
        chosen,
        "measuring" if args.benchmark else "looking for findings in",
        find,
        lambda findings: findings_result(*findings, explain=args.explain),
        of_all,
        SAMPLE_EVENTS,
    )


def result_of(why: Why) -> Result:
    """Verdict, main thread by cause, a line for each other thread, and what to change."""
    account = why.account
    rows = [
        [name, entry.cause.name.lower(), entry.time_ns, entry.share, entry.error_ns]
        for row, name in enumerate(account.threads)
        for entry in account.entries(thread=row)
    ]
    return Result(
        sections=[
            verdict_section(why.verdict),
            Section(above=[_above(why)], columns=_HEADINGS, rows=_cells(account)),
            Section(notes=list(_sentences(account))),
            *foremost_section(why.findings, why.texts, _MOST_FINDINGS),
        ],
        content={
            "verdict": why.verdict.as_dict(),
            **account.as_dict(),
            "findings": why.findings.as_dict()["findings"],
        },
        columns=_CSV_HEADINGS,
        rows=rows,
    )


def _of_all(results: Mapping[Partition, Why], job: Job) -> Result:
    """A row for each process with the largest causes, slow ranks, and differing processes."""
    from opscope.jobs.account_comparison import compare_accounts

    slow_ranks = job.slow_ranks()
    compared = compare_accounts({part: why.account for part, why in results.items()})
    stragglers = slow_ranks.sentences() if slow_ranks.compared > 1 else []
    shares = compared.shares
    shown = [cause for cause in compared.causes if shares[:, cause].max() >= _LEAST_SHARE]
    shown = shown[:_MOST_CAUSES]
    rest = np.maximum(shares.sum(axis=1) - shares[:, shown].sum(axis=1), 0.0)
    rows = [
        [
            str(process),
            time_text(step_ns) if step_ns >= 0 else "-",
            *map(share_text, (*own[shown].tolist(), rest_share)),
        ]
        for process, step_ns, own, rest_share in zip(
            compared.processes, compared.step_ns, shares, rest.tolist(), strict=True
        )
    ]
    titles = [cause.title for cause in shown]
    table = Section(
        above=["Main thread of each process:"],
        columns=["Process", "Step", *titles, "the rest"],
        rows=rows,
        optional=titles[::-1],
    )
    return Result(
        sections=[table],
        lines=[*stragglers, *_differences(compared)],
        content={"stragglers": slow_ranks.as_dict()},
    )


def _differences(compared: ComparedAccounts) -> Iterator[str]:
    for one in compared.differences[:_MOST_DIFFERENCES]:
        yield difference_text(one.what, one.share, one.process, one.middle, compared.compared)
    if not compared.differences and compared.compared:
        yield "No process differs much from the others."
    yield "Choose one process to see its causes and findings."


def _above(why: Why) -> str:
    account = why.account
    per_step = " Step: " + account.steps_are + "." if account.steps_are else ""
    about = "; ".join(filter(None, (account.about, busy_text(why.findings.waited_share))))
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
    """Mean time per step: the median would be 0 for a cause that only some steps have."""
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
    durations = account.steps.end_ns - account.steps.start_ns
    if len(durations) < 3 or durations.max() < _SLOW * np.median(durations):
        return
    slowest, table = int(np.argmax(durations)), account.table()
    more = table[slowest] - np.median(table, axis=0).astype(np.int64)
    cause = Cause(int(np.argmax(more)))
    ratio = durations[slowest] / np.median(durations)
    yield (
        f"The slowest step, {int(account.steps.number[slowest])}, took "
        f"{time_text(int(durations[slowest]))}, {ratio:.1f} times the median: "
        f"{time_text(int(more[cause]))} more of {cause.title}."
    )


def _other_threads(account: Account) -> Iterator[str]:
    shown = 0
    for row, name in enumerate(account.threads):
        busy = [e for e in account.entries(thread=row) if e.cause is not Cause.IDLE]
        if row == account.main or sum(e.share for e in busy) < _SMALLEST_SHOWN:
            continue
        shown += 1
        if shown > _MOST_OTHERS:
            yield "--format json has the other threads."
            return
        parts = ", ".join(f"{e.cause.title} {share_text(e.share)}" for e in busy[:3])
        yield f"{name}: {parts}."
