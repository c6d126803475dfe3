"""Makes rollups of what it is told to on standard input, one after the other, in a
process of its own.

Each line is the folder of a part and the one to write to; each answer why that failed, or empty.
"""

from __future__ import annotations

import json
import os
import sys
import tempfile
from pathlib import Path

from opscope.errors import OpscopeError
from opscope.memory_limit import memory_for
from opscope.rollup.write import write_rollup


def main() -> None:
    """Until there are no more lines."""
    # What libraries print while they are imported is no answer.
    answers = os.fdopen(os.dup(1), "w")
    os.dup2(2, 1)
    for line in sys.stdin:
        part, into = json.loads(line)
        answers.write(json.dumps(roll_up(Path(part), Path(into))) + "\n")
        answers.flush()


def roll_up(part: Path, into: Path) -> str:
    """Why it failed; empty where it was made."""
    try:
        with memory_for(f"adding up {part}"):
            into.mkdir(parents=True, exist_ok=True)
            write_rollup(part, into)
    except OpscopeError as error:
        return str(error)
    except OSError as error:
        why = error.strerror or error
        if into == part:
            return f"The rollup of {part} cannot be written: {why}."
        return (
            f"What {part} adds up to cannot be written to {tempfile.gettempdir()}: {why}. "
            "Set TMPDIR to a folder with room."
        )
    return ""


if __name__ == "__main__":
    main()
