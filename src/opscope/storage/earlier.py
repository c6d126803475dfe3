"""An earlier trace makes room for a new one; whatever else is in its folder stays."""

from __future__ import annotations

import contextlib
from pathlib import Path

from opscope.base.artefacts import LOCK, LeftKind, below, claimed, locked_folder, remove_parts
from opscope.base.notice import notice
from opscope.base.replacing import replace_folder
from opscope.base.unfinished import unfinished_name
from opscope.storage.manifest import own_files


def replace_rank(final: Path, unfinished: Path) -> None:
    """Give the complete rank ``unfinished`` the name ``final``, in place of an earlier one."""
    with _aside(final) as aside:
        new = unfinished.rename(aside / "new")  # holds the earlier rank after the exchange
        (new / LOCK).unlink(missing_ok=True)
        replace_folder(final, new, aside)
        _delete_all(aside, final, final.name)


def delete_rank(stale: Path, beside: Path) -> None:
    """Delete a rank that the new trace has not; other files go to the folder ``beside`` it."""
    with contextlib.suppress(OSError), _aside(stale) as aside:
        stale.rename(aside / "old")
        _delete_all(aside, beside / f"earlier-{stale.name}", stale.name)


def remove_begun(folder: Path) -> None:
    """Remove what killed processes left that wrote to a folder, or replaced what was there."""
    remove_parts(folder)
    for one in below(folder, LeftKind.REPLACED):
        name = one.name[1:].partition(".")[0]
        with contextlib.suppress(OSError), claimed(one) as is_there:
            if is_there:
                _delete_all(one.path, one.folder / f"earlier-{name}", name)
                (one.path / LOCK).unlink()
                one.path.rmdir()


def _aside(final: Path) -> contextlib.AbstractContextManager[Path]:
    """Where an earlier one goes; a file in it that is not ours and cannot be moved stays there."""
    return locked_folder(final.with_name(unfinished_name(final.name, ".earlier")))


def _delete_all(aside: Path, other_files: Path, name: str) -> None:
    for old in aside.iterdir():
        if old.name != LOCK:
            _delete(old, other_files, name)


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
