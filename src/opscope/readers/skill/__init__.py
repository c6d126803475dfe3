"""The skill file for coding agents."""

from __future__ import annotations

from pathlib import Path

from opscope.errors import UsageError

_NAME = "SKILL.md"


def write_skill(folder: Path) -> Path:
    """Write ``opscope/SKILL.md`` into a folder of skills; returns its path.

    Raises:
        UsageError: the file cannot be written.
    """
    target = folder / "opscope" / _NAME
    try:
        target.parent.mkdir(parents=True, exist_ok=True)
        target.write_bytes((Path(__file__).parent / _NAME).read_bytes())
    except OSError as error:
        raise UsageError(
            f"{target} cannot be written ({error.strerror}). Give another folder."
        ) from error
    return target
