"""``opscope run --view``: shows the page of the trace after the end of the program."""

from __future__ import annotations

import atexit
import os
import subprocess
from contextlib import suppress
from pathlib import Path

import opscope.cli
from opscope.base.python_process import own_python


def show_when_over(trace: Path) -> None:
    """Serve the page of ``trace`` when this process exits, until the page is closed or Ctrl-C.

    After a fatal signal no page is shown. Call this before the recording registers its exit
    handler, so that the page comes after it.
    """
    main = Path(opscope.cli.__file__).parents[1] / "__main__.py"
    command, process = own_python(str(main), "view", str(trace)), os.getpid()

    def show() -> None:
        if os.getpid() == process and trace.is_dir():
            with suppress(KeyboardInterrupt):
                subprocess.run(command, stdin=subprocess.DEVNULL)

    atexit.register(show)
