"""``opscope status``: what is recorded in a process."""

from __future__ import annotations

import json

from opscope.cli.parameters import ProcessArgument
from opscope.cli.shown.console import Output
from opscope.live.control.client import connect


def status(process: ProcessArgument) -> None:
    """Print as JSON what a process is, and what is recorded in it."""
    with connect(process) as asking:
        said = {key: value for key, value in asking.status.items() if key != "opscope"}
    Output().write(json.dumps(said, indent=1, ensure_ascii=False) + "\n")
