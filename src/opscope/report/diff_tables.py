"""A comparison as tables of text, which the terminal, Markdown and the page show alike."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass

from opscope.analysis.diff.result import (
    Compared,
    CountChange,
    Diff,
    Level,
    Quantity,
    TimeChange,
    TimeVerdict,
)
from opscope.analysis.diff.step_costs import PerStep
from opscope.base.quantity_text import bytes_text, time_text

MOST_ROWS = 10
_MOSTLY = 0.8
"""Of a change: so much of it has to have moved for it to be called that."""

_TITLES = {
    Level.PHASE: "Phases",
    Level.MODULE: "Modules",
    Level.OPERATOR: "Operators",
    Level.LINE: "Lines",
    Level.CALL: "Calls",
}
_TIME_HEADINGS = ("Where", "A", "B", "Change", "of the step", "Verdict")


@dataclass(frozen=True)
class DiffTable:
    """One table."""

    title: str  # what is above it
    headings: Sequence[str]  # of the columns; the first is of words, the others of numbers
    rows: Sequence[Sequence[str]]  # as many cells each
    left_out: int = 0  # rows that are not shown


def headline(diff: Diff) -> list[str]:
    """The first lines: what is compared, and the step as a whole."""
    lines = [f"A: {_side(diff.a)}", f"B: {_side(diff.b)}"]
    if diff.step is not None and diff.mean_step is not None:
        lines.append(f"Step: {_whole(diff.step)}")
        lines.append(
            f"Mean step: {signed_time(diff.mean_step.change_ns)}. "
            f"Single places: {signed_time(diff.places_ns)} ± "
            f"{time_text(round(diff.places_margin_ns))}; uniform slow-down, as on a slower "
            f"machine: {signed_time(diff.alike_ns)}; interruptions: "
            f"{signed_time(diff.interruptions_ns)}"
        )
    if diff.start_up is not None:
        lines.append(f"Start-up: {_whole(diff.start_up)}")
    lines += [
        f"Peak memory on {one.device}: {_range(one.a_bytes)} to {_range(one.b_bytes)}"
        + ("" if one.is_changed else ", no difference")
        for one in diff.memory
    ]
    return lines


def closing(diff: Diff) -> list[str]:
    """The last lines: what is not answered, and what a reader has to know."""
    lines = [f"Times were not compared: {reason}." for reason in diff.not_judged]
    lines += [f"Not compared, {what}: {why}." for what, why in diff.not_counted.items()]
    if diff.counts_left_out:
        lines.append(
            f"Bytes of {diff.counts_left_out} places differ from step to step, so they were not "
            "compared."
        )
    if not diff.is_changed and not diff.not_judged:
        lines.append("No difference found.")
    lines += [f"Note: {note}." for note in diff.notes]
    return lines


def tables(diff: Diff, most_rows: int = MOST_ROWS) -> list[DiffTable]:
    """Tables of changes, one for each kind; empty ones are left out."""
    found = [_times(diff, level, most_rows) for level in _TITLES]
    found.append(_table("Moved, not slower", _TIME_HEADINGS, _moved(diff), most_rows))
    for quantity, title in ((Quantity.CALLS, "Calls a step"), (Quantity.BYTES, "Bytes a step")):
        changes = [one for one in diff.counts if one.quantity is quantity]
        rows = [_count_row(one) for one in changes]
        found.append(_table(title, ("Where", "A", "B", "Change"), rows, most_rows))
    shapes = [(one.name, "; ".join(one.a), "; ".join(one.b)) for one in diff.shapes]
    found.append(_table("Shapes", ("Where", "A", "B"), shapes, most_rows))
    return [table for table in found if table.rows]


def signed_time(nanoseconds: float) -> str:
    """A time with its sign."""
    return ("-" if nanoseconds < 0 else "+") + time_text(round(abs(nanoseconds)))


def _side(side: Compared) -> str:
    names = ", ".join(side.names[:3]) + (", ..." if len(side.names) > 3 else "")
    of = f"{len(side.names)} recordings" if len(side.names) > 1 else "1 recording"
    return f"{names} ({of}, {side.steps:,} steps, times of {side.typical:,} typical ones)"


def _whole(one: TimeChange) -> str:
    margin = one.margin_ns / one.a_ns if one.a_ns else float("inf")
    off = f" ± {margin:.1%}" if margin != float("inf") else ""
    return (
        f"{time_text(round(one.a_ns))} to {time_text(round(one.b_ns))}, {one.relative:+.1%}{off}: "
        f"{one.verdict.value}"
    )


def _range(sizes: tuple[int, int]) -> str:
    least, most = sizes
    return bytes_text(most) if least == most else f"{bytes_text(least)}-{bytes_text(most)}"


def _has_moved(one: TimeChange) -> bool:
    return abs(one.moved_ns) >= _MOSTLY * abs(one.change_ns)


def _times(diff: Diff, level: Level, most_rows: int) -> DiffTable:
    changes = [one for one in diff.changed(level) if not _has_moved(one)]
    return _table(_TITLES[level], _TIME_HEADINGS, [_row(diff, one) for one in changes], most_rows)


def _moved(diff: Diff) -> list[tuple[str, ...]]:
    return [_row(diff, one) for one in diff.changed(Level.CALL) if _has_moved(one)]


def _row(diff: Diff, one: TimeChange) -> tuple[str, ...]:
    step = diff.step.a_ns if diff.step else 0.0
    verdict = one.verdict.value
    if not one.a_ns or not one.b_ns:
        verdict = "new" if one.verdict is TimeVerdict.SLOWER else "gone"
    if one.moved_ns:
        part = (
            "moved" if _has_moved(one) else f"{abs(one.moved_ns / one.change_ns):.0%} of it moved"
        )
        verdict = f"{verdict}, {part}"
    return (
        one.name,
        time_text(round(one.a_ns)),
        time_text(round(one.b_ns)),
        f"{signed_time(one.change_ns)} ± {time_text(round(one.margin_ns))}",
        f"{one.change_ns / step:+.1%}" if step else "",
        verdict,
    )


def _count_row(one: CountChange) -> tuple[str, ...]:
    shown = bytes_text if one.quantity is Quantity.BYTES else str
    change = ("-" if one.change < 0 else "+") + (
        bytes_text(round(abs(one.change)))
        if one.quantity is Quantity.BYTES
        else f"{abs(one.change):g}"
    )
    return (one.name, _per_step(one.a, shown), _per_step(one.b, shown), change)


def _per_step(count: PerStep | None, shown: Callable[[int], str]) -> str:
    if count is None:
        return "none"
    if count.is_constant:
        return shown(count.least)
    return f"{shown(count.least)}-{shown(count.most)}, {count.mean:.3g} on average"


def _table(
    title: str, headings: Sequence[str], rows: Iterable[Sequence[str]], most_rows: int
) -> DiffTable:
    rows = list(rows)
    shown = rows if most_rows < 0 else rows[:most_rows]
    return DiffTable(title, headings, shown, len(rows) - len(shown))
