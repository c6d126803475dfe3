"""``opscope diff --run``: records two versions alternately, and accepts or rejects the new one."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path

from opscope.analysis.diff.gate import Judgement, Outcome
from opscope.analysis.diff.result import Diff, TimeVerdict
from opscope.base.printable import printable
from opscope.errors import UsageError
from opscope.readers.decision import Decision, decision_of
from opscope.readers.recorded_run import RecordedRun, record_run

FOLDER = Path("opscope-rounds")
"""Folder of the recordings."""

LEAST = 3
"""Minimum number of rounds: fewer do not show how much recordings of one version differ."""


@dataclass(frozen=True)
class Rounds:
    """The runs of both sides, in the order of rounds."""

    old: tuple[RecordedRun, ...]
    new: tuple[RecordedRun, ...]

    @property
    def traces(self) -> tuple[list[Path], list[Path]]:
        """Traces of the old and of the new side."""
        sides = ([one.trace for one in side if one.trace] for side in (self.old, self.new))
        old, new = sides
        return old, new

    @property
    def outputs(self) -> tuple[bool | None, str]:
        """Whether both versions print and exit alike, with a text; None: runs of one differ."""
        codes = [{one.exit_code for one in side} for side in (self.old, self.new)]
        if codes[0] != codes[1]:
            texts = (", ".join(map(str, sorted(side))) for side in codes)
            return False, "exit codes differ: {} before, {} now".format(*texts)
        ends = [{one.output for one in side} for side in (self.old, self.new)]
        if any(len(side) > 1 for side in ends):
            return None, "runs of one version print different things, so outputs were not compared"
        if ends[0] == ends[1]:
            return True, f"same output, exit code {min(codes[0])}"
        before, after = (_last_line(min(side)) for side in ends)
        return False, f"outputs differ: {before!r} before, {after!r} now"


def record_rounds(
    old: str, new: str, arguments: Sequence[str], count: int, doing: Callable[[str], object]
) -> Rounds:
    """Record both programs ``count`` times, in alternating order, so that neither one always runs
    right after the other.

    Args:
        old: path of a script.
        new: path of the changed script.
        arguments: arguments of both scripts.
        count: number of rounds, at least 3.
        doing: called with a text about each run before it begins.

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
    runs: dict[str, list[RecordedRun]] = {"old": [], "new": []}
    programs = {"old": old, "new": new}
    for number in range(1, count + 1):
        for side in ("old", "new") if number % 2 else ("new", "old"):
            doing(f"round {number} of {count}, {programs[side]}")
            trace = FOLDER / f"{side}-{number}.opscope"
            run = record_run([programs[side], *arguments], trace, options=["--modules"])
            if run.trace is None:
                raise UsageError(
                    f"{programs[side]} was not recorded (exit code {run.exit_code}): "
                    f"{_last_line(run.messages)} Run it alone with `opscope run` first."
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
