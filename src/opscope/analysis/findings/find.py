"""All patterns, applied to a trace."""

from __future__ import annotations

import re
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np

from opscope.analysis.critical_path.graph import WaitGraph, wait_graph
from opscope.analysis.device_time import WORK_KINDS, launched_share
from opscope.analysis.doubts import require_times
from opscope.analysis.findings import (
    allocation,
    computed_again,
    convolution,
    copies,
    data_loading,
    gil,
    gradients,
    graphs,
    growth,
    intermediates,
    interpreter,
    launches,
    lookups,
    loops,
    made_again,
    matmul,
    optimizer,
    outside,
    partly_used,
    precision,
    synchronisation,
    unused_gradients,
)
from opscope.analysis.findings.cold_caches import refilling_ns
from opscope.analysis.findings.delays import waited_share
from opscope.analysis.findings.finding import Finding, Findings, Unchecked
from opscope.analysis.findings.in_turn import in_turn
from opscope.analysis.findings.overlap import general_last
from opscope.analysis.findings.pattern import Evidence, Pattern, missing
from opscope.analysis.findings.replayed import (
    Factors,
    Fix,
    apply_fixes,
    factors_alone,
    saved_share,
    taken_from,
)
from opscope.analysis.findings.sites import RECORD_STACKS
from opscope.analysis.findings.subject import Subject, Values, dropped_share
from opscope.analysis.findings.unexplained import unexplained
from opscope.analysis.findings.unrecorded import (
    Clock,
    clock_alone,
    clock_at_work,
    in_proportion,
    lacks_costs,
    retimed,
)
from opscope.analysis.period import Period, Which, period_of
from opscope.analysis.quantity_text import share_text
from opscope.analysis.torch_listing.listing import TorchListing
from opscope.errors import UsageError
from opscope.reused_memory import reusing_memory
from opscope.trace.ledger_rows import sampled_steps
from opscope.trace.trace import Trace

PATTERNS: tuple[Pattern, ...] = (
    data_loading.IN_PROCESS,
    data_loading.STALLS,
    data_loading.BEGUN_AGAIN,
    made_again.WORKERS,
    synchronisation.SYNCHRONISATION,
    launches.LAUNCH_BOUND,
    gil.GIL,
    interpreter.TINY_OPERATORS,
    interpreter.COLLECTIONS,
    interpreter.RECOMPILATIONS,
    optimizer.SINGLE_TENSOR,
    optimizer.ZEROED_GRADIENTS,
    convolution.CONVOLUTION_BIAS,
    matmul.UNALIGNED,
    matmul.FULL_PRECISION,
    copies.FILLED_ON_HOST,
    copies.CASTS,
    loops.FOR_LOOP_INDEXING,
    loops.TENSOR_BY_TENSOR,
    loops.MODULES_ONE_BY_ONE,
    outside.TIME_OUTSIDE_TORCH,
    computed_again.CONSTANTS,
    computed_again.COPIES,
    computed_again.TWICE,
    computed_again.RESULTS,
    made_again.MODULES,
    lookups.DENSE_GRADIENTS,
    lookups.ONE_HOT,
    intermediates.ATTENTION,
    intermediates.BROADCAST,
    partly_used.PARTLY_USED,
    growth.GROWING_CONCATENATION,
    growth.MEMORY_THAT_GROWS,
    gradients.GRADIENTS_IN_INFERENCE,
    gradients.ANOMALY_DETECTION,
    unused_gradients.UNUSED_GRADIENTS,
    graphs.GROWING_GRAPH,
    graphs.GRAPH_OF_GRADIENTS,
    graphs.RECOMPUTATION,
    precision.DOUBLE_PRECISION,
    allocation.CHURN,
    allocation.DEVICE_GROWTH,
)

_REFILLING = "; with what the rest takes to fetch again what this pushed out of the caches"


@reusing_memory
def find_findings(
    trace: Trace,
    benchmark: bool = False,
    name: str | None = None,
    listing: TorchListing | None = None,
    which: Which | str = Which.STEADY,
) -> Findings:
    """Why is this program slow? All patterns that the trace shows, with what a fix would save.

    Estimates are derived from the recording and say how; they do not add up, as one fix can take
    away what another would have saved.

    Args:
        trace: any.
        benchmark: where a pattern can be measured, run it with and without the fix, in torch on
            this machine, and scale by that. Takes seconds.
        name: a regular expression; all events whose names it matches are one more finding.
        listing: of the part of ``trace`` that is looked at, where it has been made already.
        which: that part: the steady state, the start-up or all.

    Raises:
        UsageError: ``name`` is no regular expression, or there is no such part.
        MissingDependencyError: ``benchmark`` without torch.
    """
    period = period_of(trace, which)
    require_times(period.trace)
    recorded = Subject(period.trace, listing)
    clock = clock_alone(period.trace)
    subject = _in_proportion(recorded, period, clock_at_work(period.trace, clock))
    replayed, drawn_out = _Replayed.of(period, clock), subject.drawn_out
    patterns = [*PATTERNS, *([_name_pattern(name)] if name is not None else [])]
    found, absent, unchecked = [], [], []
    for pattern in patterns:
        seen = recorded if pattern.of_recording else subject
        needs = missing(seen, pattern.needs + pattern.helped_by)
        evidence = _evidence(seen, pattern)
        if needs and evidence is None:
            unchecked.append(Unchecked(pattern.id, pattern.title, needs))
        elif evidence is None:
            absent.append(pattern.id)
        else:
            found.append(_finding(seen, pattern, evidence, benchmark, replayed, drawn_out))
    found.sort(key=lambda finding: (-finding.weight, -finding.time_ns))
    found = general_last(subject, found, {p.id for p in patterns if p.is_general})
    left = unexplained(subject, found)
    return Findings(
        found=tuple(_in_recording(one, period) for one in found),
        absent=tuple(absent),
        unchecked=tuple(unchecked),
        wall_ns=period.wall_ns,
        about=str(period),
        start_up_ns=period.start_up.took_ns,
        start_up=str(period.start_up) if period.which is Which.STEADY else "",
        unexplained=left,
        waited_share=waited_share(period.trace),
        dropped_share=dropped_share(trace),
        sampled=sampled_steps(trace.ledger),
        is_recorded_time=lacks_costs(period.trace),
        launched_elsewhere=1 - launched_share(period.trace),
    )


def _in_recording(finding: Finding, period: Period) -> Finding:
    """With rows of the recording in place of those of its part."""
    fixes = (replace(fix, events=period.in_recording(fix.events)) for fix in finding.fixes)
    return replace(finding, events=period.in_recording(finding.events), fixes=tuple(fixes))


def _in_proportion(recorded: Subject, period: Period, clock: Clock | None) -> Subject:
    """The times of the program alone, and of devices where they were launched."""
    trace = period.trace
    if has_devices(period):
        other = in_turn(trace, wait_graph(period), clock)
    elif clock is not None:
        other = retimed(trace, clock)
    else:
        return recorded
    stood_ns = 0.0 if clock is None else clock.stood_ns
    drawn_out, stretch = in_proportion(other, trace, stood_ns)
    return recorded.at_other_times(drawn_out, stretch, is_alone=clock is not None)


def has_devices(period: Period) -> bool:
    """Whether devices did something in it, and for whom is known."""
    gpu = period.trace.table("gpu")
    is_work = len(gpu) > 0 and bool(np.isin(gpu["kind"], WORK_KINDS).any())
    return is_work and wait_graph(period).knows_launches


def _evidence(subject: Subject, pattern: Pattern) -> Evidence | None:
    """What it finds, as far as that can be seen here."""
    if missing(subject, pattern.needs) or not len(subject.trace.events):
        return None
    return pattern.find(subject)


@dataclass(frozen=True, eq=False)
class _Replayed:
    """Where devices take part: what a finding saves of what the program waits for.

    Without devices findings speak of the main thread's time, and which of several threads another
    waited for is known too rarely to take from them.
    """

    graph: WaitGraph
    alone: Factors

    @classmethod
    def of(cls, period: Period, clock: Clock | None) -> _Replayed | None:
        if not has_devices(period):
            return None
        graph = wait_graph(period)
        return cls(graph, factors_alone(graph, clock))

    def saved_share(self, events: Values, saved_ns: float, fixes: Sequence[Fix]) -> float:
        change = (
            apply_fixes(self.graph, fixes)
            if fixes
            else taken_from(self.graph, self.alone, events, saved_ns)
        )
        return saved_share(self.graph, self.alone, change)


def _finding(
    subject: Subject,
    pattern: Pattern,
    evidence: Evidence,
    benchmark: bool,
    replayed: _Replayed | None,
    drawn_out: float,
) -> Finding:
    measured = pattern.measure(subject, evidence) if benchmark and pattern.measure else None
    derived = evidence.saved_ns if measured is None else measured.saved_ns
    refilling = 0
    if pattern.leaves_caches and measured is None and derived:
        refilling = refilling_ns(subject, evidence.events, derived, evidence.between_calls)
    derived = None if derived is None else min(derived + refilling, subject.wall_ns)
    fixes = evidence.fixes if measured is None and replayed is not None else ()
    saved, alone_ns = derived, (derived or 0) / drawn_out
    if replayed is not None and derived and len(evidence.events):
        saved = round(subject.wall_ns * replayed.saved_share(evidence.events, alone_ns, fixes))
    took = evidence.event_time_ns
    took = subject.duration_ns[evidence.events] if took is None else took
    return Finding(
        id=pattern.id,
        title=pattern.title,
        explanation=evidence.explanation,
        advice=evidence.advice or pattern.advice,
        occurrences=len(evidence.events),
        events=evidence.events,
        time_ns=evidence.time_ns,
        time_share=evidence.time_ns / subject.wall_ns,
        saved_ns=saved,
        saved_share=None if saved is None else saved / subject.wall_ns,
        saved_by=(evidence.saved_by if measured is None else measured.how)
        + (_REFILLING if refilling else ""),
        measured=measured is not None,
        places=evidence.places or subject.sites.places(evidence.events, took),
        place_note="" if subject.sites.known else RECORD_STACKS,
        link=pattern.link,
        saved_bytes=evidence.saved_bytes,
        saved_bytes_share=evidence.saved_bytes_share,
        derived_ns=derived,
        derived_alone_ns=alone_ns,
        fixes=fixes,
    )


def _name_pattern(expression: str) -> Pattern:
    """Events whose names match ``expression`` anywhere."""
    try:
        matches = re.compile(expression).search
    except re.error as error:
        raise UsageError(
            f"{expression!r} is not a regular expression: {error}. Escape characters that mean "
            "something in one, such as . ( ) [ ] * +, with a backslash."
        ) from error

    def find(subject: Subject) -> Evidence | None:
        wanted = [i for i, text in enumerate(subject.listing.texts) if matches(text)]
        rows = np.flatnonzero(np.isin(subject.listing.label, wanted))
        outermost = np.zeros(len(subject.parent), dtype=np.bool_)
        outermost[rows] = True
        total = int(subject.duration_ns[rows[subject.inside(outermost)[rows] < 0]].sum())
        return (
            None
            if not len(rows)
            else Evidence(
                events=rows,
                time_ns=total,
                explanation=(
                    f"{len(rows):,} events of {len(wanted):,} names match {expression!r}; together "
                    f"they take {share_text(total / subject.wall_ns)} of the time."
                ),
                saved_ns=None,
                saved_by="that depends on what you do about them",
            )
        )

    title = f"Events named like {expression}"
    return Pattern(id="name-pattern", title=title, advice="", find=find, of_recording=True)
