"""Runs all patterns on a trace."""

from __future__ import annotations

from dataclasses import replace
from functools import partial

import numpy as np

from opscope.analysis.recording_cost import has_measured_cost
from opscope.analysis.sites import RECORD_STACKS
from opscope.base.reused_memory import reusing_memory
from opscope.columns.ledger import recorded_for
from opscope.columns.trace_data import TraceData, derive
from opscope.findings.finding import Finding, Findings, Unchecked
from opscope.findings.pattern import Evidence, Pattern, missing
from opscope.findings.patterns import all_patterns
from opscope.findings.program_time import waited_share
from opscope.findings.saving import saved_of_wall_ns
from opscope.findings.subject import Flags, Subject, dropped_share
from opscope.findings.time_split import unexplained
from opscope.timeline.doubts import require_times
from opscope.timeline.listing import TorchListing, launched_share
from opscope.timeline.period import Which, detailed_period_of, find_which


def find_findings(
    trace: TraceData,
    benchmark: bool = False,
    listing: TorchListing | None = None,
    which: Which | str = Which.STEADY,
) -> Findings:
    """Find performance problems, with an estimate of what each fix saves.

    Each estimate says how it is derived. Savings do not add up: two fixes may save the same time.

    Computed once for a trace and part, unless measured.

    Args:
        benchmark: measure savings with torch on this machine where possible, in place of estimates.
            Takes seconds.
        listing: torch's listing of the period, if it was made already.
        which: the period: steady state, start-up or all.

    Raises:
        UsageError: the trace has no such period.
        MissingDependencyError: ``benchmark`` without torch.
    """
    compute = partial(_find, trace, benchmark, listing, which)
    return compute() if benchmark else derive(trace, ("findings", find_which(which)), compute)


@reusing_memory
def _find(
    trace: TraceData, benchmark: bool, listing: TorchListing | None, which: Which | str
) -> Findings:
    period = detailed_period_of(trace, which)
    require_times(period.trace)
    is_listed = listing is not None and listing.trace is period.trace
    subject = Subject(period.trace, listing if is_listed else None)
    patterns = all_patterns()
    found, absent, unchecked = [], [], []
    for pattern in patterns:
        needs = missing(subject, pattern.needs + pattern.helped_by)
        evidence = pattern.evidence(subject)
        if needs and evidence is None:
            unchecked.append(Unchecked(pattern.id, pattern.title, needs))
        elif evidence is None:
            absent.append(pattern.id)
        else:
            found.append(_finding(subject, pattern, evidence, benchmark))
    general = {pattern.id for pattern in patterns if pattern.is_general}
    found = _with_remainder(subject, found, general)
    found.sort(key=lambda one: (not one.is_known, -one.weight, -one.time_ns))
    return Findings(
        found=tuple(replace(one, events=period.in_recording(one.events)) for one in found),
        absent=tuple(absent),
        unchecked=tuple(unchecked),
        wall_ns=subject.wall_ns,
        taken_off_ns=max(period.wall_ns - subject.wall_ns, 0),
        about=str(period),
        start_up_ns=period.start_up.took_ns,
        start_up=str(period.start_up) if period.which is Which.STEADY else "",
        unexplained=unexplained(subject, found),
        waited_share=waited_share(period.trace),
        dropped_share=dropped_share(trace),
        sampled=recorded_for(trace.ledger),
        is_recorded_time=bool(trace.ledger) and not has_measured_cost(trace),
        launched_elsewhere=1 - launched_share(period.trace),
    )


def _with_remainder(subject: Subject, found: list[Finding], general: set[str]) -> list[Finding]:
    """Reduce general findings by the savings of findings with a specific cause."""
    others = [one for one in found if one.id not in general and one.saved_ns]
    return [_left(subject, one, others) if one.id in general else one for one in found]


def _left(subject: Subject, general: Finding, others: list[Finding]) -> Finding:
    own_ns, inside, taken_ns = subject.own_ns, _covered(subject, general), 0.0
    for one in others:
        of_one = _covered(subject, one)
        shared = own_ns[of_one & inside].sum() / max(own_ns[of_one].sum(), 1)
        taken_ns += (one.saved_ns or 0) * float(shared)
    if general.saved_ns is None or taken_ns < 1:
        return general
    most_ns = subject.wall_ns - max(one.saved_ns or 0 for one in others)
    left_ns = max(min(general.saved_ns - int(taken_ns), most_ns), 0)
    return replace(
        general,
        saved_ns=left_ns,
        saved_share=left_ns / subject.wall_ns,
        saved_by=f"{general.saved_by}; less the part that other findings save",
    )


def _covered(subject: Subject, finding: Finding) -> Flags:
    """Events of a finding, and events inside them unless inside functions of the program."""
    chosen = subject.flags(finding.events)[:-1]
    return np.asarray(chosen | subject.within(chosen & ~subject.sites.defined_here))


def _finding(subject: Subject, pattern: Pattern, evidence: Evidence, benchmark: bool) -> Finding:
    measured = pattern.measure(subject, evidence) if benchmark and pattern.measure else None
    saved = evidence.saved_ns if measured is None else measured.saved_ns
    if saved is not None:
        saved = saved_of_wall_ns(subject, evidence.events, saved, evidence.saves)
    took = evidence.event_time_ns
    took = subject.duration_ns[evidence.events] if took is None else took
    spent = int(took.sum()) if evidence.time_ns is None else evidence.time_ns
    time_ns = min(spent, subject.wall_ns)  # host and device may overlap
    return Finding(
        id=pattern.id,
        title=pattern.title,
        explanation=evidence.explanation,
        advice=evidence.advice or pattern.advice,
        occurrences=len(evidence.events),
        events=evidence.events,
        time_ns=time_ns,
        time_share=time_ns / subject.wall_ns,
        saved_ns=saved,
        saved_share=None if saved is None else saved / subject.wall_ns,
        saved_by=evidence.saved_by if measured is None else measured.how,
        measured=measured is not None,
        places=evidence.places or subject.sites.places(evidence.events, took),
        place_note="" if subject.sites.known else RECORD_STACKS,
        link=pattern.link,
        status=evidence.status or pattern.status,
        saved_bytes=evidence.saved_bytes,
        saved_bytes_share=evidence.saved_bytes_share,
    )
