"""A script that makes the trace of one dump; one process of a folder works at a time.

The program waits for the script's first process, which claims the dump and forks. Many processes
may wait for their turn, so until then they import only what claiming the dump needs.
"""

from __future__ import annotations

import contextlib
import os
import sys
from pathlib import Path
from typing import TYPE_CHECKING

if TYPE_CHECKING or __package__:
    from opscope.base.artefacts import InUseError, at, claimed
    from opscope.base.locks import NoLocksError, turn_of
else:  # run by its path: importing the package would import all that recording needs
    sys.path.append(os.fspath(Path(__file__).resolve().parents[2] / "base"))
    from artefacts import InUseError, at, claimed
    from locks import NoLocksError, turn_of

    sys.path.pop()

_NICE = 10


def _main(spool: Path) -> None:
    artefact = at(spool)
    assert artefact is not None, f"{spool} is not the name of a dump"
    with contextlib.ExitStack() as stack:
        try:
            is_claimed = stack.enter_context(claimed(artefact))
        except InUseError:
            is_claimed = False
        except NoLocksError:  # the file system has no locks: assume that no other process has it
            is_claimed = True
        if not is_claimed or os.fork():
            os._exit(0)
        with contextlib.suppress(OSError):
            os.nice(_NICE)
        os.environ.pop("OPSCOPE_CONTROL", None)
        stack.enter_context(turn_of(spool.parent))
        from opscope.live.flight.write_dump import write_dump

        write_dump(spool)


if __name__ == "__main__":
    _main(Path(sys.argv[1]))
