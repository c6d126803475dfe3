"""Words that were probably meant for ``opscope run`` and stand where they mean something else."""

from __future__ import annotations

import os
import shlex

from opscope.errors import UsageError
from opscope.launch.program import Program
from opscope.recording.sources import switches

_VALUES_OF_NOTHING = frozenset({"true", "false", "yes", "no", "on", "off", "1", "0"})


def check_no_value_of_a_flag(program: Program) -> None:
    """Refuse ``--shapes true train.py``, where ``true`` stands in the place of the script.

    Raises:
        UsageError: it does.
    """
    word = program.target
    if word.lower() in _VALUES_OF_NOTHING and not program.option and not os.path.exists(word):
        raise UsageError(
            f"There is no script {word!r}. Flags such as --shapes are on when they are there, and "
            f"take no value: leave out {word!r}."
        )


def hint(program: Program) -> str | None:
    """What to say when a switch of ours is among the arguments of the program; None if none is."""
    ours = {switch.flag_name for switch in switches() if switch.flag} | {
        "--flops",
        "--why",
        "--schedule",
    }
    misplaced = [word for word in program.arguments if word.partition("=")[0] in ours]
    if not misplaced:
        return None
    words = ["opscope", "run", *misplaced, *([program.option] if program.option else [])]
    return (
        f"{misplaced[0]} stands after the program and is handed on to it. If it was meant for "
        f"opscope, put it before: {shlex.join([*words, program.target])}"
    )
