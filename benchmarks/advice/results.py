"""The verdicts as a table, and against the targets."""

from __future__ import annotations

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
    little = sum(one.saves_little for one in faults)
    parts.append(f"saves less than {LITTLE} of the estimate: {little} (target none)")
    parts.append(f"silent: {sum(not one.first for one in faults)}")
    wrong = sum(bool(one.wrong) for one in tuned)
    parts.append(f"tuned with a finding of medium or high: {wrong} of {len(tuned)}")
    return "; ".join(parts) + "."


def _amount(value: float) -> str:
    if value < 0:
        return "unknown"
    return f"{value / 2**20:.0f} MiB" if value > 1 else f"{value:.0%}"
