"""``opscope build``: compile the bridge to torch ahead of time."""

from __future__ import annotations

import time
from typing import Annotated

from opscope.cli.parameters import Option
from opscope.cli.shown.console import Messages
from opscope.recording.bridge import bridge


def build(
    force: Annotated[bool, Option(help="Compile even if the cache has it already.")] = False,
) -> None:
    """Compile the part of opscope that is built against the installed torch.

    This happens by itself at first use. Do it ahead of time in a container image, or on a machine
    that has a compiler for one that has none (set OPSCOPE_CACHE to a folder that both see).
    """
    messages = Messages()
    ready = not force and bridge.status().built
    began = time.monotonic()
    path = bridge.build(force=force)
    if ready:
        messages.say(f"the bridge is there already: {path}")
    else:
        messages.say(f"built in {time.monotonic() - began:.1f} s: {path}")
