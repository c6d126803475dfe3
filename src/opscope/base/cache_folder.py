"""The folder of results that later processes reuse, such as compiled bridges."""

from __future__ import annotations

import os
from pathlib import Path


def cache_folder() -> Path:
    """``OPSCOPE_CACHE``, else opscope's folder in the user's cache folder."""
    chosen = os.environ.get("OPSCOPE_CACHE")
    if chosen:
        return Path(chosen)
    base = os.environ.get("XDG_CACHE_HOME") or os.path.expanduser("~/.cache")
    return Path(base) / "opscope"
