"""An earlier trace makes room for a new one; whatever else is in its folder stays."""

from __future__ import annotations

import contextlib
from pathlib import Path

from opscope.notice import notice
from opscope.trace.manifest import own_files
from opscope.trace.replacing import replace_folder
from opscope.unfinished import unfinished_name


def replace_rank(final: Path, unfinished: Path) -> None:
    """Give the complete rank ``unfinished`` the name ``final``, in place of an earlier one."""
    aside = final.with_name(unfinished_name(final.name))
    aside.mkdir()
    try:
        new = unfinished.rename(aside / "new")  # holds the earlier rank after the exchange
        replace_folder(final, new, aside)
        for old in aside.iterdir():
            _delete(old, final, final.name)
    finally:
        with contextlib.suppress(OSError):  # a file that is not ours and could not be moved
            aside.rmdir()


def delete_rank(stale: Path, beside: Path) -> None:
    """Delete a rank that the new trace has not; other files go to the folder ``beside`` it."""
    old = stale.with_name(unfinished_name(stale.name))
    with contextlib.suppress(OSError):
        stale.rename(old)
        _delete(old, beside / f"earlier-{stale.name}", stale.name)


def _delete(old: Path, other_files: Path, name: str) -> None:
    """Delete what opscope wrote into ``old``, once called ``name``; move the rest away."""
    if old.is_symlink():
        old.unlink()
        return
    for file in own_files(old):
        (old / file).unlink(missing_ok=True)
    for entry in sorted(old.iterdir()):
        other_files.mkdir(exist_ok=True)
        kept = _free_path(other_files / entry.name)
        entry.rename(kept)
        if (kept.parent.name, kept.name) != (name, entry.name):
            notice(f"{entry.name} is not opscope's, so it was kept as {kept}")
    old.rmdir()


def _free_path(path: Path) -> Path:
    while path.exists() or path.is_symlink():
        path = path.with_name(f"{path.name}.earlier")
    return path
