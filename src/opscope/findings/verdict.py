"""One answer to "is this program slow, and why?", for every view."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, replace
from functools import partial
from typing import Any

import numpy as np

from opscope.analysis.account.account import Account
from opscope.analysis.account.divided import main_row
from opscope.analysis.account.find import find_account
from opscope.analysis.account.process_waits import ProcessWaits, process_waits
from opscope.analysis.account.processor import sampled_threads
from opscope.analysis.recording_cost import costs_of_events_ns
from opscope.analysis.sites import Place
from opscope.analysis.top_operators import has_work, own_ns_of_names
from opscope.base.html_table import html_table
from opscope.base.quantity_text import share_text, time_text
from opscope.columns.causes import WAITS, Cause
from opscope.columns.codes import WaitsFor
from opscope.columns.location import line_texts
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData, derive
from opscope.findings.find import find_findings
from opscope.findings.finding import Finding, Findings
from opscope.findings.pattern import Needs
from opscope.findings.patterns import all_patterns
from opscope.findings.program_time import busy_text, main_thread
from opscope.findings.status import OF_CAUSE, Status
from opscope.findings.subject import Subject
from opscope.timeline.detail import has_detail
from opscope.timeline.doubts import NO_TIMES, doubts_text
from opscope.timeline.period import Period, Which, detailed_period_of, find_which
from opscope.timeline.steps import optimizer_steps
from opscope.timeline.tree.frame_text import python_events

_WORTH_FIXING, SLOW = 0.02, 0.05
"""Least saving that is worth naming, and that makes a program slow; shares of the time."""
_MOST_OF_IT, _MUCH = 0.5, 0.3
_TOO_BUSY = 0.9
"""Share of time waiting for a CPU above which "healthy" means nothing."""
_MOST_NAME = 160  # characters of a name in a sentence
_NOT_ABOUT_TIME = (Status.EVENT_LOOP, Status.MEMORY)
_WITHOUT_WORK = (*WAITS, Cause.DEVICE, Cause.IDLE)
_NOT_THE_PROGRAM = (Cause.DESCHEDULED, Cause.PROFILER)
_FEW_STEPS, _LEAST_NS = 3, 500_000
_RECORDED_FOR_WHY = (Needs.SHAPES, Needs.MEMORY, Needs.STACKS, Needs.MODULES, Needs.LAYERS)
_WRAPPER, _BROADCAST = "DistributedDataParallel.forward", "c10d::broadcast"
_BUFFERS = "Every forward pass sends the buffers of the module to all ranks"
_OF_BUFFERS = (
    "Pass broadcast_buffers=False to DistributedDataParallel, or keep large constant tensors out "
    "of the module's buffers"
)
_MOST_NAMES, _LITTLE = 3, 0.01
_SHORT_LIFE = 0.1  # of the period; a thread that runs for less does not represent it


@dataclass(frozen=True, kw_only=True)
class Verdict:
    """The answer to: is this program slow, and why? Shares are of the period: 0.25 is a quarter.

    Attributes:
        status: the state of the program.
        title: the problem in one line; empty if no problem was found.
        share: share of the problem; 0 if unknown.
        place: the line of the program with most of this time; None if unknown or without a line.
        line: source text of that line; empty if unknown.
        fix: what to change, in one sentence.
        gain_ns: saving of the fix; None if unknown.
        gain_share: the same as a share.
        most: the operators or causes with most time, with their shares.
        step_ns: median duration of a step; 0 without steps.
        wall_ns: duration of the period.
        about: the period in words, as in "steady state, 210 ms, 29 steps".
        unsure: reasons to doubt the answer, one clause each.
        not_looked_for: ids of checks whose data was not recorded.
        record: the command that records this data.
        others: number of further findings.
        next: the command with more details.
        evidence: ids of the findings, and names of the causes, that support the answer.
        causes: share of each cause in the main thread's time.
        own_share: share of profiling overhead; None if not measured.
    """

    status: Status
    title: str = ""
    share: float = 0.0
    place: Place | None = None
    line: str = ""
    fix: str = ""
    gain_ns: int | None = None
    gain_share: float | None = None
    most: tuple[tuple[str, float], ...] = ()
    step_ns: int = 0
    wall_ns: int = 0
    about: str = ""
    unsure: tuple[str, ...] = ()
    not_looked_for: tuple[str, ...] = ()
    record: str = "opscope run"
    others: int = 0
    next: str = "opscope why"
    evidence: tuple[str, ...] = ()
    causes: Mapping[str, float] | None = None
    own_share: float | None = None

    def lines(self, place_text: Callable[[Place], str] = str) -> list[str]:
        """The answer as text, at most four lines; ``place_text`` formats places."""
        return [
            line for line in (self._first(), self._most(), self._change(place_text), self._fix())
            if line
        ]  # fmt: skip

    def __str__(self) -> str:
        return "\n".join(self.lines())

    def _repr_html_(self) -> str:
        return html_table("opscope", (), [[line] for line in self.lines()], texts=(0,))

    def as_dict(self) -> dict[str, Any]:
        """Plain values for JSON."""
        as_it_is = ("title", "fix", "gain_ns", "step_ns", "wall_ns", "about", "next")
        return {
            **{name: getattr(self, name) for name in as_it_is},
            "status": self.status.value,
            "share": round(self.share, 6),
            "place": None if self.place is None else {**self.place.as_dict(), "text": self.line},
            "gain_share": None if self.gain_share is None else round(self.gain_share, 6),
            "most": [{"name": name, "share": round(share, 6)} for name, share in self.most],
            "unsure": list(self.unsure),
            "not_looked_for": list(self.not_looked_for),
            "evidence": list(self.evidence),
            "metrics": self.metrics(),
        }

    def metrics(self) -> dict[str, float]:
        """Numbers for experiment trackers: known values, and the share of every cause."""
        shares = {} if self.causes is None else {one.name.lower(): 0.0 for one in Cause}
        known: dict[str, float | None] = {
            "step_ms": self.step_ns / 1e6 or None,
            "gain_share": self.gain_share if self.title else 0.0,
            "is_healthy": float(self.status is Status.HEALTHY),
            "own_cost_share": self.own_share,
            **{f"share_{name}": share for name, share in {**shares, **(self.causes or {})}.items()},
        }
        return {name: round(value, 6) for name, value in known.items() if value is not None}

    @property
    def _is_of_ranks(self) -> bool:
        return "stragglers" in self.evidence

    def _first(self) -> str:
        of = f" of a step of {time_text(self.step_ns)}" if self.step_ns else " of the time"
        takes = f", {share_text(self.share)}{of}" if self.share else ""
        if self.status is Status.HEALTHY:
            takes = ", little to gain" if self.title else ", nothing to fix was found"
        doubts = [one for one in self.unsure if one not in self.about]  # already in ``about``
        not_sure = "not sure: " if self.status.is_decided else ""
        unsure = f" ({not_sure}{'; '.join(doubts)})" if doubts else ""
        return f"verdict: {self.status.value}{takes}{unsure}"

    def _most(self) -> str:
        names = ", ".join(f"{_shortened(name)} {share_text(share)}" for name, share in self.most)
        return f"most time: {names} of the {self.about}" if names else ""

    def _change(self, place_text: Callable[[Place], str]) -> str:
        if not self.title or self._is_of_ranks:  # the title says what it would save, of the step
            return f"why: {self.title}" if self.title else ""
        saves = ""
        if self.gain_ns is not None and self.gain_share is not None:
            saves = f", saves about {time_text(self.gain_ns)} ({share_text(self.gain_share)})"
        at = "" if self.place is None else f", at {place_text(self.place)}"
        said = f" (`{self.line}`)" if self.line else ""
        return f"what to change: {self.title}{saves}{at}{said}"

    def _fix(self) -> str:
        where, count = "ranks" if self._is_of_ranks else "why --all", len(self.not_looked_for)
        need = "check needs" if count == 1 else "checks need"
        missing = f"{count} {need} more recorded data: {self.record}" if count else ""
        fix = f"fix: {self.fix.rstrip('.')}" if self.fix else ""
        if not fix and not missing and self.status is not Status.HEALTHY:
            fix = f"look closer: {self.next}"
        if self.status is Status.COMMUNICATION and not self.fix:
            fix = "which rank the others wait for: opscope ranks"
        kind = "more" if self.title else "minor"
        more = f"{self.others} {kind}: opscope {where}" if self.others else ""
        return "; ".join(part for part in (fix, more, missing) if part)


def _shortened(name: str) -> str:
    return name if len(name) <= _MOST_NAME else f"{name[: _MOST_NAME - 1]}…"


def find_verdict(trace: TraceData, which: Which | str = Which.STEADY) -> Verdict:
    """The verdict on a trace; the same object for the same trace and period.

    Raises:
        UsageError: the trace has no such period.
    """
    return derive(trace, ("verdict", find_which(which)), partial(_find, trace, which))


def _find(trace: TraceData, which: Which | str) -> Verdict:
    if not trace.has_times or not has_work(trace):
        why = NO_TIMES if not trace.has_times else "no operator was recorded"
        return Verdict(status=Status.TOO_LITTLE, unsure=(why,), next="opscope run")
    return weighed(trace, which, find_findings(trace, which=which), find_account(trace, which))


def weighed(trace: TraceData, which: Which | str, findings: Findings, account: Account) -> Verdict:
    """The verdict from findings and account of a period."""
    period, chosen = detailed_period_of(trace, which), _foremost(findings)
    waits = process_waits(period.trace)
    of_cause = _of_cause(account, findings, waits, _events_share(period.trace))
    took, costs = account.steps.end_ns - account.steps.start_ns, costs_of_events_ns(period.trace)
    verdict = Verdict(
        status=Status.HEALTHY,
        most=most_time(period, account),
        step_ns=int(np.median(took)) if len(took) else 0,
        wall_ns=period.wall_ns,
        about=f"{period}{_left_out(period)}",
        unsure=tuple(_doubts(period, findings, account)),
        not_looked_for=_not_looked_for(findings),
        # The start of the program was in detail, but not representative.
        record="opscope run --why" if has_detail(trace) else "opscope run",
        others=len(findings),
        causes={one.cause.name.lower(): one.share for one in account.entries()},
        own_share=None if costs is None else float(costs.sum()) / period.wall_ns,
    )
    if findings.wall_ns < _LEAST_NS:
        short = f"only {time_text(findings.wall_ns)} of the program were recorded"
        unsure = (*verdict.unsure, short)
        return replace(verdict, status=Status.TOO_LITTLE, unsure=unsure, others=0)
    if chosen is not None and not _outweighs(of_cause, chosen):
        return _unsure_of_others(_of_finding(trace, chosen, verdict), waits)
    if of_cause is not None:
        verdict = _with_buffers(period.trace, _with_cause(*of_cause, verdict))
        return _unsure_of_others(verdict, waits)
    unknown = (verdict.causes or {}).get("unknown", 0.0)
    if unknown >= _MOST_OF_IT:
        doubt = f"no recorded data explains {share_text(unknown)} of the time"
        return replace(verdict, status=Status.TOO_LITTLE, unsure=(*verdict.unsure, doubt))
    return replace(verdict, status=Status.TOO_LITTLE) if _short_threads(period) else verdict


def _unsure_of_others(verdict: Verdict, waits: ProcessWaits) -> Verdict:
    """With a doubt, if it is about waits for processes whose waits for a CPU are unknown."""
    who = {Status.DATA_LOADING: "the DataLoader's workers", Status.COMMUNICATION: "other ranks"}
    is_loader = verdict.status is Status.DATA_LOADING
    if waits.is_known or verdict.status not in who or not (waits.is_loader == is_loader).any():
        return verdict
    doubt = f"whether {who[verdict.status]} waited for a CPU was not recorded"
    return replace(verdict, unsure=(*verdict.unsure, doubt))


def _foremost(findings: Findings) -> Finding | None:
    """Finding that makes the program slow; else one that matters without saving time."""
    ranked = sorted(findings, key=lambda one: -one.weight)
    worth = [one for one in ranked if one.weight >= _WORTH_FIXING]
    general = {one.id for one in all_patterns() if one.is_general}
    if worth and worth[0].id in general:
        # A blocked event loop explains time outside torch. A specific finding precedes a general
        # one if it saves at least half as much.
        enough = max(SLOW, _MOST_OF_IT * worth[0].weight)
        for one in sorted(
            ranked, key=lambda one: (one.status is not Status.EVENT_LOOP, one.id in general)
        ):
            blocks = one.status is Status.EVENT_LOOP and one.time_share >= _MUCH
            if blocks or (one.id not in general and one.weight >= enough):
                return one
    if worth and worth[0].weight >= SLOW:
        return worth[0]
    matters = [one for one in ranked if one.status in _NOT_ABOUT_TIME]
    return next(iter([*matters, *worth]), None)


def _outweighs(cause: tuple[Cause, float] | None, finding: Finding) -> bool:
    """Whether waits for other ranks take clearly more than the finding saves.

    Waits for a CPU outweigh findings that would leave the program healthy.
    """
    if cause is None or cause[0] is Cause.DESCHEDULED:
        return cause is not None and not _is_named(finding)
    return cause[0] is Cause.COLLECTIVE and cause[1] > 2 * finding.weight


def _is_named(finding: Finding) -> bool:
    """Whether the program has the finding's status if the finding is the foremost one."""
    return finding.weight >= SLOW or finding.status in _NOT_ABOUT_TIME


def _of_cause(
    account: Account, findings: Findings, waits: ProcessWaits, events_share: float
) -> tuple[Cause, float] | None:
    """Cause of most of the main thread's time, unless that is work.

    Counts time in steps, if there are enough; time between steps may be opscope's own. A cause does
    not count if its pattern found nothing. Waits for other ranks count without the time in which
    these waited for a CPU, and input and output without the ``events_share`` of it. While a device
    works, it sets the pace, so causes count as far as the busiest one is idle. If waits for a CPU
    are most of the time, a cause has to be large as a share of all time, as an error in these waits
    is. Otherwise, they are the cause.
    """
    of_cause = account.table().sum(axis=0) if len(account.steps) >= _FEW_STEPS else None
    entries = [e for e in account.entries() if e.cause not in _NOT_THE_PROGRAM]
    took = {e.cause: e.time_ns if of_cause is None else int(of_cause[e.cause]) for e in entries}
    if Cause.COLLECTIVE in took:
        counted = waits.counted_share(is_loader=False)
        took[Cause.COLLECTIVE] = int(took[Cause.COLLECTIVE] * counted)
    if Cause.IO in took:
        idle_ns = int(took[Cause.IO] * events_share)
        took[Cause.IO] -= idle_ns
        took[Cause.IDLE] = took.get(Cause.IDLE, 0) + idle_ns
    whole = max(sum(took.values()), 1)
    absent = {one.cause for one in all_patterns() if one.id in findings.absent}
    idle = 1 - account.busiest_device()[1]
    share = {
        cause: min(ns / whole, idle) if cause is not Cause.COLLECTIVE else ns / whole
        for cause, ns in took.items()
        if cause not in absent
    }
    work = share.pop(Cause.OPERATOR, 0.0)
    share.pop(Cause.IDLE, None)  # an event loop without work is not slow
    waited = findings.waited_share or 0.0
    first = max(share, key=lambda cause: share[cause], default=Cause.UNKNOWN)
    leads = share.get(first, 0.0) >= _MUCH
    leads &= first in (Cause.COLLECTIVE, Cause.LOADER) or share.get(first, 0.0) > work
    is_busy = waited >= _MOST_OF_IT
    if leads and (not is_busy or share[first] * (1 - waited) >= _MUCH):
        return (first, share[first])
    return (Cause.DESCHEDULED, 0.0) if (is_busy and leads) or waited >= _TOO_BUSY else None


def _events_share(trace: TraceData) -> float:
    """Share of the main thread's input and output that is waiting for any event, by its samples.

    A service without requests waits so. 0 where functions were recorded, as their names say more,
    and for programs with steps of an optimizer.
    """
    samples = sampled_threads(trace).get(main_thread(trace))
    if samples is None or python_events(trace).any() or len(optimizer_steps(trace)):
        return 0.0
    for_events, any_ns = (
        int(samples.blocked_ns[np.isin(samples.waits_for, kinds)].sum())
        for kinds in ((WaitsFor.READINESS,), (WaitsFor.READINESS, WaitsFor.TRANSFER))
    )
    return for_events / max(any_ns, 1)


def _of_finding(trace: TraceData, finding: Finding, verdict: Verdict) -> Verdict:
    place, others = finding.places[0] if finding.places else None, verdict.others - 1
    first, end, _ = finding.advice.partition(". ")
    return replace(
        verdict,
        status=finding.status if _is_named(finding) else Status.HEALTHY,
        title=finding.title,
        next="opscope why --all" if others else "opscope why",
        place=place,
        line="" if place is None else place.source_text(line_texts(trace)),
        fix=first + end.rstrip(),
        gain_ns=finding.saved_ns,
        gain_share=finding.saved_share,
        others=others,
        evidence=(finding.id,),
    )


def _with_cause(cause: Cause, share: float, verdict: Verdict) -> Verdict:
    status = OF_CAUSE.get(cause, Status.OPERATORS)
    command = verdict.record if verdict.not_looked_for else "opscope why"
    if status is Status.COMMUNICATION:
        command = "opscope ranks"
    evidence = (cause.name.lower(),)
    return replace(verdict, status=status, share=share, next=command, evidence=evidence)


def _with_buffers(trace: TraceData, verdict: Verdict) -> Verdict:
    """With the fix and the line, if most communication is in the wrapper's forward pass."""
    in_wrapper = dict(verdict.most).get(_WRAPPER, 0.0)
    if verdict.status is not Status.COMMUNICATION or in_wrapper < _MOST_OF_IT * verdict.share:
        return verdict
    subject = Subject(trace)
    rows = np.flatnonzero(subject.name_contains(_WRAPPER))
    if not subject.name_contains(_BROADCAST).any():  # it waits for a slow rank
        return verdict
    places = subject.sites.places(rows, subject.duration_ns[rows], with_modules=False)
    place = next(iter(places), None)
    line = "" if place is None else place.source_text(line_texts(trace))
    return replace(verdict, title=_BUFFERS, fix=_OF_BUFFERS, place=place, line=line)


def most_time(period: Period, account: Account) -> tuple[tuple[str, float], ...]:
    """Largest shares of the time: a busy device or a wait of the main thread, then operators."""
    own = own_ns_of_names(period.trace)
    if period.in_detail:  # functions are in the causes
        events, names = period.trace.events, period.trace.names
        used = np.unique(events["name"][events["kind"] <= EventKind.ANNOTATION]).tolist()
        known = {names[row] for row in used if row >= 0}
        own = [one for one in own if one[0] in known]
    own = own[:_MOST_NAMES]
    rows = ((name, took / period.wall_ns) for name, took in own)
    device, busy = account.busiest_device()
    waits = [] if busy > _MOST_OF_IT else list(_without_work(account))
    left = 1 - sum(share for _, share in waits)  # operators inside the wait are not named again
    first = waits or [(f"{device} busy", busy)] * (busy > _LITTLE)
    named = [(name, share) for name, share in rows if _LITTLE <= share <= left]
    return tuple([*first, *named][:_MOST_NAMES])


def _without_work(account: Account) -> Iterator[tuple[str, float]]:
    """Cause of the main thread's idle time, if that is most of it and no other thread did more."""
    first = next(iter(account.entries()), None)
    if first is None or first.share < _MOST_OF_IT or first.cause not in _WITHOUT_WORK:
        return
    others = (row for row in range(len(account.threads)) if row != account.main)
    if not any(_busy_share(account, row) > _MOST_OF_IT * first.share for row in others):
        yield first.cause.title, first.share


def _busy_share(account: Account, thread: int) -> float:
    entries = account.entries(thread=thread)
    return sum(e.share for e in entries if e.cause not in (*_WITHOUT_WORK, Cause.UNKNOWN))


def _doubts(period: Period, findings: Findings, account: Account) -> Iterator[str]:
    if text := doubts_text(period.trace):
        yield text
    if text := busy_text(findings.waited_share):
        yield text
    if text := _short_threads(period):
        yield text
    if findings.sampled:
        yield f"recorded: {findings.sampled}"
    if 0 < len(account.steps) < _FEW_STEPS:
        yield f"only {len(account.steps)} step{'s' * (len(account.steps) > 1)}"


def _short_threads(period: Period) -> str:
    """Doubt about a program that begins a thread for each request; empty for others."""
    events, row = period.trace.events, main_row(period.trace)
    operators = np.bincount(events["thread"][events["kind"] == EventKind.OPERATOR])
    alike = int(np.count_nonzero(operators >= _MOST_OF_IT * operators.max(initial=1)))
    own = events["thread"] == row
    if alike < _FEW_STEPS or not own.any():
        return ""
    start, end = events["start_ns"][own], period.trace.end_ns[own]
    if int(end.max()) - int(start.min()) >= _SHORT_LIFE * period.wall_ns:
        return ""
    return f"the work is in {alike:,} short-lived threads, and one of them was judged"


def _not_looked_for(findings: Findings) -> tuple[str, ...]:
    """Ids of patterns whose missing data `opscope run` records."""
    found = []
    for one in findings.unchecked:
        left = one.needs
        for need in _RECORDED_FOR_WHY:
            left = left.replace(need.value, "")
        found += [one.id] if not left.strip() else []
    return tuple(found)


def _left_out(period: Period) -> str:
    if period.which is not Which.STEADY:
        return ""
    took, leaving = period.start_up.took_ns, period.start_up.exit_ns
    parts = [f"{time_text(took)} of start-up"] if took else []
    parts += [f"{time_text(leaving)} after its end"] if leaving else []
    return f" (besides {' and '.join(parts)})" if parts else ""
