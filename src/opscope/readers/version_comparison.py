"""``opscope diff --run``: records two versions in turns, and accepts or rejects the new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

from opscope.analysis.diff.gate import Decision, Judgement, Outcome, decision_of
from opscope.analysis.diff.result import Diff, TimeVerdict
from opscope.analysis.diff.step_costs import Side
from opscope.api.diff import open_sides
from opscope.base.printable import printable
from opscope.errors import UsageError
from opscope.readers.recorded_run import RecordedRun, record_turns
from opscope.timeline.stopped_time import without_stops

FOLDER = Path("opscope-rounds")
"""Folder of the recordings."""

_OPTIONS = ("--record", "operators,modules")
LEAST = 3
"""Minimum number of rounds: fewer do not show how much recordings of one version differ."""


class Rounds(NamedTuple):
    """The runs of both sides, in the order of rounds."""

    old: tuple[RecordedRun, ...]
    new: tuple[RecordedRun, ...]

    def sides(self) -> tuple[Side, Side]:
        """The recordings of both, without the times in which their programs were stopped."""
        before, after = ([one.trace for one in side if one.trace] for side in self)
        old, new = (
            replace(side, traces=tuple(map(without_stops, side.traces, [one.stops for one in of])))
            for side, of in zip(open_sides(before, after), self, strict=True)
        )
        return old, new

    @property
    def outputs(self) -> tuple[bool | None, str]:
        """Whether both versions print and exit alike, with a text; None: runs of one differ."""
        codes = [{one.exit_code for one in side} for side in self]
        if codes[0] != codes[1]:
            texts = (", ".join(map(str, sorted(side))) for side in codes)
            return False, "exit codes differ: {} before, {} now".format(*texts)
        ends = [{one.output for one in side} for side in self]
        if any(len(side) > 1 for side in ends):
            return None, "runs of one version print different things, so outputs were not compared"
        if ends[0] == ends[1]:
            return True, f"same output, exit code {min(codes[0])}"
        before, after = (_last_line(min(side)) for side in ends)
        return False, f"outputs differ: {before!r} before, {after!r} now"


def record_rounds(
    old: str,
    new: str,
    arguments: Sequence[str],
    count: int,
    doing: Callable[[str], object],
    is_apart: bool = False,
) -> Rounds:
    """Record both programs ``count`` times, each time both at once, taking turns.

    Args:
        old: path of a script.
        new: path of the changed script.
        arguments: arguments of both scripts.
        count: number of rounds, at least 3.
        doing: called with a text about each round before it begins.
        is_apart: in a round one program begins when the other has ended; every other round begins
            with the new one.

    Raises:
        UsageError: there are too few rounds, a program is not a file, or a run wrote no trace.
    """
    if count < LEAST:
        raise UsageError(f"--run is {count}. Use {LEAST} rounds or more; fewer show nothing.")
    for program in (old, new):
        if not Path(program).is_file():
            raise UsageError(
                f"{program} is not a file. --run takes two scripts, the old one first."
            )
    scripts = {"old": old, "new": new}
    runs: dict[str, list[RecordedRun]] = {"old": [], "new": []}
    for number in range(1, count + 1):
        doing(f"round {number} of {count}")
        order = ("old", "new") if number % 2 else ("new", "old")
        for sides in [order[:1], order[1:]] if is_apart else [order]:
            words = [[scripts[side], *arguments] for side in sides]
            folders = [FOLDER / f"{side}-{number}.opscope" for side in sides]
            for side, run in zip(sides, record_turns(words, folders, _OPTIONS), strict=True):
                if run.trace is None:
                    raise UsageError(
                        f"{scripts[side]} was not recorded (exit code {run.exit_code}): "
                        f"{_last_line(run.messages)} Run it alone with `opscope run` first. If "
                        "both need the same file, port or memory, use --apart."
                    )
                runs[side].append(run)
    return Rounds(tuple(runs["old"]), tuple(runs["new"]))


def decide(diff: Diff, rounds: Rounds, judged: Sequence[Judgement]) -> Decision:
    """Accept the new version if outputs are equal and all conditions of the gate passed.

    Without conditions, the step time decides: accepted if faster, rejected if slower.
    """
    if rounds.outputs[0] is False:
        return Decision.REJECT
    if judged:
        return decision_of(one.outcome for one in judged)
    step = diff.step.verdict if diff.step is not None else TimeVerdict.NOT_JUDGED
    return decision_of([_STEP_OUTCOMES.get(step, Outcome.NOT_JUDGED)])


_STEP_OUTCOMES = {TimeVerdict.FASTER: Outcome.PASSED, TimeVerdict.SLOWER: Outcome.FAILED}


def _last_line(text: str) -> str:
    lines = text.strip().splitlines()
    return printable(lines[-1][:200]) if lines else ""
