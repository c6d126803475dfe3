"""torch.compile leaves opscope's own code as it is, as it leaves torch.profiler's.

Where a graph breaks, torch.compile looks at every Python function that is called next, to compile
what it can of it. In ours there is nothing to gain: a profile that is started, stopped or looked at
inside a compiled function would be compiled, once per state it is in, and what works on NumPy's
arrays would be turned into torch's operators, which fails.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

_PACKAGE = Path(__file__).parent.parent
_COMPILED = tuple(
    _PACKAGE / file
    for file in (
        "torch_api/annotate.py",
        "recording/compiled_annotations.py",
        "recording/compiled_optimizers.py",
    )
)
"""What becomes part of the functions that it is used in."""


def leave_uncompiled() -> None:
    """Have torch.compile, which was imported just now, pass over opscope's Python code.

    Where torch has changed what this builds on, that code is compiled as any other.
    """
    try:
        from torch._dynamo import trace_rules

        rules: Any = trace_rules
        rules.SKIP_DIRS.extend(_beginnings_of_paths(_PACKAGE))
        rules._recompile_re()
    except (ImportError, AttributeError, TypeError, OSError):
        return


def _beginnings_of_paths(folder: Path) -> Iterator[str]:
    """What the paths of all files in ``folder`` begin with, but of those that are compiled."""
    for entry in folder.iterdir():
        if any(entry in file.parents for file in _COMPILED):
            yield from _beginnings_of_paths(entry)
        elif entry.is_dir():
            yield f"{entry.as_posix()}/"
        elif entry not in _COMPILED:
            yield entry.as_posix()
