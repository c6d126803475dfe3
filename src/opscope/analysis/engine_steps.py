"""Steps of serving engines, from the names of their spans: phase, requests, tokens.

vLLM's are ``execute_context_2(1024)_generation_14(14)``: requests and, in brackets, their tokens.
SGLang's are ``step[prefill bs=2 toks=1024]``, ``step[DECODE bs=14 ...]``,
``step[mixed bs=16 ext=1024 dec=14]``, ``step[MIXED bs=66 c=2 g=64 c_sq=2048 ...]`` and
``step[idle]``. Any server's are ``prefill``, ``extend`` and ``decode``, without numbers.
"""

from __future__ import annotations

import re
from dataclasses import dataclass, replace
from enum import IntEnum
from typing import Any

import numpy as np

from opscope.base.html_table import ShownTable
from opscope.base.printable import printable
from opscope.base.quantity_text import share_text, time_text
from opscope.base.shown_result import ShownResult
from opscope.columns.schema import EventKind
from opscope.columns.trace_data import TraceData
from opscope.timeline.arrays import Flags, Values
from opscope.timeline.signatures import group_sums
from opscope.timeline.tree.event_tree import event_tree, nearest_ancestor
from opscope.timeline.tree.line_nesting import own_times

_COUNT = r"(\d{1,12})"
_VLLM = re.compile(rf"execute_context_{_COUNT}\({_COUNT}\)_generation_{_COUNT}\({_COUNT}\)")
_SGLANG = re.compile(r"step\[(\w+)((?: \w+=\d{1,18})*)\]")
_SLOW = 2.0  # a step is slow if it takes this many times the median of its phase
_MOST_SLOW, _MOST_OPERATORS = 3, 3
_MOST_OF_STAGE = 5  # operators of a stage


class EnginePhase(IntEnum):
    """Work of an engine in a step."""

    PREFILL = 0
    DECODE = 1
    MIXED = 2
    OTHER = 3


@dataclass(frozen=True)
class PhaseSummary:
    """The steps of one phase.

    Times are nanoseconds, ``requests`` is the mean of a batch, ``operators`` have names and self
    times of those with most time.
    """

    phase: EnginePhase
    steps: int
    median_ns: int
    p99_ns: int
    total_ns: int
    requests: float
    tokens: int
    operators: tuple[tuple[str, int], ...] = ()

    @property
    def tokens_per_s(self) -> float:
        """Tokens per second of time in the steps."""
        return self.tokens * 1e9 / max(self.total_ns, 1)

    def as_dict(self) -> dict[str, Any]:
        """Values for JSON."""
        names = ("steps", "median_ns", "p99_ns", "total_ns", "tokens")
        operators = [{"name": name, "self_ns": took} for name, took in self.operators]
        return {**{name: getattr(self, name) for name in names}, "operators": operators}

    def line(self) -> str:
        """One-line text."""
        tokens = f", {self.tokens_per_s:,.0f} tokens a second" if self.tokens else ""
        whole = max(self.total_ns, 1)
        most = ", ".join(f"{printable(n)} {share_text(t / whole)}" for n, t in self.operators[:3])
        return (
            f"{self.phase.name.lower()}: {self.steps:,} steps, median {time_text(self.median_ns)}, "
            f"p99 {time_text(self.p99_ns)}{tokens}; most time: {most or 'no operator'}"
        )


@dataclass(frozen=True)
class EngineSteps(ShownResult):
    """One row per step, in order of start; arrays have shape (steps,).

    Attributes:
        event: row of its span in ``events``.
        start_ns: Unix time.
        duration_ns: duration on its thread.
        phase: :class:`EnginePhase`.
        requests: number of requests in the batch.
        prefill_tokens: prompt tokens computed.
        decode_tokens: tokens generated.
        slow: what the slowest steps did, in words.
    """

    event: Values
    start_ns: Values
    duration_ns: Values
    phase: Values
    requests: Values
    prefill_tokens: Values
    decode_tokens: Values
    slow: tuple[str, ...]

    def __len__(self) -> int:
        return len(self.event)

    def __str__(self) -> str:
        return "\n".join([str(self._shown()), *self.slow])

    def by_phase(self) -> list[PhaseSummary]:
        """Summary of each phase that occurs."""
        summaries = []
        for phase in EnginePhase:
            in_phase = self.phase == phase
            if not in_phase.any():
                continue
            took = self.duration_ns[in_phase]
            summaries.append(
                PhaseSummary(
                    phase,
                    steps=int(in_phase.sum()),
                    median_ns=int(np.median(took)),
                    p99_ns=int(np.percentile(took, 99)),
                    total_ns=int(took.sum()),
                    requests=float(np.mean(self.requests[in_phase])),
                    tokens=int((self.prefill_tokens + self.decode_tokens)[in_phase].sum()),
                )
            )
        return summaries

    def _shown(self) -> ShownTable:
        """Table by phase; tokens per second refer to the time in its steps."""
        rows = [
            [
                one.phase.name.lower(),
                f"{one.steps:,}",
                time_text(one.median_ns),
                time_text(one.p99_ns),
                f"{one.requests:.1f}",
                f"{one.tokens:,}",
                f"{one.tokens_per_s:,.0f}",
            ]
            for one in self.by_phase()
        ]
        columns = ["phase", "steps", "median", "p99", "requests", "tokens", "tokens a second"]
        return ShownTable(f"{len(self):,} steps of the engine", columns, rows, "")


_PLAIN = {
    "prefill": EnginePhase.PREFILL,
    "extend": EnginePhase.PREFILL,
    "decode": EnginePhase.DECODE,
}


def find_engine_steps(trace: TraceData) -> EngineSteps:
    """Find steps by their names; empty if no span has a name of an engine's step."""
    steps_by_name = {row: about for row, name in enumerate(trace.names) if (about := _about(name))}
    is_annotation = trace.events["kind"] == EventKind.ANNOTATION
    events = np.flatnonzero(is_annotation & np.isin(trace.events["name"], [*steps_by_name]))
    tree = event_tree(trace)
    names = trace.events["name"][events].tolist()
    rows: Values = np.array([steps_by_name[name] for name in names], dtype=np.int64).reshape(-1, 4)
    duration, phase = tree.duration_ns[events], rows[:, 0]
    return EngineSteps(
        event=events,
        start_ns=tree.start_ns[events],
        duration_ns=duration,
        phase=phase,
        requests=rows[:, 1],
        prefill_tokens=rows[:, 2],
        decode_tokens=rows[:, 3],
        slow=_slow_steps(trace, events, duration, phase),
    )


def _about(name: str) -> tuple[int, int, int, int] | None:
    """Phase, requests, prompt tokens and generated tokens from a name; None if it is no step."""
    if match := _VLLM.fullmatch(name):
        contexts, context_tokens, generations, generated = map(int, match.groups())
        phase = EnginePhase.MIXED if contexts and generations else EnginePhase.PREFILL
        if not contexts:
            phase = EnginePhase.DECODE if generations else EnginePhase.OTHER
        return phase, contexts + generations, context_tokens, generated
    if name in _PLAIN:
        return _PLAIN[name], 0, 0, 0
    if match := _SGLANG.fullmatch(name):
        fields = dict(pair.split("=") for pair in match[2].split())
        number = {key: min(int(value), 1 << 40) for key, value in fields.items()}
        return _of_sglang(match[1].lower(), number)
    return None


def _of_sglang(mode: str, number: dict[str, int]) -> tuple[int, int, int, int]:
    batch = number.get("bs", 0)
    if mode in ("extend", "prefill"):
        return EnginePhase.PREFILL, batch, number.get("toks", number.get("c_sq", 0)), 0
    if mode == "decode":
        return EnginePhase.DECODE, batch, 0, number.get("g_sq", batch)
    if mode == "mixed":
        context = number.get("ext", number.get("c_sq", 0))
        generated = number.get("dec", number.get("g_sq", number.get("g", 0)))
        return EnginePhase.MIXED, batch, context, generated
    return EnginePhase.OTHER, batch, number.get("toks", 0), 0


def _slow_steps(
    trace: TraceData, events: Values, duration: Values, phase: Values
) -> tuple[str, ...]:
    """Texts about steps that took more than twice the median of their phase."""
    medians = np.array(
        [np.median(duration[phase == one]) if (phase == one).any() else 0 for one in EnginePhase]
    )
    excess = duration - medians[phase]
    slow = np.flatnonzero(duration > _SLOW * medians[phase])
    slow = slow[np.argsort(-excess[slow], kind="stable")][:_MOST_SLOW]
    if not len(slow):
        return ()
    is_step: Flags = np.zeros(len(trace.events), dtype=np.bool_)
    is_step[events[slow]] = True
    around = nearest_ancestor(event_tree(trace).parent, is_step)
    own = own_times(trace)
    return tuple(
        f"slow: {trace.event_name(int(events[row]))} took {time_text(int(duration[row]))} (median "
        f"{time_text(int(medians[phase[row]]))}): "
        f"{_top_text(trace, np.flatnonzero(around == events[row]), own, int(duration[row]))}"
        for row in slow
    )


def _top_text(trace: TraceData, inside: Values, self_ns: Values, total_ns: int) -> str:
    shares = [
        f"{printable(name)} {share_text(took / max(total_ns, 1))}"
        for name, took in _most_time(trace, inside, self_ns)[:_MOST_OPERATORS]
        if took > 0.01 * total_ns
    ]
    return ", ".join(shares) or "nothing inside it was recorded"


def _most_time(trace: TraceData, inside: Values, self_ns: Values) -> list[tuple[str, int]]:
    """Name and self time of some events by name, largest first."""
    names, where = np.unique(trace.events["name"][inside], return_inverse=True)
    took = group_sums(self_ns[inside], where, len(names))
    order = np.argsort(-took, kind="stable").tolist()
    return [(trace.names[names[row]], int(took[row])) for row in order]


def find_stages(trace: TraceData) -> list[PhaseSummary]:
    """Phases of an engine's steps with their operators; empty without any."""
    steps = find_engine_steps(trace)
    is_step = np.zeros(len(trace.events), dtype=np.bool_)
    is_step[steps.event] = True
    around, self_ns = nearest_ancestor(event_tree(trace).parent, is_step), own_times(trace)
    is_operator = trace.events["kind"] == EventKind.OPERATOR
    stages = []
    for summary in steps.by_phase():
        mine = steps.event[steps.phase == summary.phase]
        inside = np.flatnonzero(is_operator & np.isin(around, mine))
        most = _most_time(trace, inside, self_ns)[:_MOST_OF_STAGE]
        stages.append(replace(summary, operators=tuple(most)))
    return stages
