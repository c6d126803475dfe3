"""The verdicts as a table, and against the targets."""

from __future__ import annotations

import statistics
from collections.abc import Sequence

from benchmarks.advice.judge import LITTLE, Verdict

TARGETS = {
    "the right fault first": 0.90,
    "the exact line first": 0.85,
    "saving within a factor of 2": 0.75,
}
"""Least share of the programs with a fault."""


def as_markdown(verdicts: Sequence[Verdict]) -> str:
    """One row per program."""
    lines = ["| program | rank | line | promised | real | first finding |"]
    lines += ["| --- | --: | --- | --: | --: | --- |"]
    for one in verdicts:
        if one.is_tuned:
            wrong = ", ".join(one.wrong) or "nothing of medium or high"
            lines.append(f"| {one.program} (tuned) | | | | | {wrong} |")
            continue
        rank = str(one.rank) if one.rank else "silent"
        line = "first" if one.line_is_first else "no"
        lines.append(
            f"| {one.program} | {rank} | {line} | {_amount(one.promised)} | {_amount(one.real)} "
            f"| {one.first} |"
        )
    return "\n".join(lines)


def totals(verdicts: Sequence[Verdict]) -> str:
    """How many of them are right, and how many should be."""
    faults = [one for one in verdicts if not one.is_tuned]
    tuned = [one for one in verdicts if one.is_tuned]
    counts = (
        sum(one.rank == 1 for one in faults),
        sum(one.line_is_first for one in faults),
        sum(one.is_close for one in faults),
    )
    parts = [
        f"{what}: {count} of {len(faults)} (target {target:.0%})"
        for (what, target), count in zip(TARGETS.items(), counts, strict=True)
    ]
    parts.append(_comes_true(faults))
    parts.append(f"silent: {sum(not one.first for one in faults)}")
    wrong = sum(bool(one.wrong) for one in tuned)
    parts.append(f"tuned with a finding of medium or high: {wrong} of {len(tuned)}")
    return "; ".join(parts) + "."


def _comes_true(verdicts: Sequence[Verdict]) -> str:
    """How far the predicted time is from that with the fix, and what saves hardly what it said.

    Of faults that cost time, of which a saving was promised.
    """
    known = [one for one in verdicts if one.error is not None]
    little = sum(one.saves_little for one in known)
    sets = [
        f"{what}: {_off_by([one for one in known if one.is_fitted == is_fitted])}"
        for what, is_fitted in (("fitted", True), ("held out", False))
    ]
    return (
        f"predicted time with the fix: off by {_off_by(known)} in the median (target 10%; "
        f"{', '.join(sets)}); saves less than {LITTLE} of what was said, "
        f"with its whole interval: {little} of {len(known)} (target none)"
    )


def by_finding(verdicts: Sequence[Verdict]) -> str:
    """How far predicted times with the fix are off, a row for each finding."""
    lines = ["| finding | fitted | held out |", "| --- | --: | --: |"]
    for finding in sorted({one.finding for one in verdicts if one.error is not None}):
        own = [one for one in verdicts if one.finding == finding]
        cells = [_off_by([one for one in own if one.is_fitted == fits]) for fits in (True, False)]
        lines.append(f"| {finding} | {' | '.join(cells)} |")
    return "\n".join(lines)


def _off_by(verdicts: Sequence[Verdict]) -> str:
    errors = [one.error for one in verdicts if one.error is not None]
    return f"{statistics.median(errors):.0%} of {len(errors)}" if errors else ""


def _amount(value: float) -> str:
    if value < 0:
        return "unknown"
    return f"{value / 2**20:.0f} MiB" if value > 1 else f"{value:.0%}"
