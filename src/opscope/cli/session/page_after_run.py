"""``opscope run --view``: the page of the trace, once the program has ended."""

from __future__ import annotations

import atexit
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import opscope.cli
from opscope.base.python_process import own_python


def show_when_over(trace: Path) -> None:
    """Serve the page of ``trace`` when this process exits, until it is closed or Ctrl-C.

    A process that a signal ends shows nothing. Called before the recording registers its end, so
    that it is shown after that.
    """
    main = Path(opscope.cli.__file__).parents[1] / "__main__.py"
    command, process = own_python(str(main), "view", str(trace)), os.getpid()

    def show() -> None:
        if os.getpid() == process and trace.is_dir():
            with suppress(KeyboardInterrupt):
                subprocess.run(command, stdin=subprocess.DEVNULL)

    atexit.register(show)
