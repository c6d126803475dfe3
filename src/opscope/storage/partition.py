"""The parts of a trace folder: one per process, named by its rank or, without one, by its id."""

from __future__ import annotations

import os
import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from itertools import islice
from pathlib import Path

from opscope.base.input_file import is_folder, unreadable
from opscope.errors import UsageError

RANK, PROCESS = "rank", "process"
_FOLDER = re.compile(rf"({RANK}|{PROCESS})=(\d{{1,9}})")
_CYCLE = re.compile(r"cycle-\d{1,9}")
_MOST_NAMED, _MOST_RANGES = 20, 8
_MOST = {RANK: 99_999, PROCESS: 999_999_999}


@dataclass(frozen=True, order=True)
class Partition:
    """One process of a trace folder.

    Attributes:
        kind: ``rank`` of a distributed job, or ``process``: what has no rank goes by its id.
        number: which one.
    """

    kind: str
    number: int

    def __post_init__(self) -> None:
        if not 0 <= self.number <= _MOST[self.kind]:
            raise UsageError(
                f"{self.kind} is {self.number}. Use a number from 0 to {_MOST[self.kind]}."
            )

    @property
    def folder_name(self) -> str:
        """Name of the part's folder in the trace folder."""
        return f"{self.kind}={self.number:05d}"

    @property
    def option(self) -> str:
        """Command-line option that chooses the part."""
        return f"--{self.kind} {self.number}"

    def __str__(self) -> str:
        return f"{self.kind} {self.number}"


def chosen_partition(rank: int | None, process: int | None = None) -> Partition | None:
    """The one that was asked for; None where neither says."""
    if rank is not None and process is not None:
        raise UsageError("--rank and --process exclude each other. Use only one of them.")
    if rank is not None:
        return Partition(RANK, rank)
    return None if process is None else Partition(PROCESS, process)


def partition_folders(path: Path) -> dict[Partition, Path]:
    """The folders of parts in ``path``, in their order; empty if there are none."""
    if not is_folder(path):
        return {}
    found = {}
    try:
        with os.scandir(path) as entries:
            folders = [entry for entry in entries if _FOLDER.fullmatch(entry.name)]
        for entry in sorted(folders, key=lambda one: one.name):
            match = _FOLDER.fullmatch(entry.name)
            if match and entry.is_dir():
                found[Partition(match[1], int(match[2]))] = path / entry.name
    except OSError as error:
        raise unreadable(path, error) from error
    return {part: found[part] for part in in_order(found)}


def part_of_folder(folder: Path) -> Partition | None:
    """The part that a folder is by its name; None for one called otherwise."""
    match = _FOLDER.fullmatch(folder.name)
    return Partition(match[1], int(match[2])) if match else None


def cycle_folders(folder: Path) -> list[Path]:
    """Folders of a schedule's cycles, in order, each a trace; often none.

    A folder that cannot be looked into has none.
    """
    named = [path for path in folder.glob("cycle-*") if _CYCLE.fullmatch(path.name)]
    found = [path for path in named if not path.is_symlink()]  # which may lead out of the folder
    return sorted(found, key=lambda path: int(path.name.removeprefix("cycle-")))


def choose_part(path: Path, part: Partition | None) -> Path:
    """The folder of a part; ``path`` itself where that has no parts."""
    folders = partition_folders(path)
    if not folders:
        return path
    if part is None and len(folders) == 1:
        return next(iter(folders.values()))
    if part is None:
        raise several_parts(path, folders)
    if part not in folders:
        raise UsageError(f"{path} has no {part}. It contains: {listed(folders)}.")
    return folders[part]


def several_parts(path: Path, parts: Iterable[Partition]) -> UsageError:
    """Error message for a folder in which one part has to be chosen."""
    parts = in_order(parts)
    what = "ranks" if all(part.kind == RANK for part in parts) else "processes"
    return UsageError(
        f"{path} holds several {what} ({listed(parts)}). Say which: load(path, "
        f"{parts[0].kind}={parts[0].number})."
    )


def listed(parts: Iterable[Partition]) -> str:
    """Their numbers: ``0, 1, process 1234``."""
    ordered = in_order(parts)
    texts = [str(part.number) if part.kind == RANK else str(part) for part in ordered]
    more = len(texts) - _MOST_NAMED
    return ", ".join(texts[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")


def in_order(parts: Iterable[Partition]) -> list[Partition]:
    """Ranks by their number, then others by theirs."""
    return sorted(parts, key=lambda part: (part.kind != RANK, part.number))


def parts_text(chosen: Sequence[Partition], among: int) -> str:
    """``all 8 processes``, ``ranks 0-3, 7``, ``rank 3 and process 410``: those of so many."""
    if len(chosen) == among and among > 1:
        return f"all {among} processes"
    ranks = sorted(part.number for part in chosen if part.kind == RANK)
    others = [part for part in chosen if part.kind != RANK]
    named = [f"rank{'s' if len(ranks) > 1 else ''} {ranges_text(ranks)}"] if ranks else []
    return " and ".join([*named, listed(others)] if others else named)


def ranges_text(ranks: list[int]) -> str:
    """``1, 3-7``: as few words as it takes."""
    found = set(ranks)
    begins = [rank for rank in ranks if rank - 1 not in found]
    ends = [rank for rank in ranks if rank + 1 not in found]
    spans = zip(begins, ends, strict=True)
    named = [f"{a}" if a == b else f"{a}-{b}" for a, b in islice(spans, _MOST_RANGES)]
    return ", ".join(named + ["..."] * (len(ends) > _MOST_RANGES))


def or_others(why: str, part: Partition, parts: Iterable[Partition]) -> str:
    """Why one of some processes cannot be read, and how to look at the ranks beside it."""
    others = ranges_text(sorted(one.number for one in parts if one.kind == RANK and one != part))
    if not others:
        return why
    return (
        f"{why} Or choose the other ranks: --rank {others.replace(' ', '')}, or "
        "opscope.Job(path, ranks)."
    )
