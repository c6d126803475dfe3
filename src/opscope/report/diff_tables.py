"""A comparison as tables of text, for the terminal, Markdown and the page."""

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
_LEAST_MOVED_SHARE = 0.8
"""A change counts as moved work if at least this share of it moved."""

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

    title: str
    headings: Sequence[str]  # columns after the first one contain numbers
    rows: Sequence[Sequence[str]]
    left_out: int = 0  # number of rows that are not shown


def headline(diff: Diff) -> list[str]:
    """The first lines: the compared recordings, step time, start-up and peak memory."""
    lines = [f"A: {_side(diff.a)}", f"B: {_side(diff.b)}"]
    if diff.step is not None and diff.mean_step is not None:
        lines.append(f"Step: {_change_text(diff.step)}")
        lines.append(
            f"Mean step: {signed_time(diff.mean_step.change_ns)}. "
            f"Single places: {signed_time(diff.places_ns)} ± "
            f"{time_text(round(diff.places_margin_ns))}; uniform slow-down, as on a slower "
            f"machine: {signed_time(diff.alike_ns)}; interruptions: "
            f"{signed_time(diff.interruptions_ns)}"
        )
    if diff.start_up is not None:
        lines.append(f"Start-up: {_change_text(diff.start_up)}")
    lines += [
        f"Peak memory on {one.device}: {_range(one.a_bytes)} to {_range(one.b_bytes)}"
        + ("" if one.is_changed else ", no difference")
        for one in diff.memory
    ]
    return lines


def closing(diff: Diff) -> list[str]:
    """The last lines: what was not compared and why, and notes."""
    lines = [f"Times were not compared: {reason}." for reason in diff.not_judged]
    lines += [f"Not compared, because it was not recorded: {what}." for what in diff.not_recorded]
    if diff.counts_left_out:
        lines.append(
            f"Bytes of {diff.counts_left_out} places differ from step to step, so they were not "
            "compared."
        )
    judges = diff.step is None or diff.step.verdict is not TimeVerdict.NOT_JUDGED
    if not diff.is_changed and not diff.not_judged and judges:
        lines.append("No difference found.")
    lines += [f"Note: {note}." for note in diff.notes]
    return lines


def tables(diff: Diff, most_rows: int = MOST_ROWS) -> list[DiffTable]:
    """Tables of changes, one for each kind, without empty ones."""
    result = [_times(diff, level, most_rows) for level in _TITLES]
    result.append(_table("Moved, not slower", _TIME_HEADINGS, _moved(diff), most_rows))
    for quantity, title in ((Quantity.CALLS, "Calls a step"), (Quantity.BYTES, "Bytes a step")):
        changes = [one for one in diff.counts if one.quantity is quantity]
        rows = [_count_row(one) for one in changes]
        result.append(_table(title, ("Where", "A", "B", "Change"), rows, most_rows))
    shapes = [(one.name, "; ".join(one.a), "; ".join(one.b)) for one in diff.shapes]
    result.append(_table("Shapes", ("Where", "A", "B"), shapes, most_rows))
    return [table for table in result if table.rows]


def signed_time(nanoseconds: float) -> str:
    """A time with its sign."""
    return ("-" if nanoseconds < 0 else "+") + time_text(round(abs(nanoseconds)))


def _side(side: Compared) -> str:
    names = ", ".join(side.names[:3]) + (", ..." if len(side.names) > 3 else "")
    count = f"{len(side.names)} recordings" if len(side.names) > 1 else "1 recording"
    return f"{names} ({count}, {side.steps:,} steps, times of {side.typical:,} typical ones)"


def _change_text(change: TimeChange) -> str:
    margin = change.margin_ns / change.a_ns if change.a_ns else float("inf")
    margin_text = f" ± {margin:.1%}" if margin != float("inf") else ""
    old, new = time_text(round(change.a_ns)), time_text(round(change.b_ns))
    return f"{old} to {new}, {change.relative:+.1%}{margin_text}: {change.verdict.value}"


def _range(sizes: tuple[int, int]) -> str:
    least, most = sizes
    return bytes_text(most) if least == most else f"{bytes_text(least)}-{bytes_text(most)}"


def _has_moved(change: TimeChange) -> bool:
    return abs(change.moved_ns) >= _LEAST_MOVED_SHARE * abs(change.change_ns)


def _times(diff: Diff, level: Level, most_rows: int) -> DiffTable:
    changes = [one for one in diff.changed(level) if not _has_moved(one)]
    return _table(_TITLES[level], _TIME_HEADINGS, [_row(diff, one) for one in changes], most_rows)


def _moved(diff: Diff) -> list[tuple[str, ...]]:
    return [_row(diff, one) for one in diff.changed(Level.CALL) if _has_moved(one)]


def _row(diff: Diff, change: TimeChange) -> tuple[str, ...]:
    step = diff.step.a_ns if diff.step else 0.0
    verdict = change.verdict.value
    if not change.a_ns or not change.b_ns:
        verdict = "new" if change.verdict is TimeVerdict.SLOWER else "gone"
    if change.moved_ns:
        share = f"{abs(change.moved_ns / change.change_ns):.0%} of it "
        moved = "moved" if _has_moved(change) else f"{share}moved"
        verdict = f"{verdict}, {moved}"
    return (
        change.name,
        time_text(round(change.a_ns)),
        time_text(round(change.b_ns)),
        f"{signed_time(change.change_ns)} ± {time_text(round(change.margin_ns))}",
        f"{change.change_ns / step:+.1%}" if step else "",
        verdict,
    )


def _count_row(changed: CountChange) -> tuple[str, ...]:
    shown = bytes_text if changed.quantity is Quantity.BYTES else str
    change = ("-" if changed.change < 0 else "+") + (
        bytes_text(round(abs(changed.change)))
        if changed.quantity is Quantity.BYTES
        else f"{abs(changed.change):g}"
    )
    return (changed.name, _per_step(changed.a, shown), _per_step(changed.b, shown), change)


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
