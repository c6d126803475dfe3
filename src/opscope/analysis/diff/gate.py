"""Conditions on a comparison, for a build that should fail if a program got worse.

``step<=+2%,memory<=+1%,count==``: a quantity, ``<=`` and the permitted increase, or ``==`` if it
must not change at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from enum import Enum

from opscope.analysis.diff.result import Diff, Level, Quantity, TimeChange, place_text
from opscope.base.quantity_text import bytes_text, time_text
from opscope.errors import UsageError

TIMES = {
    "step": "time of a typical step",
    "places": "step time without interruptions and without a uniform slow-down of the machine",
    "start-up": "time to the end of the first step",
    "phase:NAME": "time of one phase of a step",
    "module:PATH": "time of one module, including submodules",
    "operator:NAME": "time of one operator",
}
EXACT = {
    "memory": "peak memory",
    "count": "calls of every operator",
    "bytes": "bytes that every operator allocates",
    "shapes": "shapes of arguments",
}
"""Quantities of conditions, with explanations."""

_CONDITION = re.compile(r"(?P<what>.+?)\s*(?P<sign><=|==)\s*(?P<limit>[+-]?\d+(?:\.\d*)?%?)?")
_LEVELS = {one.value: one for one in (Level.PHASE, Level.MODULE, Level.OPERATOR)}


class Outcome(str, Enum):
    """Result of a condition."""

    PASSED = "passed"
    FAILED = "failed"
    NOT_JUDGED = "not judged"


class Decision(str, Enum):
    """Whether a new version of a program is accepted."""

    ACCEPT = "accept"
    REJECT = "reject"
    UNDECIDED = "undecided"


@dataclass(frozen=True)
class Condition:
    """One condition."""

    text: str  # text as written
    what: str  # the quantity
    limit: float | None  # permitted increase, as a share; None if it must be equal


@dataclass(frozen=True)
class Judgement:
    """A condition and its result."""

    condition: Condition
    outcome: Outcome
    why: str  # the reason in words


def read_gate(text: str) -> list[Condition]:
    """Parse conditions separated by commas; UsageError for an invalid one."""
    conditions = [_read(one.strip()) for one in text.split(",") if one.strip()]
    if not conditions:
        raise UsageError("The gate has no condition. Write one, such as step<=+2%.")
    return conditions


def judge(diff: Diff, conditions: Iterable[Condition]) -> list[Judgement]:
    """Result of each condition.

    A time passes if its whole confidence interval is within the limit, and fails if all of it is
    above. If the limit is within the interval, the condition is not judged.
    """
    return [_judged(diff, condition) for condition in conditions]


def decision_of(outcomes: Iterable[Outcome]) -> Decision:
    """``accept`` if all conditions passed, ``reject`` if one failed, else ``undecided``."""
    results = set(outcomes)
    if Outcome.FAILED in results:
        return Decision.REJECT
    return Decision.UNDECIDED if Outcome.NOT_JUDGED in results else Decision.ACCEPT


def _read(text: str) -> Condition:
    match = _CONDITION.fullmatch(text)
    known = ", ".join((*TIMES, *EXACT))
    if match is None:
        raise UsageError(
            f"The condition {text!r} cannot be read. Write a quantity and a limit, as in "
            f"step<=+2%, or == for equality, as in count==. Quantities: {known}."
        )
    what, sign, limit = match["what"], match["sign"], match["limit"]
    kind, colon, _ = what.partition(":")
    if not (kind in _LEVELS if colon else what in (*TIMES, *EXACT)):
        raise UsageError(f"There is no quantity {what!r} to set a limit to. Choose from: {known}.")
    if sign == "==":
        return _exact(text, what, limit)
    if limit is None or not limit.endswith("%") or what in ("count", "bytes", "shapes"):
        raise UsageError(
            f"The limit of the condition {text!r} is invalid. Write {what}<=+2%, or == for "
            "equal counts (count, bytes, shapes)."
        )
    return Condition(text, what, float(limit.rstrip("%")) / 100)


def _exact(text: str, what: str, limit: str | None) -> Condition:
    if limit is not None or what not in EXACT:
        raise UsageError(
            f"The condition {text!r} is invalid: == takes no number, and only works after one "
            f"of: {', '.join(EXACT)}."
        )
    return Condition(text, what, None)


def _judged(diff: Diff, condition: Condition) -> Judgement:
    what = condition.what
    if what in ("count", "bytes", "shapes"):
        outcome, why = _count(diff, what)
    elif what == "memory":
        outcome, why = _memory(diff, condition.limit)
    else:
        outcome, why = _time(diff, condition)
    return Judgement(condition, outcome, why)


def _count(diff: Diff, what: str) -> tuple[Outcome, str]:
    if reason := diff.not_counted.get(what):
        return Outcome.NOT_JUDGED, reason
    if what == "shapes":
        names = [one.name for one in diff.shapes]
    else:
        quantity = Quantity.CALLS if what == "count" else Quantity.BYTES
        names = [one.name for one in diff.counts if one.quantity is quantity]
    if not names:
        return Outcome.PASSED, "the same"
    more = f" and {len(names) - 3} more" if len(names) > 3 else ""
    return Outcome.FAILED, f"different: {'; '.join(names[:3])}{more}"


def _memory(diff: Diff, limit: float | None) -> tuple[Outcome, str]:
    if not diff.memory:
        return Outcome.NOT_JUDGED, diff.not_counted.get("bytes") or "no memory was used"
    changes, failed = [], False
    for one in diff.memory:
        before, after = one.a_bytes[1], one.b_bytes[1]
        failed |= one.is_changed if limit is None else after > before * (1 + limit)
        changes.append(f"{one.device} {bytes_text(before)} to {bytes_text(after)}")
    return (Outcome.FAILED if failed else Outcome.PASSED), ", ".join(changes)


def _time(diff: Diff, condition: Condition) -> tuple[Outcome, str]:
    found = _interval(diff, condition.what)
    if isinstance(found, str):
        return Outcome.NOT_JUDGED, found
    before, change, margin = found
    allowed = (condition.limit or 0.0) * before
    text = f"{_signed(change / before)} ± {margin / before:.1%} of {time_text(round(before))}"
    if change - margin > allowed:
        return Outcome.FAILED, text
    if change + margin <= allowed:
        return Outcome.PASSED, text
    return Outcome.NOT_JUDGED, f"{text}: record more steps or repeat the recording"


def _interval(diff: Diff, what: str) -> tuple[float, float, float] | str:
    """First side's value, change and margin; or why they are unknown."""
    if diff.not_judged and what != "start-up":
        return "; ".join(diff.not_judged)
    if what == "start-up":
        one = diff.start_up
        if one is None or not one.a_ns or one.margin_ns == float("inf"):
            return "too few recordings have a recognisable start-up"
        return one.a_ns, one.change_ns, one.margin_ns
    if diff.step is None:
        return "there are no steps"
    if what == "places":
        return diff.step.a_ns, diff.places_ns, diff.places_margin_ns
    one = diff.step if what == "step" else _find(diff, what)
    if one is None:
        return "no such place, or it takes too small a part of a step"
    if not one.a_ns:
        return f"{one.name} is only in the second side"
    return one.a_ns, one.change_ns, one.margin_ns


def _find(diff: Diff, what: str) -> TimeChange | None:
    kind, _, name = what.partition(":")
    level = _LEVELS[kind]
    times = (*diff.whole_modules, *diff.times) if level is Level.MODULE else diff.times
    return next(
        (one for one in times if one.level is level and place_text(one.place) == name),
        None,
    )


def _signed(share: float) -> str:
    return f"{share:+.1%}"
