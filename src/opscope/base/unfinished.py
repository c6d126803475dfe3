"""Names of what is being written, beside its final place. Whose it is: see ``artefacts``."""

from __future__ import annotations

import os
import uuid

_LONGEST = 100


def unfinished_name(name: str, suffix: str = "") -> str:
    """A hidden name for what will be called ``name``, which no other process uses."""
    return f".{name[:_LONGEST]}.{os.getpid()}-{uuid.uuid4().hex}{suffix}"
